"""Ops that move elements: slices, joins, splits, gathers, padding, repeats."""

from __future__ import annotations

from tests.random.maker import INTEGERS, Builder, Maker
from tests.random.ops.shapes import ceil_div
from tests.random.recipe import Dim, Operand, Type, combine
from tf_disc.compiler.op_rules.record import OpRule

#: Longer expressions of sizes are not built upon.
_LONG = 40


def short(dims: tuple[Dim, ...]) -> bool:
    """Whether the dims are simple enough to compute with."""
    return all(len(str(d)) <= _LONG for d in dims)


def _operand(m: Maker, values: list[int], dtype: str) -> Operand:
    """Integers read when the call runs: a Const, or an input."""
    if m.src.chance(75):
        return m.constant(values, dtype)
    return m.new_input(Type(dtype, (len(values),)), "values", values=values)


def _from(begin: int | None, size: Dim, default: Dim) -> Dim:
    """Where a slice begins or ends, as TensorFlow clamps it."""
    if begin is None:
        return default
    at = combine("+", size, begin) if begin < 0 else begin
    if isinstance(at, int) and isinstance(size, int):
        return min(max(at, 0), size)
    return f"max(0,min({size},{at}))"


def _span(begin: int | None, end: int | None, step: int, size: Dim) -> Dim:
    """The number of elements of a slice. For a negative step begin and end are not given."""
    if step < 0:
        return size if step == -1 else ceil_div(size, -step)
    first, last = _from(begin, size, 0), _from(end, size, size)
    if first == 0 and last == size:
        count: Dim = size
    elif isinstance(first, int) and isinstance(last, int):
        count = max(last - first, 0)
    else:
        count = f"max(0,{last}-{first})"
    return count if step == 1 else ceil_div(count, step)


def _strided_slice(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], 1)
    t = m.types[x]
    if not short(t.dims):
        return False
    begin: list[int] = []
    end: list[int] = []
    step: list[int] = []
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)  # fmt: skip
    dims: list[Dim] = []

    def entry(b: int, e: int, s: int, **bits: bool) -> None:
        for name, on in bits.items():
            masks[name] |= int(on) << len(begin)
        begin.append(b), end.append(e), step.append(s)

    at = 0
    while at < len(t.dims):
        choice, size = m.src.integer(0, 11), t.dims[at]
        if choice == 0 and not masks["ellipsis_mask"]:
            # It takes what the entries after it leave: here all that is left.
            dims += t.dims[at:]
            at = len(t.dims)
            entry(0, 0, 1, ellipsis_mask=True)
        elif choice == 1 and len(dims) + len(t.dims) - at < 4:
            dims.append(1)
            entry(0, 0, 1, new_axis_mask=True)
        elif choice == 2:
            index = m.src.of((0, 0, -1))
            entry(index, index + 1, 1, shrink_axis_mask=True)
            at += 1
        elif choice in (3, 4):
            s = m.src.of((-1, -1, -2, -3))
            dims.append(_span(None, None, s, size))
            entry(m.src.integer(-2, 2), m.src.integer(-2, 2), s, begin_mask=True, end_mask=True)
            at += 1
        else:
            b, e = m.src.integer(-4, 4), m.src.integer(-4, 5)
            no_b, no_e = m.src.chance(50), m.src.chance(50)
            s = m.src.of((1, 1, 1, 2, 3))
            dims.append(_span(None if no_b else b, None if no_e else e, s, size))
            entry(b, e, s, begin_mask=no_b, end_mask=no_e)
            at += 1
            if at < len(t.dims) and m.src.chance(15):  # the rest is implied
                dims += t.dims[at:]
                break
    index = m.src.of([d for d in rule.dtypes["Index"] if d in ("i32", "i64")])
    operands = [_operand(m, begin, index), _operand(m, end, index), m.constant(step, index)]
    m.add("StridedSlice", [x, *operands], [Type(t.dtype, tuple(dims))], dict(masks))
    return True


