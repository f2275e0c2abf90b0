"""Matrix products."""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext


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


_MATMUL = tuple(
    Example(
        (
            Arg("f32", (k, m) if ta else (m, k), "finite"),
            Arg("f32", (n, k) if tb else (k, n), "finite"),
        ),
        {"transpose_a": ta, "transpose_b": tb},
    )
    for m, k, n in (
        (3, 4, 5),
        (1, 1, 1),
        (0, 3, 2),
        (3, 0, 2),
        (3, 4, 0),
        (65, 17, 33),
        (16, 64, 48),
    )
    for ta in (False, True)
    for tb in (False, True)
)
_BATCH = tuple(
    Example(
        (
            Arg("f32", (*p, *((k, m) if ta else (m, k))), "finite"),
            Arg("f32", (*q, *((n, k) if tb else (k, n))), "finite"),
        ),
        {"adj_x": ta, "adj_y": tb},
    )
    for p, q, m, k, n in (
        ((2,), (2,), 3, 4, 5), ((2, 3), (2, 3), 7, 1, 2), ((2, 1), (1, 3), 2, 5, 3), ((), (4,), 3, 2, 1),
        ((0,), (0,), 2, 2, 2), ((3,), (3,), 0, 2, 2), ((2,), (2,), 2, 0, 2), ((2, 2), (2, 2), 33, 16, 65),
    )
    for ta, tb in ((False, False), (False, True), (True, False))
)  # fmt: skip

RULES: list[OpRule] = [
    OpRule(
        "MatMul", {"T": ("f32",)}, _matmul_shape, _matmul, _MATMUL, cost="heavy", weights=(1,),
        attrs={"grad_a": ("false",), "grad_b": ("false",)},
    ),
    OpRule(
        "BatchMatMulV2", {"T": ("f32",)}, _batch_shape, _batch_matmul, _BATCH, cost="heavy",
        attrs={"grad_x": ("false",), "grad_y": ("false",)},
    ),
    OpRule(
        "BatchMatMul", {"T": ("f32",)}, _batch_shape, _batch_matmul, (*_BATCH[:3], *_BATCH[12:15]), cost="heavy",
        attrs={"grad_x": ("false",), "grad_y": ("false",)},
    ),
]  # fmt: skip
