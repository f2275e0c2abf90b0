"""Fusion groups: which ops run in one loop over memory.

A *loop group* walks `rows` x `columns` elements. Its members are elementwise ops and reductions of
the trailing axes; what they hand to each other stays in registers or in a row buffer. A member is
FULL (one value an element) or ROW (one value a row: a reduction's result and what is computed of it).
A *product* is a matmul. One whose result only a loop group reads, in order, becomes a tile of that group:
computed for a few rows, then used at once while it is hot in cache.
*Attention* is such a loop with products of batches of matrices in front of it and behind it (passes/attention.py).
A *concat* writes its operands side by side; a *scan* is a running sum; a *scatter* joins rows into rows by index.

Index maps (passes/views.py) belong to no group: their readers follow them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tf_disc.compiler.ir.dims import Dim, product
from tf_disc.compiler.ir.functions import FUNCTIONS, is_checked
from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.passes.attention import take_attention
from tf_disc.compiler.passes.materialize import storage_of
from tf_disc.compiler.passes.siblings import merge_siblings
from tf_disc.compiler.passes.views import (
    FULL,
    INDEX_MAPS,
    ROW,
    collapsed,
    has_dense_rows,
    in_order,
    padded_axes,
    splits,
    strided_view,
    through_broadcast,
    trailing_reduction,
)

#: Columns up to which a product is computed tile by tile in front of its epilogue: 64 rows of them stay in L2.
MAX_TILE_COLUMNS = 4096


#: Vector instructions on ranges that every reader does for itself.
MAX_PLACE_COST = 4

#: Known columns below this leave most lanes idle: several axes become columns where lanes can read them so.
NARROW = 32

#: Ops that are a group each, by the kind of it.
ALONE = {"matmul": "product", "concat": "concat", "scan": "scan", "scatter": "scatter"}
#: Those of them that compute their operands where they read them, each element once.
COMPUTING_READERS = ("concat", "scan", "scatter")


@dataclass(eq=False)
class Group:
    """See the module's docstring. `flat`: columns are all elements and tasks are ranges of them.

    `tiles`: products that are computed block by block in front of `ops`; `after`: those behind them.
    """

    kind: str
    ops: list[Op] = field(default_factory=list)
    total: Dim | None = None
    rows: Dim | None = None
    columns: Dim | None = None
    levels: dict[Value, str] = field(default_factory=dict)
    tiles: list[Op] = field(default_factory=list)
    after: list[Op] = field(default_factory=list)
    flat: bool = False

    @property
    def all_ops(self) -> list[Op]:
        """Everything that it computes, in an order in which it can."""
        return [*self.tiles, *self.ops, *self.after]

    @property
    def name(self) -> str:
        """Its ops' names, joined, for traces and reports."""
        names = [op.name for op in self.all_ops]
        short = "_".join(dict.fromkeys(n.removeprefix("reduce_") for n in names))[:48]
        source = next((op.source for op in reversed(self.ops) if op.source), "")
        return f"{short}({source.rsplit('/', 2)[-1]})" if source else short


def is_compute(value: Value) -> bool:
    """True for the result of an op that a group computes."""
    return value.op is not None and value.op.name not in INDEX_MAPS


def sources(value: Value) -> Iterator[Op]:
    """The computing ops that a value is read from, through index maps."""
    if value.op is None:
        return
    if value.op.name not in INDEX_MAPS:
        yield value.op
        return
    for operand in value.op.operands:
        yield from sources(operand)


