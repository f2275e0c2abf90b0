"""How each op of the table is drawn: by a builder of its own, by its kind, or from its record's examples."""

from __future__ import annotations

from tests.random.maker import Builder
from tests.random.ops import elementwise, examples, moves, products, reductions, shapes
from tf_disc.compiler.op_rules import RULES
from tf_disc.compiler.op_rules.record import OpRule

OWN: dict[str, Builder] = {
    **elementwise.BUILDERS,
    **reductions.BUILDERS,
    **shapes.BUILDERS,
    **moves.BUILDERS,
    **products.BUILDERS,
}

#: Ops that no program can hold as such, and how they come up instead.
EXEMPT: dict[str, str] = {
    "_UnaryOpsComposition": "TensorFlow's optimizer makes it of chains of unary ops, which are drawn",
    "_FusedMatMul": "TensorFlow's remapper makes it, which is off in graphs that tf_disc takes",
    "Snapshot": "TensorFlow's optimizer makes it of Identity",
}


def builder_of(rule: OpRule) -> Builder | None:
    """How the op is drawn, or None if there is no way."""
    if rule.op in EXEMPT:
        return None
    if rule.op in OWN:
        return OWN[rule.op]
    return elementwise.by_kind(rule) or (examples.build if rule.examples else None)


BUILDERS: dict[str, Builder] = {
    op: builder for op, rule in sorted(RULES.items()) if (builder := builder_of(rule)) is not None
}
