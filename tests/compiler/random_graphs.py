"""Random small clusters, legal by construction, for property tests.

A cluster is made from a list of numbers, so that hypothesis can shrink it. Values are small whole
numbers as long as that is possible, so that results are exact whatever the order of a sum; each value
carries a bound of its magnitude and whether it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.compiler import random_moves, random_products
from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import NUMPY

SIZES = (0, 1, 2, 3, 5, 7, 17, 33, 67)
#: Whole numbers below this are exact in f32 whatever the order they are added in.
EXACT = 1 << 22
MAX_ELEMENTS = 1 << 15


@dataclass(frozen=True)
class Entry:
    """A value of the cluster in the making, with its sizes in the call that asks for the compile."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bound: int = 4
    exact: bool = True


@dataclass
class RandomCluster:
    """A cluster, and arrays for its inputs at some sizes of `a`, `b` and `c`."""

    cluster: dict[str, Any]
    outputs: list[Entry]
    shapes: list[tuple[str, tuple[Any, ...]]]

    def arrays(self, sizes: dict[str, int], seed: int) -> list[Any]:
        """One array an input."""
        rng = np.random.default_rng(seed)
        result = []
        for dtype, shape in self.shapes:
            concrete = tuple(sizes.get(d, d) for d in shape)
            if dtype == "bool":
                result.append(rng.random(concrete) < 0.5)
            else:
                low = 0 if dtype == "i64" else -4
                result.append(np.asarray(rng.integers(low, 5, concrete), NUMPY[dtype]))
        return result