class Grouping:
    def __init__(self, graph: Graph, inlined: set[Op]) -> None:
        self.inlined = inlined
        self.groups: list[Group] = []
        self.of: dict[Op, Group] = {}
        self.before: dict[Group, set[Group]] = {}
        for op in graph.ops:
            if op.name not in INDEX_MAPS and op not in inlined:
                self.place(op)

    def feeding(self, op: Op) -> set[Group]:
        """Groups whose results the op reads, through index maps and inlined ops."""
        return {self.of[s] for operand in op.operands for s in self.deep_sources(operand)}

    def reaches(self, start: Group, goal: set[Group]) -> bool:
        """True when some group of `goal` has to run before `start`."""
        stack, seen = [start], {start}
        while stack:
            for g in self.before[stack.pop()]:
                if g in goal:
                    return True
                if g not in seen:
                    seen.add(g)
                    stack.append(g)
        return False

    def place(self, op: Op) -> None:
        feeding = self.feeding(op)
        joined: Group | None = None
        if op.name not in ALONE:
            for candidate in reversed(self.groups):
                if candidate not in feeding or candidate.kind != "loop":
                    continue
                if joined is None:
                    others = feeding - {candidate}
                    if any(self.reaches(o, {candidate}) for o in others):
                        continue
                    if self.join(candidate, op):
                        joined = candidate
                        self.before[candidate] |= others
                elif self.can_merge(joined, candidate, op):
                    self.merge(joined, candidate)
        if joined is None:
            kind = ALONE.get(op.name, "loop")
            joined = Group(kind)
            self.groups.append(joined)
            self.before[joined] = feeding
            if kind == "loop" and not self.join(joined, op):
                raise AssertionError(f"{op.name} fits no group of its own")
            if kind != "loop":
                joined.ops.append(op)
        self.of[op] = joined

    def join(self, group: Group, op: Op) -> bool:
        """Adds the op where its level and its operands' fit the group's loop."""
        out = op.result
        rows, columns, total = group.rows, group.columns, group.total
        if trailing_reduction(op):
            operand = op.operands[0]
            first = op.attrs["axes"][0]
            level, read_level = ROW, FULL
            r, c = product(operand.dims[:first]), product(operand.dims[first:])
            total = total or r * c
            if total != r * c or (rows is not None and rows != r):
                return False
            rows, columns = r, c
            if any(
                group.levels[m.result] == FULL and splits(m.result.dims, r) is None
                for m in group.ops
            ):
                return False
        else:
            count = product(out.dims)
            total = total or count
            if count == total:
                level = FULL
                if rows is not None and splits(out.dims, rows) is None:
                    return False
            elif count == rows:
                level = ROW
            else:
                return False
            read_level = level
        for operand in op.operands:
            column = op.name.startswith("reduce_") and not trailing_reduction(op)
            found = None if column else in_order(operand, read_level, rows)
            if found is not None and found[0].op in self.of and self.of[found[0].op] is group:
                if group.levels[found[0]] != found[1]:
                    return False
            elif any(self.of[s] is group for s in self.deep_sources(operand)):
                return False
        group.rows, group.columns, group.total = rows, columns, total
        group.levels[out] = level
        group.ops.append(op)
        return True

    def deep_sources(self, value: Value) -> Iterator[Op]:
        """The ops in groups that a value is read from, through index maps and inlined ops."""
        for source in sources(value):
            if source in self.inlined:
                for operand in source.operands:
                    yield from self.deep_sources(operand)
            else:
                yield source

    def can_merge(self, into: Group, other: Group, op: Op) -> bool:
        """True when two groups that both feed `op` in order may become one loop."""
        if other.total != into.total:
            return False
        if other.rows is not None and into.rows is not None and other.rows != into.rows:
            return False
        rows = into.rows if into.rows is not None else other.rows
        if rows is not None:
            for group in (into, other):
                for m in group.ops:
                    if group.levels[m.result] == FULL and splits(m.result.dims, rows) is None:
                        return False
        for operand in op.operands:
            for source in self.deep_sources(operand):
                if self.of.get(source) is other:
                    level = FULL if trailing_reduction(op) else into.levels[op.result]
                    found = in_order(operand, level, rows)
                    if found is None or found[0] is not source.result:
                        return False
                    if other.levels[source.result] != found[1]:
                        return False
        # Members may read each other only in order, which holds within each; across the two only through
        # groups in between, which would be a cycle.
        between = (self.before[into] | self.before[other]) - {into, other}
        if any(self.reaches(g, {into, other}) for g in between):
            return False
        return not self._cross_reads(into, other)

    def _cross_reads(self, a: Group, b: Group) -> bool:
        """True when a member of one reads the other (beside the op just placed)."""
        for group, other in ((a, b), (b, a)):
            for m in group.ops[:-1] if group is a else group.ops:
                for operand in m.operands:
                    if any(self.of[s] is other for s in self.deep_sources(operand)):
                        return True
        return False

    def merge(self, into: Group, other: Group) -> None:
        last = into.ops[-1]
        into.ops = [*into.ops[:-1], *other.ops, last]
        into.levels.update(other.levels)
        into.rows = into.rows if into.rows is not None else other.rows
        into.columns = into.columns if into.columns is not None else other.columns
        for op in other.ops:
            self.of[op] = into
        self.before[into] |= self.before.pop(other)
        self.groups.remove(other)
        for g, before in self.before.items():
            if other in before:
                before.discard(other)
                if g is not into:
                    before.add(into)
        self.before[into].discard(into)

    def absorb(self, into: Group, other: Group) -> None:
        """Makes a group whose ops have been given to another one part of that."""
        for op in other.ops:
            self.of[op] = into
        self.before[into] |= self.before.pop(other)
        self.groups.remove(other)
        for before in self.before.values():
            if other in before:
                before.discard(other)
                before.add(into)
        self.before[into].discard(into)


