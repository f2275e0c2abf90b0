"""Matrix products."""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import FLOATING
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext

#: What TensorFlow multiplies. Integers wrap around.
TYPES = (*FLOATING, "i32", "i64")
_V3 = tuple(t for t in TYPES if t != "f16")


def _matmul_shape(c: RuleContext) -> list[Dims]:
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
    batch = _batch_shape(c)[0][:-2]
    a = c.b.broadcast(c[0], (*batch, *c[0].dims[-2:]))
    b = c.b.broadcast(c[1], (*batch, *c[1].dims[-2:]))
    return c.b.matmul(a, b, c.attr("adj_x", False), c.attr("adj_y", False))


def _batch_matmul_v3(c: RuleContext) -> Value:
    out = c.attr("Tout", "")
    if c[0].dtype != out or c[1].dtype != out:
        raise c.unsupported(f"a product of {c[0].dtype} and {c[1].dtype} in {out}")
    return _batch_matmul(c)


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
        for s in ((3, 0, 2), (65, 17, 33), (5, 3, 1))
        for ta, tb in _FLAGS
    ),
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
        for t in TYPES[1:]
        for s in (_BATCHES[0], _BATCHES[4], _BATCHES[5])
        for ta, tb in _FLAGS
    ),
)
_BROADCAST = (
    *(_batches("f32", s, ta, tb) for s in _BROADCASTS for ta, tb in _FLAGS),
    *(_batches(t, _BROADCASTS[0], False, True) for t in TYPES[1:]),
    Example((Arg("f32", (2, 3, 4)), Arg("f32", (3, 4, 5))), error="InvalidArgument"),
)
_NOT_BROADCAST = (
    Example((Arg("f32", (1, 3, 4)), Arg("f32", (3, 4, 5))), error="InvalidArgument"),
    Example((Arg("f32", (3, 4)), Arg("f32", (3, 4, 5))), error="InvalidArgument"),
)

RULES: list[OpRule] = [
    OpRule(
        "MatMul", {"T": TYPES}, _matmul_shape, _matmul, _MATMUL, cost="heavy", weights=(1,),
        notes="Weights are packed where they are f32.",
    ),
    OpRule("BatchMatMulV2", {"T": TYPES}, _batch_shape, _batch_matmul, (*_SAME, *_BROADCAST), cost="heavy"),
    OpRule("BatchMatMul", {"T": TYPES}, _same_batch_shape, _batch_matmul, (*_SAME, *_NOT_BROADCAST), cost="heavy"),
    OpRule(
        "BatchMatMulV3", {"Ta": _V3, "Tb": _V3, "Tout": _V3}, _batch_shape, _batch_matmul_v3,
        (
            *(
                Example(e.args, {**e.attrs, "Tout": e.args[0].dtype})
                for e in (*_SAME[:4], *_SAME[28:], *_BROADCAST)
                if not e.error
            ),
        ),
        cost="heavy",
    ),
]  # fmt: skip
