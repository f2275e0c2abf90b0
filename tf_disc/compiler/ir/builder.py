"""Builds tensor IR: one method a core op, each with its shape rule, guards and symbolic contents.

The core ops are few, so that passes and codegen stay small; op rules lower to them.
Broadcasting is explicit: the operands of an elementwise op have one shape.

Integer tensors that say sizes are followed symbolically (`contents`): the elements of
``Pack(Shape(x)[0], -1)`` are dims, so a Reshape by it has a known type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tf_disc.compiler.errors import ShapeError, UnsupportedError
from tf_disc.compiler.ir.contents import joined, known_sizes, read_through, strides_of
from tf_disc.compiler.ir.dims import Dim, DimLike, as_dim, product
from tf_disc.compiler.ir.functions import FUNCTIONS, fold
from tf_disc.compiler.ir.graph import Graph, Guard, Op, Value
from tf_disc.compiler.ir.short_values import is_widened
from tf_disc.compiler.ir.types import FLOATS, SHORT_FLOATS, TensorType, rounded, tensor

#: Integer tensors up to this many elements have their contents followed.
MAX_CONTENTS = 64

#: The types that say sizes.
SIZE_TYPES = ("i32", "i64")

_SYMBOLIC: dict[str, Callable[..., Dim]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "max": lambda a, b: Dim.call("max", a, b),
    "min": lambda a, b: Dim.call("min", a, b),
    "neg": lambda a: -a,
    "cast": lambda a: a,
    "copy": lambda a: a,
}


class Speculation(Exception):
    """The import starts again with `symbol` replaced by `dim`, which becomes a guard."""

    def __init__(self, symbol: str, dim: Dim, reason: str) -> None:
        super().__init__(f"{symbol} := {dim} ({reason})")
        self.symbol = symbol
        self.dim = dim
        self.reason = reason


class GraphBuilder:
    """Appends ops to a graph.

    `hints` gives every symbol the size of the call that asked for the compile; where two sizes
    must agree and it cannot be proved, the hints decide what is speculated (docs/contracts.md 6).
    """

    def __init__(self, graph: Graph, hints: dict[str, int]) -> None:
        self.graph = graph
        self.hints = hints
        self.contents: dict[Value, tuple[Dim, ...]] = {}
        self.constants: dict[Value, tuple[Any, ...]] = {}
        self.source = ""
        #: Whether f32 operands of products are rounded to bf16 (``precision="bf16"``).
        self.rounds_products = False

    # -- relations between sizes -----------------------------------------------
    def hint(self, dim: Dim) -> int:
        """The dim's size in the call that asked."""
        return dim.evaluate(self.hints)

    def require(self, left: DimLike, relation: str, right: DimLike, reason: str) -> None:
        """Makes sure that the relation holds: by proof, by speculation on a symbol, or by a guard.

        Raises ShapeError when the sizes of the call that asked contradict it.
        """
        a, b = as_dim(left), as_dim(right)
        guard = Guard(a, relation, b, f"{self.source}: {reason}" if self.source else reason)
        if not guard.holds(self.hints):
            raise ShapeError(
                f"{guard.reason}: expected {a} {relation} {b}, but this call has {self.hint(a)} and {self.hint(b)}; "
                "TensorFlow runs the call and reports it"
            )
        difference = a - b
        if relation == "==":
            if difference == 0:
                return
            solved = self._solve(difference)
            if solved:
                raise Speculation(*solved, guard.reason)
        elif (relation == ">=" and difference.lower_bound >= 0) or (
            relation == "!=" and (difference.lower_bound > 0 or (-difference).lower_bound > 0)
        ):
            return
        if guard not in self.graph.guards:
            self.graph.guards.append(guard)

    def _solve(self, difference: Dim) -> tuple[str, Dim] | None:
        """The youngest symbol that can be expressed by older ones."""
        order = {name: i for i, name in enumerate(self.graph.symbols)}
        known = [s for s in difference.solutions() if s[0] in order]
        return max(known, key=lambda s: order[s[0]], default=None)

    def broadcast_dim(self, a: Dim, b: Dim, reason: str) -> Dim:
        """The size that two broadcast sizes give."""
        if a == b or b.is_one:
            return a
        if a.is_one:
            return b
        x, y = self.hint(a), self.hint(b)
        if x == y:
            self.require(a, "==", b, reason)
            return a
        if y == 1:
            self.require(b, "==", 1, reason)
            return a
        if x == 1:
            self.require(a, "==", 1, reason)
            return b
        raise ShapeError(
            f"{self.source}: {reason}: sizes {x} ({a}) and {y} ({b}) do not broadcast; "
            "TensorFlow runs the call and reports it"
        )

    def broadcast_dims(self, *shapes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The shape that several shapes broadcast to, aligned at the right."""
        result: list[Dim] = []
        for shape in shapes:
            longer, shorter = (
                (list(shape), result) if len(shape) > len(result) else (result, list(shape))
            )
            pad = len(longer) - len(shorter)
            result = longer[:pad] + [
                self.broadcast_dim(a, b, "broadcast")
                for a, b in zip(longer[pad:], shorter, strict=True)
            ]
        return tuple(result)

    # -- ops ---------------------------------------------------------------------
    def emit(
        self,
        name: str,
        operands: Sequence[Value],
        dtype: str,
        dims: Sequence[DimLike],
        **attrs: Any,
    ) -> Value:
        """Appends one op with one result."""
        op = Op(name, list(operands), [tensor(dtype, list(dims))], attrs, source=self.source)
        self.graph.block.ops.append(op)
        return op.result

    def constant(self, values: Sequence[Any], dtype: str, dims: Sequence[int]) -> Value:
        """A constant; `values` has one entry an element, or one for all of them."""
        values = tuple(rounded(float(v), dtype) if dtype in FLOATS else v for v in values)
        if len(values) > 1 and all(v == values[0] for v in values) and _same_sign(values):
            values = values[:1]
        count = 1
        for d in dims:
            count *= d
        result = self.emit("const", [], dtype, dims, values=values)
        if count <= MAX_CONTENTS:
            full = values * count if len(values) == 1 else values
            self.constants[result] = full
            if dtype in SIZE_TYPES:
                self.contents[result] = tuple(as_dim(int(v)) for v in full)
        return result

    def scalar(self, value: Any, dtype: str) -> Value:
        """A constant of rank 0."""
        return self.constant([value], dtype, [])

    def sizes(self, dims: Sequence[DimLike], dtype: str, *, rank: int = 1) -> Value:
        """A tensor (rank 1, or rank 0 with one element) whose elements are sizes."""
        values = tuple(as_dim(d) for d in dims)
        if all(v.value is not None for v in values):
            return self.constant([v.value for v in values], dtype, [len(values)] if rank else [])
        result = self.emit("sizes", [], dtype, [len(values)] if rank else [], values=values)
        self.contents[result] = values
        return result

    def with_contents(self, value: Value, contents: Sequence[Dim] | None) -> Value:
        """Attaches contents; where they depend on sizes alone, the host computes them."""
        if contents is None:
            return value
        if value.tensor.rank <= 1 and all(_host_only(d) for d in contents):
            return self.sizes(contents, value.dtype, rank=value.tensor.rank)
        self.contents[value] = tuple(contents)
        return value

    def elementwise(self, function: str, *operands: Value, dtype: str | None = None) -> Value:
        """Applies a scalar function (ir/functions.py); the operands are broadcast first."""
        dims = self.broadcast_dims(*(v.dims for v in operands))
        spec = FUNCTIONS[function]
        if spec.result == "same":
            dtype = operands[-1].dtype
        elif spec.result == "bool":
            dtype = "bool"
        assert dtype is not None
        if all(v in self.constants for v in operands) and function not in ("select", "cast"):
            folded = [
                fold(function, list(args), dtype)
                for args in zip(*(self.broadcast_constant(v, dims) for v in operands), strict=True)
            ]
            if folded and all(v is not None for v in folded):
                return self.constant(folded, dtype, [d.value or 0 for d in dims])
        contents = self._elementwise_contents(function, operands, dims, dtype)
        if contents is not None and len(dims) <= 1 and all(_host_only(d) for d in contents):
            return self.sizes(contents, dtype, rank=len(dims))
        result = self.emit(function, [self.broadcast(v, dims) for v in operands], dtype, dims)
        return self.with_contents(result, contents)

    def broadcast_constant(self, value: Value, dims: Sequence[Dim]) -> tuple[Any, ...]:
        """A small constant's elements after broadcasting, row-major; empty when that is not small."""
        count = product(dims).value
        values = self.constants[value]
        if count is None or count > MAX_CONTENTS:
            return ()
        if len(values) == 1:
            return values * count
        return values if len(values) == count else ()

    def _elementwise_contents(
        self, function: str, operands: Sequence[Value], dims: Sequence[Dim], dtype: str
    ) -> list[Dim] | None:
        count = product(dims).value
        if dtype not in SIZE_TYPES or count is None or count > MAX_CONTENTS:
            return None
        if function not in _SYMBOLIC and function not in ("floordiv", "floormod"):
            return None
        columns: list[tuple[Dim, ...]] = []
        for v in operands:
            values = self.contents.get(v)
            if values is None or len(values) not in (1, count):
                return None
            columns.append(values * count if len(values) == 1 else values)
        result = []
        for args in zip(*columns, strict=True):
            if function in _SYMBOLIC:
                result.append(_SYMBOLIC[function](*args))
            else:
                self.require(args[1], "!=", 0, "division of sizes")
                result.append(args[0] // args[1] if function == "floordiv" else args[0] % args[1])
        return result

    def broadcast(self, value: Value, dims: Sequence[Dim]) -> Value:
        """Repeats along dims of size 1 and new leading dims; the same value when nothing changes."""
        aligned = tuple(dims)[len(dims) - len(value.dims) :]
        value = self.agreed(value, aligned)
        if tuple(dims) == value.dims:
            return value
        result = self.emit("broadcast", [value], value.dtype, dims)
        count = product(dims).value
        if value in self.contents and count is not None and count <= MAX_CONTENTS:
            elements = self.contents[value]
            if len(elements) == 1:
                self.contents[result] = elements * count
        return result

    def agreed(self, value: Value, dims: Sequence[Dim]) -> Value:
        """The value under sizes that a guard has made equal to its own, or 1; sizes that are 1 stay."""
        new = [
            d if d.is_one or d == e else as_dim(1) if self.hint(d) == 1 != self.hint(e) else e
            for d, e in zip(value.dims, dims, strict=True)
        ]
        return self.reshape(value, new)

    def reshape(self, value: Value, dims: Sequence[DimLike]) -> Value:
        """The same elements in row-major order under another shape. The caller has seen to the count."""
        new = tuple(as_dim(d) for d in dims)
        if new == value.dims:
            return value
        if value in self.constants and all(d.value is not None for d in new):
            return self.constant(self.constants[value], value.dtype, [d.value or 0 for d in new])
        result = self.emit("reshape", [value], value.dtype, new)
        if len(new) <= 1:
            return self.with_contents(result, self.contents.get(value))
        if value in self.contents:
            self.contents[result] = self.contents[value]
        return result

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """Result axis i is the operand's axis perm[i]."""
        if list(perm) == list(range(len(perm))):
            return value
        dims = [value.dims[p] for p in perm]
        result = self.emit("transpose", [value], value.dtype, dims, perm=tuple(perm))
        sizes = known_sizes(value.dims)
        if value in self.contents and sizes is not None:
            strides = strides_of(sizes)
            self.contents[result] = tuple(
                read_through(
                    self.contents[value],
                    [sizes[p] for p in perm],
                    [0] * len(perm),
                    [1] * len(perm),
                    [strides[p] for p in perm],
                )
            )
        return result

    def slice(
        self,
        value: Value,
        begin: Sequence[DimLike],
        sizes: Sequence[DimLike],
        strides: Sequence[int],
    ) -> Value:
        """Element i of an axis is element begin + i * stride of the operand's. In range by the caller's word."""
        starts = tuple(as_dim(b) for b in begin)
        new = tuple(as_dim(s) for s in sizes)
        if new == value.dims and all(s == 1 for s in strides):
            return value
        contents = None
        first, counts, old = known_sizes(starts), known_sizes(new), known_sizes(value.dims)
        if value in self.contents and None not in (first, counts, old):
            assert first is not None and counts is not None and old is not None
            elements = self.contents[value]
            contents = read_through(elements, counts, first, strides, strides_of(old))
        result = self.emit("slice", [value], value.dtype, new, begin=starts, strides=tuple(strides))
        return self.with_contents(result, contents)

    def pad(
        self,
        value: Value,
        fill: Value,
        begin: Sequence[DimLike],
        dims: Sequence[DimLike],
        strides: Sequence[int],
    ) -> Value:
        """The inverse of a slice: element i of an axis goes to begin + i * stride, all others are `fill` (rank 0).

        Strides are positive; the operand fits by the caller's word.
        """
        starts, new = tuple(as_dim(b) for b in begin), tuple(as_dim(d) for d in dims)
        if new == value.dims:
            return value
        return self.emit(
            "pad", [value, fill], value.dtype, new, begin=starts, strides=tuple(strides)
        )

    def window(
        self,
        value: Value,
        fill: Value,
        out: Sequence[DimLike],
        size: Sequence[int],
        *,
        begin: Sequence[DimLike],
        strides: Sequence[int],
        dilations: Sequence[int],
        inside: bool,
    ) -> Value:
        """What a window of `size` sees at each place: [n, y…, c] to [n, out…, size…, c].

        Element k of the window at place o of an axis is the operand's element o * stride + k * dilation - begin, and
        `fill` (rank 0) where the operand has none. `inside`: it always has, by the caller's word, and begins at 0.
        """
        starts = tuple(as_dim(b) for b in begin)
        places = [as_dim(o) for o in out]
        dims: list[DimLike] = [value.dims[0], *places, *size, value.dims[-1]]
        if inside and all(k == 1 for k in size):
            counts = [value.dims[0], *places, value.dims[-1]]
            value = self.slice(value, [0] * len(counts), counts, [1, *strides, 1])
            return self.reshape(value, dims)
        return self.emit(
            "window", [value, fill], value.dtype, dims,
            size=tuple(size), begin=starts, strides=tuple(strides), dilations=tuple(dilations), inside=inside,
        )  # fmt: skip

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Joins along one axis; the other sizes have been made equal by the caller."""
        if len(values) == 1:
            return values[0]
        dims = list(values[0].dims)
        dims[axis] = as_dim(sum((v.dims[axis] for v in values[1:]), values[0].dims[axis]))
        values = [self.reshape(v, [*dims[:axis], v.dims[axis], *dims[axis + 1 :]]) for v in values]
        contents = None
        rows = product(dims[:axis]).value
        if rows is not None and all(v in self.contents for v in values):
            contents = joined([self.contents[v] for v in values], rows)
            contents = contents if len(contents) <= MAX_CONTENTS else None
        result = self.emit("concat", values, values[0].dtype, dims, axis=axis)
        return self.with_contents(result, contents)

    def gather(self, params: Value, indices: Value, axis: int, batch_dims: int) -> Value:
        """params along `axis` at indices; out-of-range indices fail a guard while the kernel runs."""
        picked = None
        if params in self.contents and indices in self.contents and params.tensor.rank == 1:
            at = [d.value for d in self.contents[indices]]
            values = self.contents[params]
            if all(i is not None and 0 <= i < len(values) for i in at):
                picked = [values[i] for i in at if i is not None]
        dims = params.dims[:axis] + indices.dims[batch_dims:] + params.dims[axis + 1 :]
        result = self.emit(
            "gather", [params, indices], params.dtype, dims, axis=axis, batch_dims=batch_dims
        )
        return self.with_contents(result, picked)

    def iota(self, size: DimLike, dtype: str) -> Value:
        """0, 1, 2 … size - 1."""
        count = as_dim(size).value
        if count is not None and count <= MAX_CONTENTS:
            return self.constant(range(count), dtype, [count])
        return self.emit("iota", [], dtype, [size])

    def reduce(self, kind: str, value: Value, axes: Sequence[int]) -> Value:
        """Reduces axes away. kind: sum, prod, max, min, all, any.

        Axes that end the shape are reduced row by row; any other is reduced alone first or after,
        so that codegen knows two forms only.
        """
        ones = [a for a in axes if value.dims[a].is_one]
        axes = [a - sum(o < a for o in ones) for a in sorted(axes) if a not in ones]
        value = self.reshape(value, [d for i, d in enumerate(value.dims) if i not in ones])
        if not axes:
            return value
        contents = self._reduced_contents(kind, value)
        if value.dtype in SHORT_FLOATS and kind in ("sum", "prod"):
            total = self.reduce(kind, self.elementwise("cast", value, dtype="f32"), axes)
            return self.elementwise("cast", total, dtype=value.dtype)
        rank = value.tensor.rank
        trailing = [a for a in axes if all(b in axes for b in range(a, rank))]
        rest = [a for a in axes if a not in trailing]
        if trailing:
            value = self.emit(
                f"reduce_{kind}",
                [value],
                value.dtype,
                value.dims[: trailing[0]],
                axes=tuple(trailing),
            )
        if rest:
            kept = [d for i, d in enumerate(value.dims) if i not in rest]
            value = self.emit(f"reduce_{kind}", [value], value.dtype, kept, axes=tuple(rest))
        return self.with_contents(value, contents)

    def _reduced_contents(self, kind: str, value: Value) -> list[Dim] | None:
        """The one element that a followed vector is reduced to."""
        values = self.contents.get(value)
        function = {"prod": "mul", "sum": "add", "max": "max", "min": "min"}.get(kind)
        if values is None or function is None or value.tensor.rank != 1:
            return None
        if not values:
            return {"prod": [as_dim(1)], "sum": [as_dim(0)]}.get(kind)
        number = values[0]
        for d in values[1:]:
            number = _SYMBOLIC[function](number, d)
        return [number]

    def scan(self, kind: str, value: Value, axis: int, *, exclusive: bool, reverse: bool) -> Value:
        """Running sums or products along an axis, one element after another. kind: sum, prod.

        The core op has the axis last, or last but one with all that follow it in one.
        """
        outer, inner = product(value.dims[:axis]), product(value.dims[axis + 1 :])
        dims = [outer, value.dims[axis], *([] if inner.is_one else [inner])]
        result = self.emit(
            "scan", [self.reshape(value, dims)], value.dtype, dims,
            kind=kind, axis=1, exclusive=exclusive, reverse=reverse,
        )  # fmt: skip
        return self.reshape(result, value.dims)

    def scatter(
        self, kind: str, start: Value, indices: Value, updates: Value, *, drop_negative: bool
    ) -> Value:
        """Row indices[i] of `start` joined with row i of `updates`, one after another.

        start: [rows, n] or [rows]; indices: [m]; updates: [m, n] or [m]. kind: sum, sub, prod, set, and the
        choices max and min, which take the update, or max_kept and min_kept, which keep the row, where neither is larger.
        An index out of range fails a guard while the kernel runs; `drop_negative` leaves out those below 0.
        """
        return self.emit(
            "scatter", [start, indices, updates], start.dtype, start.dims,
            kind=kind, drop_negative=drop_negative,
        )  # fmt: skip

    def matmul(self, a: Value, b: Value, transpose_a: bool, transpose_b: bool) -> Value:
        """a [..., m, k] x b [..., k, n] with equal leading dims; either may be given transposed.

        Where `rounds_products` says so, f32 operands are rounded to bf16 and widened again: the products of their
        elements are exact in f32. passes/short_products.py finds them. One column is a sum (passes/thin_products.py).
        """
        m, k1 = (a.dims[-1], a.dims[-2]) if transpose_a else (a.dims[-2], a.dims[-1])
        k2, n = (b.dims[-1], b.dims[-2]) if transpose_b else (b.dims[-2], b.dims[-1])
        self.require(k1, "==", k2, "inner sizes of the product")
        if a.dtype in SHORT_FLOATS:
            wide = [self.elementwise("cast", v, dtype="f32") for v in (a, b)]
            total = self.matmul(wide[0], wide[1], transpose_a, transpose_b)
            return self.elementwise("cast", total, dtype=a.dtype)
        if self.rounds_products and a.dtype == "f32" and not n.is_one:
            a, b = (self._rounded(v) for v in (a, b))
        return self.emit(
            "matmul",
            [a, b],
            a.dtype,
            [*a.dims[:-2], m, n],
            transpose_a=transpose_a,
            transpose_b=transpose_b,
        )

    def for_product(self, value: Value) -> Value:
        """What a product multiplies in the place of an f32 value that it reads: rounded to bf16 where it rounds.

        A rule whose index maps read an element often has it rounded in front of them.
        """
        rounds = self.rounds_products and value.dtype == "f32"
        return self._rounded(value) if rounds else value

    def _rounded(self, value: Value) -> Value:
        """f32 numbers that bf16 has: widened again; the same value where that is known of them already."""
        if is_widened(value):
            return value
        return self.elementwise("cast", self.elementwise("cast", value, dtype="bf16"), dtype="f32")

    # -- what rules ask ------------------------------------------------------------
    def known_contents(self, value: Value, what: str) -> tuple[Dim, ...]:
        """The symbolic elements of an operand. Raises UnsupportedError naming it when they are not followed."""
        found = self.contents.get(value)
        if found is None:
            raise UnsupportedError(
                f"{self.source}: {what} is computed from data of {value.type}; only sizes, constants and "
                "small integer inputs are followed. The cluster stays with TensorFlow"
            )
        return found


def _host_only(dim: Dim) -> bool:
    """True when the dim depends on sizes alone, not on the values of operands."""
    return not any(name.startswith("v") for name in dim.symbols())


def _same_sign(values: tuple[Any, ...]) -> bool:
    """-0.0 and 0.0 are equal but are not one constant."""
    return (
        not any(isinstance(v, float) and v == 0.0 for v in values)
        or len({str(v) for v in values}) == 1
    )


__all__ = ["GraphBuilder", "Speculation", "TensorType"]
