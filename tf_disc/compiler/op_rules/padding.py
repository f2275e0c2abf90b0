"""Ops that put a tensor into a larger one: padding, and the gradients of slices and of padding."""

from __future__ import annotations

from tf_disc.compiler.ir.dims import Dim, as_dim
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import ANY, FLOATING, INDEX, NUMBERS
from tf_disc.compiler.op_rules.examples import of_every_type
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext, i32, i32_pairs
from tf_disc.compiler.op_rules.slices import part, strided_parts


def _paddings(c: RuleContext) -> list[tuple[Dim, Dim]]:
    """How much goes in front of and behind each axis."""
    flat = c.sizes(1)
    if len(flat) != 2 * len(c[0].dims):
        raise c.unsupported(f"{len(flat)} numbers for {len(c[0].dims)} axes")
    for number in flat:
        c.b.require(number, ">=", 0, f"{c.op}: a padding is not negative")
    return list(zip(flat[::2], flat[1::2], strict=True))


def _padded(c: RuleContext) -> list[Dims]:
    sizes = zip(c[0].dims, _paddings(c), strict=True)
    return [tuple(d + front + back for d, (front, back) in sizes)]


def zero_of(c: RuleContext, dtype: str) -> Value:
    """Nothing, of any element type."""
    return c.b.scalar(False if dtype == "bool" else 0.0 if dtype in FLOATING else 0, dtype)


def _pad(c: RuleContext) -> Value:
    fill = c[2] if len(c.inputs) > 2 else zero_of(c, c[0].dtype)
    begin = [front for front, _ in _paddings(c)]
    return c.b.pad(c[0], fill, begin, _padded(c)[0], [1] * len(begin))


# -- mirrors ---------------------------------------------------------------------------


def _skipped(c: RuleContext) -> int:
    """How many elements at the edge are not repeated."""
    return 1 if c.attr("mode") == "REFLECT" else 0


def _mirrored(c: RuleContext) -> list[Dims]:
    for size, pair in zip(c[0].dims, _paddings(c), strict=True):
        for number in pair:
            c.b.require(
                size - _skipped(c), ">=", number, "MirrorPad: an axis holds its mirror image"
            )
    return _padded(c)


def _mirror_pad(c: RuleContext) -> Value:
    """Axis by axis: what is in front, backwards; the axis; what is behind, backwards."""
    value, skipped = c[0], _skipped(c)
    _mirrored(c)
    for axis, (front, back) in enumerate(_paddings(c)):
        if front == 0 and back == 0:
            continue
        size = value.dims[axis]
        parts = [
            part(c, value, axis, front - 1 + skipped, front, -1),
            value,
            part(c, value, axis, size - 1 - skipped, back, -1),
        ]
        value = c.b.concat(parts, axis)
    return value


def _unpadded(c: RuleContext) -> list[Dims]:
    result = []
    for size, (front, back) in zip(c[0].dims, _paddings(c), strict=True):
        inner = size - front - back
        c.b.require(inner, ">=", 1, "MirrorPadGrad: an axis is more than its paddings")
        for number in (front, back):
            c.b.require(
                inner - _skipped(c), ">=", number, "MirrorPadGrad: an axis holds its mirror image"
            )
        result.append(inner)
    return [tuple(result)]


def _mirror_pad_grad(c: RuleContext) -> Value:
    """Axis by axis, each mirror image is added where it came from."""
    (dims,) = _unpadded(c)
    value, skipped = c[0], _skipped(c)
    # x + -0.0 is x for every x, -0.0 as well.
    nothing = c.b.scalar(-0.0 if value.dtype in FLOATING else 0, value.dtype)
    for axis, (front, back) in enumerate(_paddings(c)):
        if front == 0 and back == 0:
            continue
        inner = dims[axis]
        whole = part(c, value, axis, front, inner)
        for at, count, to in (
            (front - 1, front, as_dim(skipped)),
            (front + inner + back - 1, back, inner - back - skipped),
        ):
            image = part(c, value, axis, at, count, -1)
            begin = [to if i == axis else as_dim(0) for i in range(len(dims))]
            image = c.b.pad(image, nothing, begin, whole.dims, [1] * len(dims))
            whole = c.b.elementwise("add", whole, image)
        value = whole
    return value