def _slice(m: Maker, rule: OpRule) -> bool:
    """From a small begin to the end, or a few elements; out of range where a size is too small."""
    x = m.pick(rule.dtypes["T"], 1)
    t = m.types[x]
    if not short(t.dims):
        return False
    begin, count, dims = [], [], []
    for d in t.dims:
        b = m.src.of((0, 0, 0, 1))
        b = b if isinstance(d, int) and d > b else 0
        n = m.src.of((-1, -1, 1, 2)) if isinstance(d, int) and d >= b + 2 else -1
        begin.append(b)
        count.append(n)
        dims.append(combine("-", d, b) if n < 0 and b else d if n < 0 else n)
    index = m.src.of([d for d in rule.dtypes["Index"] if d in ("i32", "i64")])
    m.add(
        "Slice",
        [x, _operand(m, begin, index), _operand(m, count, index)],
        [Type(t.dtype, tuple(dims))],
    )
    return True


def _pack(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], 0, 3)
    t = m.types[x]
    values = [x, *(m.same(t) for _ in range(m.src.integer(0, 2)))]
    axis = m.src.integer(-len(t.dims) - 1, len(t.dims))
    at = axis % (len(t.dims) + 1)
    dims = (*t.dims[:at], len(values), *t.dims[at:])
    if not m.fits(dims):
        return False
    m.add("Pack", [values], [Type(t.dtype, dims)], {"axis": axis})
    return True


def _concat(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], 1)
    t = m.types[x]
    axis = m.src.integer(-len(t.dims), len(t.dims) - 1)
    at = axis % len(t.dims)
    if not short(t.dims):
        return False
    values = [x]
    for _ in range(m.src.integer(1, 2)):
        others = [
            v for v, o in m.types.items()
            if o.dtype == t.dtype and len(o.dims) == len(t.dims)
            and all(i == at or p == q for i, (p, q) in enumerate(zip(o.dims, t.dims)))
        ]  # fmt: skip
        fresh = Type(t.dtype, tuple(m.dim() if i == at else d for i, d in enumerate(t.dims)))
        values.append(
            m.src.of(others) if m.src.chance(70) or not m.fits(fresh.dims) else m.new_input(fresh)
        )
    total: Dim = 0
    for v in values:
        total = combine("+", total, m.types[v].dims[at])
    dims = tuple(total if i == at else d for i, d in enumerate(t.dims))
    if not m.fits(dims):
        return False
    index = m.src.of(rule.dtypes["Tidx"])
    m.add("ConcatV2", [values, m.constant(axis, index)], [Type(t.dtype, dims)])
    return True


def _unpack(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], 1)
    t = m.types[x]
    known = [i for i, d in enumerate(t.dims) if isinstance(d, int) and d <= 5]
    if not known:
        return False
    at = m.src.of(known)
    axis = at - len(t.dims) if m.src.chance(30) else at
    dims = t.dims[:at] + t.dims[at + 1 :]
    num = int(t.dims[at])
    m.add("Unpack", [x], [Type(t.dtype, dims)] * num, {"num": num, "axis": axis})
    return True


def _divisible(m: Maker, dims: tuple[Dim, ...]) -> list[tuple[int, int]]:
    return [
        (i, n) for i, d in enumerate(dims) if isinstance(d, int) for n in (1, 2, 3) if d % n == 0
    ]


def _split(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], 1)
    t = m.types[x]
    if m.src.chance(30) and isinstance(t.dims[-1], str):  # a size that the call must make divisible
        twice = Type(t.dtype, (*t.dims[:-1], combine("*", t.dims[-1], 2)))
        x = m.add("ConcatV2", [[x, x], m.constant(-1)], [twice])[0]
        at, num, part = len(t.dims) - 1, 2, t.dims[-1]
        if not m.fits(m.types[x].dims):
            return False
    elif ways := _divisible(m, t.dims):
        at, num = m.src.of(ways)
        part = int(t.dims[at]) // num
    else:
        return False
    axis = at - len(t.dims) if m.src.chance(30) else at
    dims = tuple(part if i == at else d for i, d in enumerate(t.dims))
    m.add("Split", [m.constant(axis), x], [Type(t.dtype, dims)] * num, {"num_split": num})
    return True


