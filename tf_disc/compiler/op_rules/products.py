"""Matrix products."""

from __future__ import annotations

from tf_disc.compiler.ir.dims import product
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import FLOATING
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext

#: What TensorFlow multiplies. Integers wrap around.
TYPES = (*FLOATING, "i32", "i64")
_BATCH_TYPES = (*TYPES, "i16")
#: The third form also multiplies bytes, into i32 or bf16. It has no f16.
_V3_RESULTS = tuple(t for t in _BATCH_TYPES if t != "f16")
_V3_OPERANDS = (*_V3_RESULTS, "i8", "u8")


def matmul_shape(c: RuleContext) -> list[Dims]:
    """The shape of a product of two matrices."""
    if len(c[0].dims) != 2 or len(c[1].dims) != 2:
        raise c.unsupported("MatMul takes two matrices")
    ta, tb = c.attr("transpose_a", False), c.attr("transpose_b", False)
    return [(c[0].dims[1 if ta else 0], c[1].dims[0 if tb else 1])]


def _matmul(c: RuleContext) -> Value:
    return c.b.matmul(c[0], c[1], c.attr("transpose_a", False), c.attr("transpose_b", False))


def _batch_shape(c: RuleContext) -> list[Dims]:
    if len(c[0].dims) < 2 or len(c[1].dims) < 2:
        raise c.unsupported("takes operands of rank 2 or more")
    batch = c.b.broadcast_dims(c[0].dims[:-2], c[1].dims[:-2])
    m = c[0].dims[-1 if c.attr("adj_x", False) else -2]
    n = c[1].dims[-2 if c.attr("adj_y", False) else -1]
    return [(*batch, m, n)]


def _batch_matmul(c: RuleContext) -> Value:
    out = c.attr("Tout", c[0].dtype)
    # The low bits of an i32 product are the i16 one; bytes are exact in bf16.
    wide = "i32" if out == "i16" else out
    shape = _batch_shape(c)[0]
    a, b = (v if v.dtype == wide else c.b.elementwise("cast", v, dtype=wide) for v in c.inputs)
    adj_x, adj_y = c.attr("adj_x", False), c.attr("adj_y", False)
    if not adj_x and _is_one_matrix(b) and not _is_turned(a):
        rows = c.b.reshape(a, [product(a.dims[:-1]), a.dims[-1]])
        result = c.b.matmul(rows, c.b.reshape(b, b.dims[-2:]), False, adj_y)
        result = c.b.reshape(result, shape)
    else:
        a, b = (c.b.broadcast(v, (*shape[:-2], *v.dims[-2:])) for v in (a, b))
        result = c.b.matmul(a, b, adj_x, adj_y)
    return result if out == wide else c.b.elementwise("cast", result, dtype=out)


def _is_one_matrix(value: Value) -> bool:
    """True for what all matrices of the batch are multiplied by: their rows are those of one product."""
    return all(d.is_one for d in value.dims[:-2])


def _is_turned(value: Value) -> bool:
    """True where rows would have to be copied to follow each other."""
    return value.op is not None and value.op.name == "transpose"


def _same_batch_shape(c: RuleContext) -> list[Dims]:
    """BatchMatMul, the first, does not broadcast."""
    if len(c[0].dims) != len(c[1].dims):
        raise c.unsupported("takes operands of one rank")
    for a, b in zip(c[0].dims[:-2], c[1].dims[:-2], strict=True):
        c.b.require(b, "==", a, "sizes of the batch agree")
    return _batch_shape(c)


_SIZES = ((3, 4, 5), (1, 1, 1), (0, 3, 2), (3, 0, 2), (3, 4, 0), (65, 17, 33), (16, 64, 48))
_FLAGS = ((False, False), (False, True), (True, False), (True, True))
_BATCHES = (
    ((2,), (2,), 3, 4, 5), ((2, 3), (2, 3), 7, 1, 2), ((0,), (0,), 2, 2, 2), ((3,), (3,), 0, 2, 2), ((2,), (2,), 2, 0, 2),
    ((2, 2), (2, 2), 33, 16, 65), ((2,), (2,), 5, 3, 1),
)  # fmt: skip
_BROADCASTS = (((2, 1), (1, 3), 2, 5, 3), ((), (4,), 3, 2, 1), ((3,), (), 2, 4, 3))

_Batch = tuple[tuple[int, ...], tuple[int, ...], int, int, int]


def _matrices(dtype: str, sizes: tuple[int, int, int], ta: bool, tb: bool) -> Example:
    m, k, n = sizes
    a = Arg(dtype, (k, m) if ta else (m, k), "finite")
    b = Arg(dtype, (n, k) if tb else (k, n), "finite")
    return Example((a, b), {"transpose_a": ta, "transpose_b": tb})