# -- gradients of slices -----------------------------------------------------------------


def _slice_grad(c: RuleContext) -> tuple[list[Dim], list[Dim], list[int], list[Dim]]:
    dims = c.sizes(0)
    for d in dims:
        c.b.require(d, ">=", 0, "StridedSliceGrad: a size is not negative")
    parts = strided_parts(c, dims, c.sizes(1), c.sizes(2), c.constant(3))
    if len(parts[3]) != len(c[4].dims):
        raise c.unsupported(f"a gradient of rank {len(c[4].dims)}, expected {len(parts[3])}")
    for a, b in zip(c[4].dims, parts[3], strict=True):
        c.b.require(a, "==", b, "StridedSliceGrad: the gradient has the slice's shape")
    return parts


def _slice_grad_shape(c: RuleContext) -> list[Dims]:
    _slice_grad(c)
    return [tuple(c.sizes(0))]


def _lower_slice_grad(c: RuleContext) -> Value:
    starts, counts, steps, _ = _slice_grad(c)
    value = c.b.reshape(c[4], counts)
    # A slice that went backwards is turned round, so that it is put back forwards.
    turned = [n - 1 if s < 0 else as_dim(0) for n, s in zip(counts, steps, strict=True)]
    value = c.b.slice(value, turned, counts, [1 if s > 0 else -1 for s in steps])
    begin = [
        at + (n - 1) * s if s < 0 else at for at, n, s in zip(starts, counts, steps, strict=True)
    ]
    zero = zero_of(c, value.dtype)
    return c.b.pad(value, zero, begin, c.sizes(0), [abs(s) for s in steps])


_PADS: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = (
    ("f32", (5,), (2, 3)), ("f32", (3, 5), (0, 0, 1, 2)), ("f32", (3, 5), (2, 1, 0, 0)), ("f32", (2, 7, 5, 3),
    (0, 0, 1, 1, 2, 1, 0, 0)),
    ("f32", (3, 33), (1, 0, 0, 130)), ("f32", (0, 3), (0, 0, 2, 2)), ("f32", (0, 3), (2, 1, 0, 0)), ("f32", (3, 1),
    (0, 0, 5, 0)),
    ("i32", (2, 130), (0, 1, 17, 3)), ("i64", (2, 3), (1, 1, 1, 1)), ("bool", (2, 3), (1, 0, 0, 2)),
    ("f64", (2, 3), (0, 0, 0, 0)),
    ("f32", (1, 1, 1), (1, 2, 3, 4, 5, 6)), ("f32", (), ()),
)  # fmt: skip
_MIRRORS: tuple[tuple[str, tuple[int, ...], tuple[int, ...], str], ...] = (
    ("f32", (5,), (2, 4), "REFLECT"), ("f32", (5,), (5, 4), "SYMMETRIC"), ("f32", (3, 33), (2, 1, 32, 0), "REFLECT"),
    ("f32", (3, 33), (0, 0, 33, 17), "SYMMETRIC"), ("f32", (2, 7, 5, 3), (0, 0, 1, 1, 2, 1, 0, 0), "REFLECT"),
    ("f32", (1, 1), (0, 0, 0, 0),
    "REFLECT"), ("i64", (2, 3), (1, 1, 2, 1), "REFLECT"), ("f32", (0, 3), (0, 0, 1, 1), "SYMMETRIC"),
    ("i32", (1, 2), (1, 1, 0, 2),
    "SYMMETRIC"),
)  # fmt: skip
_SLICES: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...],
dict[str, int]], ...] = (
    ((4, 5), (0, 1), (2, 3), (1, 1), (2, 2), {}),
    ((4, 33), (3, 0), (0, 0), (-2, 1), (2, 33), {"end_mask": 2}),
    ((4, 33), (0, 0), (0, 0), (-1, -3), (4, 11), {"begin_mask": 3, "end_mask": 3}),
    ((4, 130), (0, 1), (0, 2), (1, 1), (4,), {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}),
    ((4, 5, 7), (0, 0, 1), (0, 0, 0), (1, 1, 3), (4, 5, 1, 2), {"ellipsis_mask": 1, "new_axis_mask": 2, "end_mask": 4}),
    ((4, 5), (2, 0), (2, 5), (1, 1), (0, 5), {}),
    ((0, 5), (0, 0), (0, 5), (1, 2), (0, 3), {}),
    ((7,), (-3,), (-1,), (1,), (2,), {}),
    ((7,), (1,), (100,), (4,), (2,), {}),
)  # fmt: skip

