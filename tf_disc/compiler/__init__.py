"""The dynamic-shape compiler: a cluster file in, an artifact (manifest + object) out.

Pure Python on llvmlite. It imports neither TensorFlow nor the C++ side, so its
tests start at once and another frontend can use it.

The way through it, in folder order::

    importer   cluster file (JSON) -> tensor IR, by way of op_rules
    op_rules   one record an op: dtypes, shape rule, lowering, examples
    ir         tensor IR: dims, types, ops, printer, parser, verifier
    passes     tensor IR -> tensor IR, then groups and buffers
    codegen    groups -> loop IR -> LLVM -> object
    pipeline   the list of all of it; worker: the process that serves it
"""

__version__ = "0.1.0"