def _batches(dtype: str, batch: _Batch, ta: bool, tb: bool, **attrs: object) -> Example:
    p, q, m, k, n = batch
    a = Arg(dtype, (*p, *((k, m) if ta else (m, k))), "finite")
    b = Arg(dtype, (*q, *((n, k) if tb else (k, n))), "finite")
    return Example((a, b), {"adj_x": ta, "adj_y": tb, **attrs})


_MATMUL = (
    *(_matrices("f32", s, ta, tb) for s in _SIZES for ta, tb in _FLAGS),
    *(
        _matrices(t, s, ta, tb)
        for t in TYPES[1:]
        for s, (ta, tb) in zip(
            ((3, 0, 2), (5, 3, 1), (65, 17, 33), (33, 65, 17)), _FLAGS, strict=True
        )
    ),
    # Large enough to be cut into blocks of columns.
    _matrices("f64", (20, 300, 1000), False, False),
    _matrices("i32", (130, 60, 700), True, True),
    _matrices("i64", (64, 130, 257), False, True),
    # TensorFlow's own gradients say so, for the sake of another device.
    Example(
        (Arg("f32", (2, 3), "finite"), Arg("f32", (3, 2), "finite")),
        {"grad_a": True, "grad_b": True},
    ),
    # Large numbers wrap around.
    *(
        Example((Arg(t, (1, 2), values=(m, m)), Arg(t, (2, 1), values=(m, 3))))
        for t, m in (("i32", 2**31 - 1), ("i64", 2**63 - 1))
    ),
    # What is not finite spreads as IEEE says, zeros or not.
    *(
        Example(
            (
                Arg(t, (2, 3), values=(0, 1, float("inf"), 0, 0, 1)),
                Arg(t, (3, 3), values=(1, float("inf"), 2, 0, 1, float("nan"), 0, 1, 1)),
            )
        )
        for t in ("f32", "f64")
    ),
    Example((Arg("f32", (2, 3)), Arg("f32", (4, 2))), error="InvalidArgument"),
)
_SAME = (
    *(_batches("f32", s, ta, tb) for s in _BATCHES for ta, tb in _FLAGS),
    *(
        _batches(t, s, ta, tb)
        for t in _BATCH_TYPES[1:]
        for s, (ta, tb) in zip((_BATCHES[0], _BATCHES[4], _BATCHES[5]), _FLAGS[1:], strict=True)
    ),
)
_BROADCAST = (
    *(_batches("f32", s, ta, tb) for s in _BROADCASTS for ta, tb in _FLAGS),
    *(_batches(t, _BROADCASTS[0], False, True) for t in _BATCH_TYPES[1:]),
    Example((Arg("f32", (2, 3, 4)), Arg("f32", (3, 4, 5))), error="InvalidArgument"),
)
_NOT_BROADCAST = (
    Example((Arg("f32", (1, 3, 4)), Arg("f32", (3, 4, 5))), error="InvalidArgument"),
    Example((Arg("f32", (3, 4)), Arg("f32", (3, 4, 5))), error="InvalidArgument"),
)

_V3 = (
    *(
        Example(e.args, {**e.attrs, "Tout": e.args[0].dtype})
        for e in (*_SAME[:4], *_SAME[28:], *_BROADCAST)
        if not e.error and e.args[0].dtype in _V3_RESULTS
    ),
    *(
        Example((Arg(a, (2, 3, 40)), Arg(b, (40, 5), "finite")), {"Tout": out})
        for a, b, out in (
            ("i8", "i8", "i32"), ("u8", "i8", "i32"), ("i8", "u8", "i32"), ("u8", "u8", "i32"),
        )
    ),
    # Small numbers: TensorFlow rounds its sums to bf16, too.
    *(
        Example((Arg(a, (2, 3, 17), "finite", high=high), Arg("bf16", (17, 5), "finite")), {"Tout": "bf16"})
        for a, high in (("i8", 4), ("u8", 4))
    ),
    Example((Arg("bf16", (2, 3, 17), "finite"), Arg("u8", (17, 5), high=4)), {"Tout": "bf16"}),
)  # fmt: skip

RULES: list[OpRule] = [
    OpRule(
        "MatMul", {"T": TYPES}, matmul_shape, _matmul, _MATMUL, cost="heavy", weights=(1,),
        notes="Weights are packed where they are f32.",
    ),
    OpRule(
        "BatchMatMulV2", {"T": _BATCH_TYPES}, _batch_shape, _batch_matmul, (*_SAME, *_BROADCAST), cost="heavy",
        weights=(1,),
    ),
    OpRule(
        "BatchMatMul", {"T": TYPES}, _same_batch_shape, _batch_matmul,
        (*(e for e in _SAME if e.args[0].dtype != "i16"), *_NOT_BROADCAST), cost="heavy",
    ),
    OpRule(
        "BatchMatMulV3", {"Ta": _V3_OPERANDS, "Tb": _V3_OPERANDS, "Tout": _V3_RESULTS}, _batch_shape, _batch_matmul,
        _V3, cost="heavy", weights=(1,),
    ),
]  # fmt: skip