class _Source:
    """Choices from a list of numbers; 0 when it is used up."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers: Iterator[int] = iter(numbers)

    def below(self, n: int) -> int:
        """A number in [0, n)."""
        return next(self._numbers, 0) % max(n, 1)

    def of(self, items: Sequence[Any]) -> Any:
        """One of the items."""
        return items[self.below(len(items))]


class _Maker:
    def __init__(self, sizes: dict[str, int]) -> None:
        self.w = ClusterWriter()
        self.sizes = sizes
        self.pool: list[Entry] = []
        self.shapes: list[tuple[str, tuple[Any, ...]]] = []
        for dtype, shape in (
            ("f32", ("a", "b", 8)), ("f32", ("a", "b")), ("f32", ("b", 8)), ("f32", (8,)), ("f32", ("a", 1, "c")),
            ("i32", ("a", "c")), ("i64", ("b",)), ("bool", ("a", "b")), ("f32", ()),
        ):  # fmt: skip
            self.input(dtype, shape)

    def input(self, dtype: str, shape: tuple[Any, ...]) -> Entry:
        concrete = tuple(self.sizes.get(d, d) for d in shape)
        name = f"x{len(self.shapes)}"
        self.w.tensor(
            name,
            np.zeros(concrete, NUMPY[dtype]),
            [d if isinstance(d, int) else None for d in shape],
        )
        self.shapes.append((dtype, shape))
        entry = Entry(name, dtype, concrete)
        self.pool.append(entry)
        return entry

    def weight(self, shape: tuple[int, ...]) -> str:
        name = f"x{len(self.shapes)}"
        self.w.weight(name, np.zeros(shape, np.float32))
        self.shapes.append(("f32", shape))
        return name

    def add(self, name: str, dtype: str, shape: Sequence[int], bound: int, exact: bool) -> None:
        self.pool.append(Entry(name, dtype, tuple(shape), bound, exact))

    def recent(self, s: _Source, ok: Callable[[Entry], bool]) -> Entry | None:
        """A value that passes; later ones come first, so that chains grow."""
        found = [e for e in reversed(self.pool) if ok(e)]
        return s.of(found[:6]) if found else None

    # -- one op each ---------------------------------------------------------------
    def unary(self, s: _Source) -> None:
        x = self.recent(s, lambda e: e.dtype in ("f32", "i32"))
        assert x is not None
        ops = ["Neg", "Abs", "Square", "Identity"]
        if x.dtype == "f32":
            ops += ["Relu", "Tanh", "Sigmoid", "Exp", "Erf"]
        op = s.of(ops)
        if op in ("Square", "Exp") and x.bound > (1000 if op == "Square" else 20):
            op = "Neg"
        exact = x.exact and op not in ("Tanh", "Sigmoid", "Exp", "Erf")
        bound = x.bound**2 if op == "Square" else x.bound
        if op in ("Tanh", "Sigmoid", "Erf"):
            bound = 1
        if op == "Exp":
            bound = int(np.exp(x.bound)) + 1
        self.add(self.w.node(op, x.name), x.dtype, x.shape, bound, exact)

    def binary(self, s: _Source) -> None:
        x = self.recent(s, lambda e: e.dtype in ("f32", "i32"))
        assert x is not None

        def fits(e: Entry) -> bool:
            if e.dtype != x.dtype:
                return False
            try:
                shape = np.broadcast_shapes(e.shape, x.shape)
            except ValueError:
                return False
            return int(np.prod(shape)) <= MAX_ELEMENTS

        y = self.recent(s, fits)
        if y is None:
            return
        op = s.of(["AddV2", "Sub", "Mul", "Maximum", "Minimum", "Less", "Equal", "GreaterEqual"])
        if op in ("Less", "Equal", "GreaterEqual") and not (x.exact and y.exact):
            op = "AddV2"
        bound = x.bound + y.bound
        if op == "Mul":
            bound = x.bound * y.bound
            if bound >= EXACT:
                op, bound = "Maximum", max(x.bound, y.bound)
        shape = np.broadcast_shapes(x.shape, y.shape)
        left, right = (x, y) if s.below(2) else (y, x)
        dtype = "bool" if op in ("Less", "Equal", "GreaterEqual") else x.dtype
        attrs = {"incompatible_shape_error": True} if op == "Equal" else {}
        self.add(
            self.w.node(op, left.name, right.name, **attrs),
            dtype,
            shape,
            bound,
            x.exact and y.exact,
        )

    def select(self, s: _Source) -> None:
        x = self.recent(s, lambda e: e.dtype == "f32")
        assert x is not None

        def fits(e: Entry) -> bool:
            try:
                return np.broadcast_shapes(e.shape, x.shape) == x.shape
            except ValueError:
                return False

        c = self.recent(s, lambda e: e.dtype == "bool" and fits(e))
        y = self.recent(s, lambda e: e.dtype == "f32" and fits(e))
        if c is None or y is None:
            return
        name = self.w.node("SelectV2", c.name, x.name, y.name)
        self.add(name, "f32", x.shape, max(x.bound, y.bound), x.exact and y.exact)

    def cast(self, s: _Source) -> None:
        x = self.recent(s, lambda e: e.exact)
        assert x is not None
        to = s.of(["f32", "i32", "bool", "i64", "f64"])
        self.add(self.w.node("Cast", x.name, SrcT=x.dtype, DstT=to), to, x.shape, x.bound, True)

    def clip(self, s: _Source) -> None:
        x = self.recent(s, lambda e: e.dtype == "f32")
        assert x is not None
        low = self.w.node("Maximum", x.name, self.w.constant(-4.0, "f32"))
        name = self.w.node("Minimum", low, self.w.constant(4.0, "f32"))
        self.add(name, "f32", x.shape, 4, x.exact)

    def reduce(self, s: _Source) -> None:
        x = self.recent(s, lambda e: len(e.shape) > 0 and e.dtype != "f64")
        assert x is not None
        axes = [i for i in range(len(x.shape)) if s.below(2)] or [s.below(len(x.shape))]
        keep = bool(s.below(2))
        numbers = ["Sum", "Max", "Min", "Mean", "Sum", "Max"]
        op = s.of(["All", "Any"] if x.dtype == "bool" else numbers)
        if op == "Mean" and x.dtype != "f32":
            op = "Sum"
        bound, exact = x.bound, x.exact
        count = int(np.prod([x.shape[a] for a in axes]))
        if op == "Sum":
            bound = x.bound * max(count, 1)
            if bound >= EXACT:
                op, bound = "Max", x.bound
        if op == "Mean":
            exact = False
        if op in ("Max", "Min") and count == 0 and x.dtype == "f32":
            return  # -inf would break the bounds
        shape = [1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes]
        name = self.w.node(op, x.name, self.w.constant(axes), keep_dims=keep)
        if x.dtype != "f32" and count == 0 and op in ("Max", "Min"):
            bound = 1 << 40
        self.add(name, x.dtype, shape, bound, exact and bound < EXACT)

    def softmax(self, s: _Source) -> None:
        x = self.recent(s, lambda e: e.dtype == "f32" and len(e.shape) > 0 and e.bound < 100)
        if x is not None:
            self.add(self.w.node("Softmax", x.name), "f32", x.shape, 1, False)

    def norm(self, s: _Source) -> None:
        """A layer normalisation's middle: one more reduction after another."""
        x = self.recent(s, lambda e: e.dtype == "f32" and len(e.shape) > 0 and e.bound < 1000)
        if x is None or 0 in x.shape:
            return
        axis = self.w.constant([-1])
        mean = self.w.node("Mean", x.name, axis, keep_dims=True)
        variance = self.w.node(
            "Mean", self.w.node("SquaredDifference", x.name, mean), axis, keep_dims=True
        )
        inverse = self.w.node("Rsqrt", self.w.node("AddV2", variance, self.w.constant(1.0, "f32")))
        name = self.w.node("Mul", self.w.node("Sub", x.name, mean), inverse)
        self.add(name, "f32", x.shape, 2 * x.bound, False)
        self.add(mean, "f32", (*x.shape[:-1], 1), x.bound, False)

    def transpose(self, s: _Source) -> None:
        x = self.recent(s, lambda e: len(e.shape) > 1)
        assert x is not None
        left, perm = list(range(len(x.shape))), []
        while left:
            perm.append(left.pop(s.below(len(left))))
        name = self.w.node("Transpose", x.name, self.w.constant(perm))
        self.add(name, x.dtype, [x.shape[p] for p in perm], x.bound, x.exact)

    def reshape(self, s: _Source) -> None:
        """Merges axes, by -1 or by sizes that are computed; splits the last; or adds an axis."""
        x = self.recent(s, lambda e: True)
        assert x is not None
        rank = len(x.shape)
        kind = s.below(4)
        if rank == 0 or kind == 0 or rank > 4:
            axis = s.below(rank + 1)
            if rank > 4:
                return
            name = self.w.node("ExpandDims", x.name, self.w.constant(axis))
            self.add(name, x.dtype, (*x.shape[:axis], 1, *x.shape[axis:]), x.bound, x.exact)
            return
        if kind == 1:
            tail = s.of([2, 4]) if x.shape[-1] % 4 == 0 else 1
            dims = [*x.shape[:-1], x.shape[-1] // tail, tail]
            sizes = [*self.size_nodes(x, rank - 1), self.w.constant(-1), self.w.constant(tail)]
            if 0 in x.shape[:-1]:
                return
        else:
            cut = s.below(rank)
            merged = int(np.prod(x.shape[cut:]))
            dims = [*x.shape[:cut], merged]
            sizes = self.size_nodes(x, cut)
            if kind == 2 and 0 not in x.shape[:cut]:
                sizes.append(self.w.constant(-1))
            else:
                total = self.w.node(
                    "Prod", self.w.node("Shape", x.name, out_type="i32"), self.w.constant([0])
                )
                if cut:
                    total = self.w.node("Prod", self.tail_shape(x, cut), self.w.constant([0]))
                sizes.append(total)
        shape = self.w.node("Pack", *sizes, axis=0)
        self.add(self.w.node("Reshape", x.name, shape), x.dtype, dims, x.bound, x.exact)

    def size_nodes(self, x: Entry, count: int) -> list[str]:
        shape = self.w.node("Shape", x.name, out_type="i32")
        one = self.w.constant([1])
        return [
            self.w.node(
                "StridedSlice",
                shape,
                self.w.constant([i]),
                self.w.constant([i + 1]),
                one,
                shrink_axis_mask=1,
            )
            for i in range(count)
        ]

    def tail_shape(self, x: Entry, cut: int) -> str:
        shape = self.w.node("Shape", x.name, out_type="i32")
        return self.w.node(
            "StridedSlice",
            shape,
            self.w.constant([cut]),
            self.w.constant([0]),
            self.w.constant([1]),
            end_mask=1,
        )

    def slice(self, s: _Source) -> None:
        x = self.recent(s, lambda e: len(e.shape) > 0)
        assert x is not None
        axis = s.below(len(x.shape))
        begin, end, stride = s.of(
            [
                (1, 100, 1),
                (0, -1, 1),
                (0, 100, 2),
                (-1, -100, -1),
                (2, 5, 1),
                (-3, 100, 2),
                (-1, -100, -3),
            ]
        )
        rank = axis + 1
        mask = (1 << axis) - 1
        name = self.w.node(
            "StridedSlice", x.name, self.w.constant([0] * axis + [begin]), self.w.constant([0] * axis + [end]),
            self.w.constant([1] * axis + [stride]), begin_mask=mask, end_mask=mask,
        )  # fmt: skip
        del rank
        size = len(range(x.shape[axis])[slice(begin, end, stride)])
        self.add(name, x.dtype, (*x.shape[:axis], size, *x.shape[axis + 1 :]), x.bound, x.exact)

    def index(self, s: _Source) -> None:
        """One element of an axis."""
        x = self.recent(s, lambda e: any(e.shape))
        assert x is not None
        axis = s.of([i for i, d in enumerate(x.shape) if d])
        at = s.of([0, -1])
        mask = (1 << axis) - 1
        name = self.w.node(
            "StridedSlice", x.name, self.w.constant([0] * axis + [at]), self.w.constant([0] * axis + [at + 1]),
            self.w.constant([1] * (axis + 1)), begin_mask=mask, end_mask=mask, shrink_axis_mask=1 << axis,
        )  # fmt: skip
        self.add(name, x.dtype, x.shape[:axis] + x.shape[axis + 1 :], x.bound, x.exact)

    def concat(self, s: _Source) -> None:
        x = self.recent(s, lambda e: len(e.shape) > 0)
        assert x is not None
        axis = s.below(len(x.shape))

        def fits(e: Entry) -> bool:
            return (
                e.dtype == x.dtype
                and len(e.shape) == len(x.shape)
                and all(
                    p == q
                    for i, (p, q) in enumerate(zip(e.shape, x.shape, strict=True))
                    if i != axis
                )
            )

        y, z = self.recent(s, fits), self.recent(s, fits)
        parts = [x, *(e for e in (y, z) if e is not None)][: 2 + s.below(2)]
        size = sum(e.shape[axis] for e in parts)
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        if int(np.prod(shape)) > MAX_ELEMENTS:
            return
        name = self.w.node("ConcatV2", *(e.name for e in parts), self.w.constant(axis))
        self.add(name, x.dtype, shape, max(e.bound for e in parts), all(e.exact for e in parts))

    def pack(self, s: _Source) -> None:
        x = self.recent(s, lambda e: len(e.shape) < 4)
        if x is None:
            return
        y = self.recent(s, lambda e: e.dtype == x.dtype and e.shape == x.shape)
        assert y is not None
        axis = s.below(len(x.shape) + 1)
        name = self.w.node("Pack", x.name, y.name, axis=axis)
        shape = (*x.shape[:axis], 2, *x.shape[axis:])
        self.add(name, x.dtype, shape, max(x.bound, y.bound), x.exact and y.exact)

    def split(self, s: _Source) -> None:
        x = self.recent(s, lambda e: any(d and d % 2 == 0 for d in e.shape))
        if x is None:
            return
        axis = s.of([i for i, d in enumerate(x.shape) if d and d % 2 == 0])
        name = self.w.node("Split", self.w.constant(axis), x.name, num_split=2)
        shape = (*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :])
        for k in range(2):
            self.add(f"{name.removesuffix(':0')}:{k}", x.dtype, shape, x.bound, x.exact)

    def gather(self, s: _Source) -> None:
        x = self.recent(s, lambda e: any(d >= 5 for d in e.shape) and e.dtype != "bool")
        if x is None:
            return
        axis = s.of([i for i, d in enumerate(x.shape) if d >= 5])
        at: tuple[int, ...]
        if s.below(2):
            name, at = "x6", (self.sizes["b"],)
        else:
            at = s.of([(2,), (), (2, 3)])
            name = self.w.constant(np.arange(int(np.prod(at))).reshape(at) % 3)
        shape = (*x.shape[:axis], *at, *x.shape[axis + 1 :])
        if int(np.prod(shape)) > MAX_ELEMENTS or len(shape) > 5:
            return
        node = self.w.node("GatherV2", x.name, name, self.w.constant(axis), batch_dims=0)
        self.add(node, x.dtype, shape, x.bound, x.exact)

    def product(self, s: _Source) -> None:
        x = self.recent(s, lambda e: e.dtype == "f32" and len(e.shape) >= 2 and e.bound <= 1000)
        if x is None:
            return
        k = x.shape[-1]
        bound = x.bound * 4 * max(k, 1)
        kind = s.below(4)
        if bound >= EXACT or (kind >= 2 and bound * x.bound >= EXACT):
            return
        if kind < 2:
            n = s.of([1, 8, 20])
            flat = x.name
            if len(x.shape) > 2:
                shape = self.w.constant([-1, k])
                if k == 0:
                    return
                flat = self.w.node("Reshape", x.name, shape)
            transposed = bool(s.below(2))
            weight = self.weight((n, k) if transposed else (k, n))
            name = self.w.node("MatMul", flat, weight, transpose_a=False, transpose_b=transposed)
            rows = int(np.prod(x.shape[:-1]))
            self.add(name, "f32", (rows, n), bound, x.exact)
            if len(x.shape) > 2 and 0 not in x.shape[:-1] and s.below(2):
                sizes = [*self.size_nodes(x, len(x.shape) - 1), self.w.constant(n)]
                back = self.w.node("Reshape", name, self.w.node("Pack", *sizes, axis=0))
                self.add(back, "f32", (*x.shape[:-1], n), bound, x.exact)
            return
        adj_y = kind == 2
        other = self.recent(
            s,
            lambda e: (
                e.dtype == "f32"
                and len(e.shape) == len(x.shape)
                and e.shape[:-2] == x.shape[:-2]
                and e.shape[-1 if adj_y else -2] == k
                and e.bound * x.bound * max(k, 1) < EXACT
            ),
        )
        if other is None:
            return
        n = other.shape[-2 if adj_y else -1]
        shape = (*x.shape[:-1], n)
        if int(np.prod(shape)) > MAX_ELEMENTS:
            return
        name = self.w.node("BatchMatMulV2", x.name, other.name, adj_x=False, adj_y=adj_y)
        self.add(name, "f32", shape, max(other.bound * x.bound * k, 1), x.exact and other.exact)

    def sizes_of(self, s: _Source) -> None:
        x = self.recent(s, lambda e: True)
        assert x is not None
        kind = s.below(4)
        if kind == 0:
            value = self.w.node(
                "Cast", self.w.node("Size", x.name, out_type="i32"), SrcT="i32", DstT="f32"
            )
            self.add(value, "f32", (), MAX_ELEMENTS, True)
        elif kind == 1 and x.shape:
            (size,) = self.size_nodes(x, 1)
            name = self.w.node("Range", self.w.constant(0), size, self.w.constant(1), Tidx="i32")
            self.add(name, "i32", x.shape[:1], MAX_ELEMENTS, True)
        elif kind == 2:
            shape = self.w.node("Shape", x.name, out_type="i32")
            self.add(
                self.w.node("Fill", shape, self.w.constant(2.0, "f32")), "f32", x.shape, 2, True
            )
        else:
            self.add(self.w.node("ZerosLike", x.name), x.dtype, x.shape, 1, True)