def find_inlined(graph: Graph) -> set[Op]:
    """Elementwise ops that their only reader computes at the place where it reads.

    That pays where the reader walks in another order (a transpose, a slice, a reduction over earlier axes, a
    concat, a scan, a scatter) and reads each element once; otherwise the op joins its reader's loop, or is stored.
    """
    uses = graph.uses()
    outputs = {*graph.outputs, *(storage_of(v) for v in graph.outputs)}
    inlined: set[Op] = set()

    def feeds_product(value: Value) -> bool:
        """Products read memory."""
        return any(
            user.name == "matmul" or (user.name in INDEX_MAPS and feeds_product(user.result))
            for user in uses.get(value, [])
        )

    def picks(value: Value) -> bool:
        """True where a gather's indices are checked as the value is computed."""
        op = value.op
        if op is None or not (op.name in INDEX_MAPS or op in inlined):
            return False
        return op.name == "gather" or any(picks(v) for v in op.operands)

    def reader(value: Value) -> tuple[Op | None, bool]:
        """The one computing op that reads the value, and whether the order changes on the way."""
        reordered = False
        whole = value.op is not None and any(picks(v) for v in value.op.operands)
        while True:
            users = uses.get(value, [])
            if len(users) != 1 or value in outputs:
                return None, False
            user = users[0]
            if user.name in ("broadcast", "gather", "window") or (whole and user.name == "slice"):
                return None, False  # read often, or in part where TensorFlow checks every index
            if user.name not in INDEX_MAPS:
                return user, reordered
            reordered = reordered or user.name != "reshape"
            value = user.result

    for op in graph.ops:
        if not _may_move(op):
            continue
        if (
            op.result not in outputs
            and (_of_sizes(op, inlined) or _of_places(op, inlined))
            and not feeds_product(op.result)
        ):
            inlined.add(op)
            continue
        user, reordered = reader(op.result)
        if user is None or user.name == "matmul":
            continue
        column = user.name.startswith("reduce_") and not trailing_reduction(user)
        if reordered or column or user.name in COMPUTING_READERS:
            inlined.add(op)
    # What only such an op reads, in its own order, is computed with it, and so on up the chain.
    in_concats: set[Op] = set()
    for op in reversed(graph.ops):
        if not _may_move(op):
            continue
        user, reordered = reader(op.result)
        if user is not None and not reordered and (user.name == "concat" or user in in_concats):
            in_concats.add(op)
    return inlined | in_concats


def _may_move(op: Op) -> bool:
    """True for an elementwise op that may be computed by its reader, which might read only a part."""
    return (
        op.name in FUNCTIONS
        and op.name != "copy"
        and not is_checked(op.name, op.operands[-1].dtype)
    )


