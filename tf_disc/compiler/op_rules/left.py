"""What has no rule, and why: for the report and docs/ops.md. A name that ends in * stands for all that begin so."""

from __future__ import annotations

LEFT: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "the size of its result depends on data",
        ("Where", "Unique*", "ListDiff", "DynamicPartition", "NonMaxSuppression*", "SegmentSum*", "SegmentMean*",
         "SegmentMax*", "SegmentMin*", "SegmentProd*", "Bincount", "DenseBincount", "SetDiff*"),
    ),
    ("it sorts", ("TopK*", "InTopK*", "NthElement")),
    (
        "it draws random numbers, which are TensorFlow's to draw",
        ("Random*", "StatelessRandom*", "TruncatedNormal", "StatelessTruncated*", "Multinomial", "StatelessMultinomial",
         "ParameterizedTruncatedNormal", "StatefulUniform*", "StatefulStandardNormal*", "StatefulTruncatedNormal",
         "RngReadAndSkip", "RngSkip"),
    ),
    ("a variable's value is read once, outside of the clusters that use it", ("ReadVariableOp", "_ReadVariablesOp")),
    (
        "it changes state, which a cluster never does",
        ("Assign*", "ResourceApply*", "ResourceScatter*", "ResourceSparse*", "ResourceStrided*", "Scatter*", "Apply*",
         "SparseApply*", "VarHandleOp", "VariableV2", "VarIsInitializedOp", "DestroyResourceOp", "Inplace*"),
    ),
    (
        "it holds tensors in a list, a queue, a table or an iterator",
        ("TensorList*", "TensorArray*", "Stack*", "Queue*", "FIFOQueue*", "LookupTable*", "HashTable*", "MutableHashTable*",
         "Iterator*", "Optional*", "*Dataset", "*DatasetV2", "*DatasetV3", "Barrier*", "Stage", "Unstage"),
    ),
    (
        "control flow is TensorFlow's; what its branches and bodies compute is compiled",
        ("If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile", "PartitionedCall",
         "StatefulPartitionedCall", "Switch", "RefSwitch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond",
         "SymbolicGradient", "NoOp", "ControlTrigger"),
    ),
    (
        "it works on strings or bytes",
        ("String*", "Regex*", "StaticRegex*", "AsString", "Decode*", "Encode*", "Parse*", "Substr", "Unicode*", "ReadFile",
         "WriteFile", "MatchingFiles", "Base64*", "ToHash*", "SaveV2", "RestoreV2", "MergeV2Checkpoints"),
    ),
    (
        "convolution and pooling run on TensorFlow's own kernels",
        ("Conv2DBackprop*", "Conv3DBackprop*", "Conv", "DepthwiseConv2dNativeBackprop*", "MaxPoolGrad*", "MaxPool3DGrad*",
         "AvgPoolGrad", "AvgPool3DGrad", "MaxPoolV2", "MaxPoolWithArgmax", "FractionalMaxPool*",
         "FractionalAvgPool*", "Dilation2D*", "LRN", "LRNGrad", "SpaceToBatch",
         "BatchToSpace"),
    ),
    (
        "it resizes or samples images",
        ("Resize*", "CropAndResize*", "ImageProjective*", "ExtractImagePatches", "ExtractVolumePatches",
         "AdjustContrast*", "RGBToHSV", "HSVToRGB"),
    ),
    (
        "it checks or reports: its effect is what it is for",
        ("Assert", "Print", "PrintV2", "CheckNumerics*", "*Summary", "*SummaryV2", "Timestamp",
         "DebugIdentity*"),
    ),
    ("it calls Python", ("PyFunc*", "EagerPyFunc")),
    (
        "it factors or solves matrices, or transforms signals",
        ("Cholesky*", "Matrix*", "Svd", "Qr", "Lu", "SelfAdjointEig*", "Eig", "LogMatrixDeterminant", "BatchMatrix*",
         "TridiagonalSolve", "FFT*", "IFFT*", "RFFT*", "IRFFT*", "BatchFFT*", "BatchIFFT*"),
    ),
    (
        "it works on sparse or ragged tensors",
        ("Sparse*", "Ragged*", "DeserializeSparse", "SerializeSparse", "AddSparse*", "TakeManySparse*"),
    ),
    ("it works on quantized numbers", ("Quantize*", "Quantized*", "Dequantize", "Requantiz*", "FakeQuant*")),
    ("it works on complex numbers", ("Complex*", "Real", "Imag", "Conj", "Angle")),
    (
        "it places or moves values for the graph itself",
        ("Const", "Placeholder*", "_Arg", "_Retval", "_HostSend", "_HostRecv", "_Send", "_Recv", "DiscLaunch"),
    ),
)  # fmt: skip


def why_left(op: str) -> str | None:
    """The reason for which an op of this name has no rule; None where none is recorded.

    An exact name counts before a pattern, and patterns in their order.
    """
    for reason, names in LEFT:
        if op in names:
            return reason
    for reason, names in LEFT:
        for name in names:
            if (name.endswith("*") and op.startswith(name[:-1])) or (
                name.startswith("*") and op.endswith(name[1:])
            ):
                return reason
    return None