#: The steps that a number chooses from. The first is the simplest: hypothesis shrinks towards it.
STEPS: tuple[Callable[[_Maker, _Source], None], ...] = (
    _Maker.unary, _Maker.binary, _Maker.reduce, _Maker.transpose, _Maker.reshape, _Maker.slice, _Maker.product,
    _Maker.concat, _Maker.select, _Maker.softmax, _Maker.norm, _Maker.gather, _Maker.clip, _Maker.pack, _Maker.split,
    _Maker.index, _Maker.cast, _Maker.sizes_of, _Maker.binary, _Maker.binary, _Maker.unary, _Maker.reduce,
    *random_moves.STEPS, *random_products.STEPS,
)  # fmt: skip


def make_cluster(
    sizes: dict[str, int], steps: Sequence[Sequence[int]], picks: Sequence[int]
) -> RandomCluster:
    """The cluster that the numbers say: a step each, then which values are outputs."""
    maker = _Maker(sizes)
    first = len(maker.pool)
    for numbers in steps:
        source = _Source(numbers)
        STEPS[source.below(len(STEPS))](maker, source)
    made = maker.pool[first:] or maker.pool
    used = {name for node in maker.w.nodes for name in node["inputs"]}
    # What nothing reads is an output, so that little is dead; picked ones are read and put out.
    ends = [e for e in made if e.name not in used][-5:]
    outputs = [*(ends or made[-1:]), *(made[-1 - p % len(made)] for p in picks)]
    return RandomCluster(maker.w.cluster(*(o.name for o in outputs)), outputs, maker.shapes)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[RandomCluster, dict[str, int]]:
    """A random cluster and the sizes of the call that asks for it."""
    sizes = {d: draw(st.sampled_from(SIZES)) for d in "abc"}
    # Bytes are drawn evenly; lists of numbers would be short and full of zeros.
    step = st.binary(min_size=7, max_size=7)
    steps = draw(st.lists(step, min_size=6, max_size=14))
    picks = draw(st.lists(st.integers(0, 20), max_size=2))
    return make_cluster(sizes, steps, picks), sizes