def _of_sizes(op: Op, inlined: set[Op]) -> bool:
    """True for one number computed of constants and sizes alone: every reader computes it for itself."""
    if not op.result.tensor.num_elements.is_one:
        return False
    for operand in op.operands:
        while operand.op is not None and operand.op.name in ("reshape", "broadcast"):
            operand = operand.op.operands[0]
        if operand.op is None or not (
            operand.op.name in ("const", "sizes") or operand.op in inlined
        ):
            return False
    return True


def _of_places(op: Op, inlined: set[Op]) -> bool:
    """True for what costs less to compute of an element's place than to load: a causal mask, of two ranges."""
    cost = 0
    stack, ranges = [op.result], False
    while stack:
        value = stack.pop()
        inner = value.op
        if inner is None:
            return False
        if inner.name in FUNCTIONS and (inner is op or inner in inlined):
            cost += FUNCTIONS[inner.name].cost
        elif inner.name == "iota":
            ranges = True
        elif inner.name not in ("reshape", "broadcast", "transpose", "sizes") and not (
            inner.name == "const" and value.tensor.num_elements.is_one
        ):
            return False
        stack += inner.operands
    return ranges and cost <= MAX_PLACE_COST


def _take_tiles(graph: Graph, grouping: Grouping, weights: set[Value]) -> None:
    """Makes products by a weight tiles of the loop group that alone reads them, in order."""
    uses = graph.uses()
    outputs = set(graph.outputs)
    for group in list(grouping.groups):
        op = group.ops[0]
        if group.kind != "product" or op.result in outputs or not is_weight_product(op, weights):
            continue
        m, n = op.result.dims
        if n.value is None or n.value > MAX_TILE_COLUMNS:
            continue
        readers: set[Op] = set()
        stack, escapes = [op.result], False
        while stack:
            value = stack.pop()
            if value in outputs:
                escapes = True
            for user in uses.get(value, []):
                if user.name not in INDEX_MAPS:
                    readers.add(user)
                elif user.name == "reshape":
                    stack.append(user.result)
                else:
                    escapes = True
        homes = {grouping.of.get(r) for r in readers}
        home = next(iter(homes)) if len(homes) == 1 else None
        if escapes or home is None or home.kind != "loop" or home.total != m * n:
            continue
        if home.rows is None:
            if any(splits(o.result.dims, m) is None for o in home.ops):
                continue
            home.rows, home.columns = m, n
        elif home.rows != m:
            continue
        others = grouping.before[group] - {home}
        if any(grouping.reaches(o, {home}) for o in others) or home in grouping.before[group]:
            continue
        if not all(_reads_in_order(r, op.result, home) for r in readers):
            continue
        home.tiles.append(op)
        grouping.of[op] = home
        grouping.before[home] = (grouping.before[home] | others) - {group, home}
        grouping.groups.remove(group)
        del grouping.before[group]


def _reads_in_order(reader: Op, value: Value, group: Group) -> bool:
    level = FULL if trailing_reduction(reader) else group.levels[reader.result]
    if reader.name.startswith("reduce_") and not trailing_reduction(reader):
        return False
    for operand in reader.operands:
        if any(s is value.op for s in sources(operand)):
            found = in_order(operand, level, group.rows)
            if found != (value, FULL):
                return False
    return True


def is_weight_product(op: Op, weights: set[Value]) -> bool:
    """True for a 2-D product by a weight of known K and N whose left side has dense rows."""
    if (
        op.name != "matmul"
        or len(op.result.dims) != 2
        or op.attrs["transpose_a"]
        or "out_perm" in op.attrs
    ):
        return False
    # Packing reads a weight of any rank as the matrix that it is reshaped to.
    if storage_of(op.operands[1]) not in weights or op.result.dtype != "f32":
        return False
    if "packed" not in op.attrs and op.operands[0].dtype != "f32":
        return False
    left = strided_view(op.operands[0])
    dense = left is not None and has_dense_rows(left)
    return dense and all(d.value for d in op.operands[1].dims)


