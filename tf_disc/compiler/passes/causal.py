"""Which elements of a matrix a mask of ranges leaves out: columns that lie beyond a row's own.

A causal mask is a comparison of the row's number with the column's, and nothing of it is read from memory. How an exporter
says so differs: two ranges, a band of ones, a difference with a sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_disc.compiler.ir.dims import Dim, as_dim
from tf_disc.compiler.ir.graph import Op, Value
from tf_disc.compiler.ir.types import INTEGERS
from tf_disc.compiler.passes.simplify_logic import OPPOSITE
from tf_disc.compiler.passes.views import reshape_groups

ROW_AXIS, COLUMN_AXIS = "row", "column"
#: Numbers that no sum with a range takes out of the type.
_LARGEST = 1 << 29


@dataclass(frozen=True)
class _Affine:
    """row * rows + column * columns + constant."""

    rows: int
    columns: int
    constant: Dim

    def plus(self, other: _Affine, sign: int) -> _Affine:
        return _Affine(
            self.rows + sign * other.rows,
            self.columns + sign * other.columns,
            self.constant + other.constant * sign,
        )


def known_beyond(condition: Value, truth: bool) -> Dim | None:
    """A number so that a bool [batch…, rows, columns] is `truth` wherever column >= row + number; None without one."""
    roles = [""] * (len(condition.dims) - 2) + [ROW_AXIS, COLUMN_AXIS]
    return _beyond(condition, roles, truth) if len(condition.dims) >= 2 else None


def _beyond(value: Value, roles: Sequence[str], truth: bool) -> Dim | None:
    op = value.op
    if op is None:
        return None
    inner = _through(op, roles)
    if inner is not None:
        return _beyond(op.operands[0], inner, truth)
    if op.name == "not":
        return _beyond(op.operands[0], roles, not truth)
    if op.name == ("or" if truth else "and"):
        found = (_beyond(v, roles, truth) for v in op.operands)
        return next((d for d in found if d is not None), None)
    name = OPPOSITE.get(op.name) if truth else op.name
    if name not in ("ge", "gt", "le", "lt") or op.operands[0].dtype not in INTEGERS:
        return None
    left, right = (_affine(v, roles) for v in op.operands)
    if left is None or right is None:
        return None
    # le and lt are ge and gt the other way round.
    distance = left.plus(right, -1) if name in ("ge", "gt") else right.plus(left, -1)
    if (distance.rows, distance.columns) != (1, -1):
        return None
    return distance.constant + (1 if name in ("ge", "le") else 0)


def _affine(value: Value, roles: Sequence[str]) -> _Affine | None:
    op = value.op
    if op is None:
        return None
    inner = _through(op, roles)
    if inner is not None:
        return _affine(op.operands[0], inner)
    if op.name == "iota":
        if roles[0] in (ROW_AXIS, COLUMN_AXIS):
            return _Affine(int(roles[0] == ROW_AXIS), int(roles[0] == COLUMN_AXIS), as_dim(0))
        return None
    if op.name in ("const", "sizes") and len(op.attrs["values"]) == 1:
        number = as_dim(op.attrs["values"][0])
        if number.value is not None and abs(number.value) > _LARGEST:
            return None
        return _Affine(0, 0, number)
    if op.name == "neg":
        only = _affine(op.operands[0], roles)
        return None if only is None else _Affine(0, 0, as_dim(0)).plus(only, -1)
    if op.name in ("add", "sub"):
        left, right = (_affine(v, roles) for v in op.operands)
        if left is None or right is None:
            return None
        return left.plus(right, 1 if op.name == "add" else -1)
    if (
        op.name == "cast"
        and op.operands[0].dtype in ("i32", "i64")
        and value.dtype in ("i32", "i64")
    ):
        return _affine(op.operands[0], roles)
    return None


def _through(op: Op, roles: Sequence[str]) -> list[str] | None:
    """What the axes of an index map's operand are; None where it is not one that keeps them."""
    if op.name not in ("broadcast", "reshape", "transpose"):
        return None
    old, new = op.operands[0].dims, op.result.dims
    if op.name == "broadcast":
        pad = len(new) - len(old)
        return ["" if d.is_one else r for d, r in zip(old, roles[pad:], strict=True)]
    found = [""] * len(old)
    if op.name == "transpose":
        for role, axis in zip(roles, op.attrs["perm"], strict=True):
            found[axis] = role
        return found
    for before, after in reshape_groups(old, new):
        mine = [a for a in before if not old[a].is_one]
        theirs = [a for a in after if not new[a].is_one]
        if len(mine) == 1 and len(theirs) == 1:
            found[mine[0]] = roles[theirs[0]]
    return found
