"""f32 values that bf16 has: how they are told by what made them."""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Value

#: Index maps whose elements are their first operand's, unchanged, but for a fill of 0.
MOVES = ("reshape", "transpose", "broadcast", "slice", "window")


def is_widened(value: Value) -> bool:
    """True for a cast of bf16 to f32, seen through index maps."""
    while value.op is not None and value.op.name in MOVES:
        value = value.op.operands[0]
    op = value.op
    return op is not None and op.name == "cast" and op.operands[0].dtype == "bf16"