def form_groups(graph: Graph, attention: bool = True) -> tuple[list[Group], set[Op]]:
    """All groups in an order in which they can run, and the ops that are computed inside their readers."""
    weights = {i.value for i in graph.inputs if i.kind == "weight"}
    inlined = find_inlined(graph)
    grouping = Grouping(graph, inlined)
    merge_siblings(grouping)
    _take_tiles(graph, grouping, weights)
    if attention:
        take_attention(grouping)
    ordered: list[Group] = []
    state: dict[Group, int] = {}

    def visit(group: Group) -> None:
        if state.get(group) == 2:
            return
        assert state.get(group) != 1, "groups form a cycle"
        state[group] = 1
        for before in sorted(grouping.before[group], key=grouping.groups.index):
            visit(before)
        state[group] = 2
        ordered.append(group)

    for group in grouping.groups:
        visit(group)
    position = {op: i for i, op in enumerate(graph.ops)}
    for group in ordered:
        group.ops.sort(key=position.__getitem__)
        if group.kind == "loop" and group.rows is None:
            _choose_columns(group, inlined)
    return ordered, inlined


def _choose_columns(group: Group, inlined: set[Op]) -> None:
    """Rows and columns for a group without reductions: all elements in a row where every read allows it."""
    assert group.total is not None
    shapes = {op.result.dims for op in group.ops}
    one_axis = all(sum(not d.is_one for d in dims) <= 1 for dims in shapes)
    if one_axis or all(_reads_flat(op, group) for op in group.ops):
        group.flat, group.rows, group.columns = True, product(()), group.total
        return
    for dims in sorted(shapes, key=len, reverse=True):
        kept = [d for d in dims if not d.is_one]
        for k in range(1, len(kept) + 1):
            columns = product(kept[-k:])
            rows = product(kept[:-k])
            fits = all(splits(s, rows) is not None for s in shapes)
            if (fits and group.columns is None) or (
                fits and rows != 1 and all(_undivided(op, rows, inlined) for op in group.ops)
            ):
                group.rows, group.columns = rows, columns
            if group.columns is not None and (columns.value or NARROW) >= NARROW:
                return
        if group.columns is not None:
            return
    group.rows, group.columns = product(()), group.total


def _undivided(op: Op, rows: Dim, inlined: set[Op]) -> bool:
    """True when lanes over all that follows the rows read the op's operands without dividing their positions."""
    if op.name.startswith("reduce_"):
        return False
    return all(_lanes_go_on(v, rows, inlined) for v in op.operands)


def _lanes_go_on(value: Value, rows: Dim, inlined: set[Op]) -> bool:
    while value.op is not None and value.op.name in INDEX_MAPS:
        op = value.op
        if value.tensor.num_elements.is_one or _single_element(value):
            return True
        if op.name in ("reshape", "broadcast"):
            inner = op.operands[0]
            if op.name == "reshape":
                whole = splits(inner.dims, rows) is not None
            else:
                step = through_broadcast(value.dims, inner.dims, rows)
                if step == ROW:
                    return True
                whole = step == FULL
            if whole:
                value = inner
                continue
        cut = splits(value.dims, rows)
        view = strided_view(op.operands[0] if op.name == "pad" else value)
        if cut is None or view is None or view.base.op in inlined:
            return False
        if op.name == "pad":
            return len(padded_axes(op, view.strides, cut)) == 1
        return len(collapsed(view.dims[cut:], view.strides[cut:])[0]) <= 1
    return value.op not in inlined


def _reads_flat(op: Op, group: Group) -> bool:
    if op.name.startswith("reduce_"):
        return False
    for operand in op.operands:
        if operand.tensor.num_elements.is_one:
            continue
        found = in_order(operand, FULL, None)
        if found is None or (found[0].op is not None and found[0].op.name in INDEX_MAPS):
            single = _single_element(operand)
            if not single:
                return False
    return True


def _single_element(value: Value) -> bool:
    """True when a broadcast repeats one element."""
    while value.op is not None and value.op.name in ("broadcast", "reshape"):
        value = value.op.operands[0]
        if value.tensor.num_elements.is_one:
            return True
    return False
