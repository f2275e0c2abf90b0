"""All rules, by op name; and the op table that the clustering pass is given."""

from __future__ import annotations

from typing import Any

from tf_disc.compiler.op_rules import (
    activations,
    arithmetic,
    broadcast_gradients,
    convolutions,
    einsum,
    elementwise,
    fused_products,
    gathers,
    gradients,
    losses,
    normalization,
    padding,
    pooling,
    products,
    reductions,
    scans,
    scatter,
    shapes,
    slices,
    space_blocks,
    stitch,
)
from tf_disc.compiler.op_rules.record import OpRule

_FAMILIES = (
    arithmetic,
    activations,
    elementwise,
    gradients,
    reductions,
    products,
    fused_products,
    convolutions,
    pooling,
    einsum,
    broadcast_gradients,
    losses,
    normalization,
    shapes,
    slices,
    stitch,
    gathers,
    padding,
    space_blocks,
    scans,
    scatter,
)
RULES: dict[str, OpRule] = {rule.op: rule for family in _FAMILIES for rule in family.RULES}


def op_table() -> list[dict[str, Any]]:
    """The rules as the pass gets them (docs/contracts.md 1), sorted by op."""
    return [RULES[op].table_entry() for op in sorted(RULES)]
