"""Attention: a product of two batches of matrices, a row group on its result, and a product of what that gives.

`softmax(q k^T * scale + mask) v` is three groups by itself, which hand [batch, rows, columns] to each other through
memory. Here they become one group of kind "attention": a block of rows of one matrix is multiplied, taken through
the row group's ops and multiplied again while it lies in a thread's scratch. It is found by its structure
alone; which ops stand between the products, and in which order an exporter wrote their axes, does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tf_disc.compiler.ir.dims import Dim, product
from tf_disc.compiler.ir.graph import Op, Value
from tf_disc.compiler.passes.materialize import storage_of
from tf_disc.compiler.passes.views import FULL, in_order, splits

if TYPE_CHECKING:
    from tf_disc.compiler.passes.groups import Group, Grouping


def take_attention(grouping: Grouping) -> None:
    """Makes one group of each loop group that has such products in front of it and behind it."""
    for group in list(grouping.groups):
        if group.kind == "product" and group in grouping.before:
            _take(grouping, group)


def _take(grouping: Grouping, last: Group) -> None:
    """Joins the group of a product with that of its left operand and with the products in front of that."""
    (op,) = last.ops
    given = storage_of(op.operands[0])
    home = grouping.of.get(given.op) if given.op is not None else None
    if home is None or home.kind != "loop" or home.tiles or op.attrs["transpose_a"]:
        return
    dims = op.operands[0].dims
    rows, columns = product(dims[:-1]), dims[-1]
    if home.levels[given] != FULL or not _walks(home, rows, columns):
        return
    if any(s in (*home.ops, op) for s in grouping.deep_sources(op.operands[1])):
        return
    first = [
        group
        for group in _feeding_products(grouping, home)
        if _is_tile(grouping, group.ops[0], home, dims)
    ]
    joined = {home, last, *first}
    before = set().union(*(grouping.before[g] for g in joined)) - joined
    if not first or any(grouping.reaches(b, joined) for b in before):
        return
    if any(s in [g.ops[0] for g in first] for s in grouping.deep_sources(op.operands[1])):
        return
    home.kind, home.rows, home.columns = "attention", rows, columns
    home.tiles, home.after = [g.ops[0] for g in first], [op]
    for group in (*first, last):
        grouping.absorb(home, group)


def _walks(home: Group, rows: Dim, columns: Dim) -> bool:
    """True where the loop has, or may be given, these rows and columns."""
    if home.rows is not None:
        return home.rows == rows and home.columns == columns
    return home.total == rows * columns and all(
        splits(op.result.dims, rows) is not None for op in home.ops
    )


def _feeding_products(grouping: Grouping, home: Group) -> list[Group]:
    return [g for g in grouping.groups if g.kind == "product" and g in grouping.before[home]]


def _is_tile(grouping: Grouping, op: Op, home: Group, dims: Sequence[Dim]) -> bool:
    """True where all that the loop reads of a product is the element at its own place.

    dims: of the second product's left operand. The blocks of rows of both products are the same.
    """
    own = op.result.dims
    perm = op.attrs.get("out_perm", range(len(own)))
    if list(perm) != list(range(len(own))) or own[-2:] != tuple(dims[-2:]):
        return False
    if product(own[:-2]) != product(dims[:-2]):
        return False
    rows = product(dims[:-1])
    return all(_reads_in_order(grouping, reader, op.result, home, rows) for reader in home.ops)


def _reads_in_order(grouping: Grouping, reader: Op, value: Value, home: Group, rows: Dim) -> bool:
    reduces = reader.name.startswith("reduce_")
    for operand in reader.operands:
        if all(s is not value.op for s in grouping.deep_sources(operand)):
            continue
        if reduces and reader.attrs["axes"][-1] != len(operand.dims) - 1:
            return False
        level = FULL if reduces else home.levels[reader.result]
        if in_order(operand, level, rows) != (value, FULL):
            return False
    return True