def _split_v(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], 1)
    t = m.types[x]
    known = [i for i, d in enumerate(t.dims) if isinstance(d, int)]
    if not known:
        return False
    at = m.src.of(known)
    size = int(t.dims[at])
    first = m.src.integer(0, size)
    parts = [first, size - first]
    stated = [first, -1] if m.src.chance(40) else parts
    index = m.src.of(rule.dtypes.get("Tlen", ("i32",)))
    outs = [Type(t.dtype, tuple(p if i == at else d for i, d in enumerate(t.dims))) for p in parts]
    inputs = [
        x,
        _operand(m, stated, index),
        m.constant(at - len(t.dims) if m.src.chance(30) else at),
    ]
    m.add("SplitV", inputs, outs, {"num_split": 2})
    return True


def _index_of(m: Maker, high: Dim, dtypes: tuple[str, ...], dims: tuple[Dim, ...]) -> int:
    """Indices below a size; now and then one is out of range, which TensorFlow refuses."""
    if m.src.chance(3):
        high = combine("+", high, 2)
    return m.new_input(Type(m.src.of(dtypes), dims), "index", high)


def _gather(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["Tparams"], 1, 3)
    t = m.types[x]
    at = m.src.integer(0, len(t.dims) - 1)
    batch = m.src.integer(0, at) if m.src.chance(30) else 0
    own = m.dims(0, 2)
    dims = (*t.dims[:batch], *own)
    result = (*t.dims[:at], *own, *t.dims[at + 1 :])
    if not (m.fits(dims) and m.fits(result)):
        return False
    ids = _index_of(m, t.dims[at], rule.dtypes["Tindices"], dims)
    axis = m.constant(at - len(t.dims) if m.src.chance(30) else at, m.src.of(rule.dtypes["Taxis"]))
    m.add("GatherV2", [x, ids, axis], [Type(t.dtype, result)], {"batch_dims": batch})
    return True


def _gather_nd(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["Tparams"], 1, 3)
    t = m.types[x]
    own = m.dims(0, 2)
    if not m.fits((*own, *t.dims[1:])):
        return False
    ids = _index_of(m, t.dims[0], rule.dtypes["Tindices"], (*own, 1))
    m.add("GatherNd", [x, ids], [Type(t.dtype, (*own, *t.dims[1:]))])
    return True


def _variable(m: Maker, rule: OpRule) -> tuple[int, Type]:
    dims = tuple(m.src.of((2, 3, 5, 17)) for _ in range(m.src.integer(1, 2)))
    type_ = Type(m.dtype(rule.dtypes["dtype"]), dims)
    return m.new_variable(type_), type_


def _resource_gather(m: Maker, rule: OpRule) -> bool:
    variable, t = _variable(m, rule)
    own = m.dims(0, 2)
    if not m.fits((*own, *t.dims[1:])):
        return False
    ids = _index_of(m, t.dims[0], rule.dtypes["Tindices"], own)
    m.add(
        "ResourceGather",
        [{"var": variable}, ids],
        [Type(t.dtype, (*own, *t.dims[1:]))],
        {"dtype": t.dtype},
    )
    return True


def _resource_gather_nd(m: Maker, rule: OpRule) -> bool:
    variable, t = _variable(m, rule)
    own = m.dims(0, 2)
    if not m.fits((*own, *t.dims[1:])):
        return False
    ids = _index_of(m, t.dims[0], rule.dtypes["Tindices"], (*own, 1))
    m.add(
        "ResourceGatherNd",
        [{"var": variable}, ids],
        [Type(t.dtype, (*own, *t.dims[1:]))],
        {"dtype": t.dtype},
    )
    return True


def _tile(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], 1)
    t = m.types[x]
    times = [m.src.of((1, 1, 2, 3, 0)) for _ in t.dims]
    dims = tuple(combine("*", d, n) for d, n in zip(t.dims, times))
    if not (m.fits(dims) and short(t.dims)):
        return False
    index = m.src.of(rule.dtypes.get("Tmultiples", ("i32",)))
    m.add("Tile", [x, _operand(m, times, index)], [Type(t.dtype, dims)])
    return True


