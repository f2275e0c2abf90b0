"""Loops that read the same values and do not wait for each other become one: what they share is read once.

Two sums of one tensor, the branches of a gate, what several consumers make of one input. The groups must walk the
same rows and columns by proof. Bounded, for a loop that streams too many arrays at once is no faster than two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.passes.views import FULL, INDEX_MAPS, in_order, splits, trailing_reduction

if TYPE_CHECKING:
    from tf_disc.compiler.passes.groups import Group, Grouping

#: Members of a joined group at most, and values it reads in full: the streams that a core's prefetchers follow, …
MOST_OPS = 48
MOST_READ = 8


#: The values that a group reads in full, in the order in which it does.
Reads = dict[Value, None]


def merge_siblings(grouping: Grouping) -> None:
    """Joins groups until no two are left that may be."""
    reads = {g: _full_reads(grouping, g) for g in grouping.groups if _may_join(grouping, g)}
    readers: dict[Value, list[Group]] = {}
    for group, values in reads.items():
        for value in values:
            readers.setdefault(value, []).append(group)
    for group in list(reads):
        if group not in reads:
            continue
        # What a joined group reads leads to others: the list grows while it is walked.
        shared = list(reads[group])
        for value in shared:
            for other in readers[value]:
                if other in reads and _fit(grouping, group, other, reads):
                    _join(grouping, group, other)
                    shared += [v for v in reads[other] if v not in reads[group]]
                    reads[group].update(reads.pop(other))


def _may_join(grouping: Grouping, group: Group) -> bool:
    """Loops without sums over earlier axes, and that read no product: they may become its tiles."""
    return group.kind == "loop" and not any(
        (op.name.startswith("reduce_") and not trailing_reduction(op))
        or any(s.name == "matmul" for v in op.operands for s in grouping.deep_sources(v))
        for op in group.ops
    )


def _full_reads(grouping: Grouping, group: Group) -> Reads:
    """The stored values that the group reads in its own order, an element for each of its own."""
    found: Reads = {}
    for op in group.ops:
        level = FULL if trailing_reduction(op) else group.levels[op.result]
        for operand in op.operands:
            way = in_order(operand, level, group.rows)
            if way is None or way[1] != FULL:
                continue
            value = way[0]
            if value.op is not None and (
                value.op.name in INDEX_MAPS or grouping.of.get(value.op) in (group, None)
            ):
                continue
            found[value] = None
    return found


def _fit(grouping: Grouping, group: Group, other: Group, reads: dict[Group, Reads]) -> bool:
    if group is other or group.total != other.total:
        return False
    if group.rows is not None and other.rows is not None and group.rows != other.rows:
        return False
    if len(group.ops) + len(other.ops) > MOST_OPS or len(reads[group] | reads[other]) > MOST_READ:
        return False
    rows = group.rows if group.rows is not None else other.rows
    for part in (group, other):
        for op in part.ops:
            if part.levels[op.result] != FULL:
                continue
            if rows is not None and splits(op.result.dims, rows) is None:
                return False
        # What is read in another order decides how the columns are cut: such loops stay as they are.
        if rows is None and not _reads_in_order(part):
            return False
    return not grouping.reaches(group, {other}) and not grouping.reaches(other, {group})


def _reads_in_order(group: Group) -> bool:
    for op in group.ops:
        for operand in op.operands:
            way = in_order(operand, group.levels[op.result], group.rows)
            small = operand.tensor.num_elements.is_one
            if not small and (
                way is None or (way[0].op is not None and way[0].op.name in INDEX_MAPS)
            ):
                return False
    return True


def _join(grouping: Grouping, group: Group, other: Group) -> None:
    group.ops += other.ops
    group.levels.update(other.levels)
    group.rows = group.rows if group.rows is not None else other.rows
    group.columns = group.columns if group.columns is not None else other.columns
    grouping.absorb(group, other)