_RULES: list[OpRule] = [
    OpRule(
        "Pad", {"T": ANY, "Tpaddings": INDEX}, _padded, _pad,
        tuple(Example((Arg(dtype, dims), i32_pairs(*p))) for dtype, dims, p in _PADS)
        + (Example((Arg("f32", (2,)), i32_pairs(-1, 3)), error="InvalidArgument"),
           Example((Arg("f32", (2,)), i32_pairs(0, 0, 0, 0)), error="InvalidArgument")),
        cost="move", by_length=(1,),
    ),
    OpRule(
        "PadV2", {"T": ANY, "Tpaddings": INDEX}, _padded, _pad,
        tuple(Example((Arg(dtype, dims), i32_pairs(*p), Arg(dtype))) for dtype, dims, p in _PADS)
        + (Example((Arg("f32", (2,)), i32_pairs(1, -3), Arg("f32")), error="InvalidArgument"),),
        cost="move", by_length=(1,),
    ),
    OpRule(
        "MirrorPad", {"T": ANY, "Tpaddings": INDEX}, _mirrored, _mirror_pad,
        tuple(Example((Arg(dtype, dims), i32_pairs(*p)), {"mode": mode}) for dtype, dims, p, mode in _MIRRORS)
        + tuple(Example((Arg("f32", dims), i32_pairs(*p)), {"mode": mode}, error="InvalidArgument") for dims, p, mode in (
            ((2,), (2, 0), "REFLECT"), ((2,), (0, 3), "SYMMETRIC"), ((0,), (0, 0), "REFLECT"), ((3,), (-1, 0),
            "REFLECT"))),
        cost="move", by_length=(1,),
    ),
    OpRule(
        "MirrorPadGrad", {"T": NUMBERS, "Tpaddings": INDEX}, _unpadded, _mirror_pad_grad,
        tuple(
            Example((Arg(dtype, tuple(d + p[2 * i] + p[2 * i + 1] for i, d in enumerate(dims))), i32_pairs(*p)),
            {"mode": mode})
            for dtype, dims, p, mode in _MIRRORS if 0 not in dims
        ) + (
            Example((Arg("f32", (0, 3)), i32_pairs(0, 0, 1, 1)), {"mode": "SYMMETRIC"}, error="InvalidArgument"),
            Example((Arg("f32", (3,)), i32_pairs(2, 0)), {"mode": "REFLECT"}, error="InvalidArgument"),),
        cost="move", by_length=(1,),
    ),
    OpRule(
        "StridedSliceGrad", {"T": ANY, "Index": INDEX}, _slice_grad_shape, _lower_slice_grad,
        tuple(
            Example((i32(*shape), i32(*begin), i32(*end), i32(*strides), Arg("f32", dy)), attrs)
            for shape, begin, end, strides, dy, attrs in _SLICES
        ) + (
            Example((i32(3, 5), i32(1), i32(3), i32(1), Arg("i64", (2, 5)))),
            Example((i32(3, 5), i32(1), i32(3), i32(1), Arg("bool", (2, 5)))),
            Example((i32(4, 5), i32(0, 0), i32(2, 2), i32(1, 1), Arg("f32", (2, 3))), error="InvalidArgument"),
        ),
        cost="move", by_value=(3,), by_length=(0, 1, 2),
    ),
]  # fmt: skip

RULES = [of_every_type(rule) for rule in _RULES]