def _paddings(
    m: Maker, dims: tuple[Dim, ...], dtypes: tuple[str, ...], most: int = 3
) -> tuple[Operand, tuple[Dim, ...]]:
    pairs = [(m.src.integer(0, most), m.src.integer(0, most)) for _ in dims]
    flat = [n for pair in pairs for n in pair]
    operand = {"const": flat, "dtype": m.src.of(dtypes), "dims": [len(dims), 2]}
    return operand, tuple(combine("+", d, sum(p)) for d, p in zip(dims, pairs))


def _pad(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], 1)
    t = m.types[x]
    paddings, dims = _paddings(m, t.dims, rule.dtypes.get("Tpaddings", ("i32",)))
    if not (m.fits(dims) and short(t.dims)):
        return False
    value = [m.scalar(t.dtype)] if rule.op == "PadV2" else []
    m.add(rule.op, [x, paddings, *value], [Type(t.dtype, dims)])
    return True


def _mirror_pad(m: Maker, rule: OpRule) -> bool:
    """Sizes too small to be mirrored are refused by TensorFlow."""
    x = m.pick(rule.dtypes["T"], 1)
    t = m.types[x]
    paddings, dims = _paddings(m, t.dims, rule.dtypes.get("Tpaddings", ("i32",)), 1)
    if not (m.fits(dims) and short(t.dims)):
        return False
    m.add(
        "MirrorPad",
        [x, paddings],
        [Type(t.dtype, dims)],
        {"mode": m.src.of(("REFLECT", "SYMMETRIC"))},
    )
    return True


def _reverse(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], 1)
    t = m.types[x]
    axes = [
        a - len(t.dims) if m.src.chance(30) else a for a in range(len(t.dims)) if m.src.chance(50)
    ]
    m.add("ReverseV2", [x, m.constant(axes, m.src.of(rule.dtypes.get("Tidx", ("i32",))))], [t])
    return True


def _one_hot(m: Maker, rule: OpRule) -> bool:
    """Depth and values are operands; indices outside of the depth give the off value."""
    x = m.pick([d for d in rule.dtypes["TI"] if d in INTEGERS], 0, 3)
    t = m.types[x]
    depth, dtype = m.src.of((1, 2, 3, 7)), m.dtype(rule.dtypes["T"])
    axis = m.src.integer(-1, len(t.dims))
    at = len(t.dims) if axis < 0 else axis
    dims = (*t.dims[:at], depth, *t.dims[at:])
    if not m.fits(dims):
        return False
    m.add(
        "OneHot",
        [x, m.constant(depth), m.scalar(dtype), m.scalar(dtype)],
        [Type(dtype, dims)],
        {"axis": axis},
    )
    return True


def _segment_sum(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], 1, 3)
    t = m.types[x]
    count = m.src.of((1, 2, 5))
    ids = _index_of(m, count, rule.dtypes["Tindices"], t.dims[:1])
    number = m.constant(count, m.src.of(rule.dtypes.get("Tnumsegments", ("i32",))))
    m.add("UnsortedSegmentSum", [x, ids, number], [Type(t.dtype, (count, *t.dims[1:]))])
    return True


BUILDERS: dict[str, Builder] = {
    "StridedSlice": _strided_slice,
    "Slice": _slice,
    "Pack": _pack,
    "ConcatV2": _concat,
    "Unpack": _unpack,
    "Split": _split,
    "SplitV": _split_v,
    "GatherV2": _gather,
    "GatherNd": _gather_nd,
    "ResourceGather": _resource_gather,
    "ResourceGatherNd": _resource_gather_nd,
    "Tile": _tile,
    "Pad": _pad,
    "PadV2": _pad,
    "MirrorPad": _mirror_pad,
    "ReverseV2": _reverse,
    "OneHot": _one_hot,
    "UnsortedSegmentSum": _segment_sum,
}
