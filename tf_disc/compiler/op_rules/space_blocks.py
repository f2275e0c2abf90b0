"""Blocks of places put into the channels or the batch, and back: reshapes and transposes."""

from __future__ import annotations

from tf_disc.compiler.ir.dims import Dim, DimLike, product
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import ANY, INDEX, NUMBERS
from tf_disc.compiler.op_rules.examples import of_every_type
from tf_disc.compiler.op_rules.padding import zero_of
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext, i32, i32_pairs


def _block(c: RuleContext) -> int:
    """The side of a block, of images [batch, height, width, channels]."""
    if len(c[0].dims) != 4:
        raise c.unsupported("takes an operand of rank 4")
    return int(c.attr("block_size"))


def _parts(c: RuleContext, whole: Dim, count: int, what: str) -> Dim:
    c.b.require(whole % count, "==", 0, f"{c.op}: {what} in {count} equal parts")
    return whole // count


def _depth_to_space_shape(c: RuleContext) -> list[Dims]:
    b = _block(c)
    n, h, w, channels = c[0].dims
    return [(n, h * b, w * b, _parts(c, channels, b * b, "channels"))]


def _depth_to_space(c: RuleContext) -> Value:
    b = _block(c)
    ((n, high, wide, depth),) = _depth_to_space_shape(c)
    h, w = c[0].dims[1:3]
    cut = c.b.reshape(c[0], [n, h, w, b, b, depth])
    return c.b.reshape(c.b.transpose(cut, [0, 1, 3, 2, 4, 5]), [n, high, wide, depth])


def _space_to_depth_shape(c: RuleContext) -> list[Dims]:
    b = _block(c)
    n, h, w, channels = c[0].dims
    return [(n, _parts(c, h, b, "height"), _parts(c, w, b, "width"), channels * (b * b))]


def _space_to_depth(c: RuleContext) -> Value:
    b = _block(c)
    ((n, h, w, depth),) = _space_to_depth_shape(c)
    cut = c.b.reshape(c[0], [n, h, b, w, b, c[0].dims[3]])
    return c.b.reshape(c.b.transpose(cut, [0, 1, 3, 2, 4, 5]), [n, h, w, depth])


# -- blocks in the batch -------------------------------------------------------------------


def _blocks(c: RuleContext) -> tuple[list[int], list[tuple[Dim, Dim]]]:
    """The sides of a block, and what is put in front of and behind each axis, or cut off there."""
    sides = c.constant(1)
    flat = c.sizes(2)
    if len(flat) != 2 * len(sides) or len(c[0].dims) < 1 + len(sides):
        raise c.unsupported(f"{len(sides)} axes in blocks, with {len(flat)} margins")
    for side in sides:
        if side < 1:
            raise c.unsupported("a block of no elements")
    for number in flat:
        c.b.require(number, ">=", 0, f"{c.op}: a margin is not negative")
    return sides, list(zip(flat[::2], flat[1::2], strict=True))


def _fronts(c: RuleContext, margins: list[tuple[Dim, Dim]]) -> list[DimLike]:
    """What is in front of each axis of the operand: nothing of the batch and of those that have no blocks."""
    fronts = [front for front, _ in margins]
    return [0, *fronts, *[0] * (len(c[0].dims) - 1 - len(fronts))]


def _space_to_batch_shape(c: RuleContext) -> list[Dims]:
    sides, margins = _blocks(c)
    n, *rest = c[0].dims
    spatial = [
        _parts(c, d + front + back, side, "a padded axis")
        for d, side, (front, back) in zip(rest, sides, margins, strict=False)
    ]
    return [(n * product(sides), *spatial, *rest[len(sides) :])]


def _space_to_batch(c: RuleContext) -> Value:
    sides, margins = _blocks(c)
    (dims,) = _space_to_batch_shape(c)
    n, *rest = c[0].dims
    count = len(sides)
    sizes: list[DimLike] = [
        n,
        *(d * s for d, s in zip(dims[1:], sides, strict=False)),
        *rest[count:],
    ]
    padded = c.b.pad(c[0], zero_of(c, c[0].dtype), _fronts(c, margins), sizes, [1] * len(sizes))
    pairs = [part for d, s in zip(dims[1:], sides, strict=False) for part in (d, s)]
    cut = c.b.reshape(padded, [n, *pairs, *rest[count:]])
    order = [*range(2, 1 + 2 * count, 2), 0, *range(1, 1 + 2 * count, 2)]
    moved = c.b.transpose(cut, [*order, *range(1 + 2 * count, len(cut.dims))])
    return c.b.reshape(moved, dims)


def _batch_to_space_shape(c: RuleContext) -> list[Dims]:
    sides, margins = _blocks(c)
    n, *rest = c[0].dims
    spatial: list[Dim] = []
    for d, side, (front, back) in zip(rest, sides, margins, strict=False):
        left = d * side - front - back
        c.b.require(left, ">=", 0, f"{c.op}: an axis is at least as long as what is cut off")
        spatial.append(left)
    batch = _parts(c, n, product(sides).value or 1, "the batch")
    return [(batch, *spatial, *rest[len(sides) :])]


def _batch_to_space(c: RuleContext) -> Value:
    sides, margins = _blocks(c)
    (dims,) = _batch_to_space_shape(c)
    _, *rest = c[0].dims
    count = len(sides)
    cut = c.b.reshape(c[0], [*sides, dims[0], *rest])
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    moved = c.b.transpose(cut, [*order, *range(2 * count + 1, len(cut.dims))])
    whole = c.b.reshape(
        moved, [dims[0], *(d * s for d, s in zip(rest, sides, strict=False)), *rest[count:]]
    )
    return c.b.slice(whole, _fronts(c, margins), dims, [1] * len(dims))


def _image(dims: tuple[int, ...], block: int, error: str = "") -> Example:
    return Example((Arg("f32", dims),), {"block_size": block}, error)


def _batch(
    dims: tuple[int, ...], sides: tuple[int, ...], margins: tuple[int, ...], error: str = ""
) -> Example:
    return Example((Arg("f32", dims), i32(*sides), i32_pairs(*margins)), {}, error)


_RULES: list[OpRule] = [
    OpRule(
        "DepthToSpace", {"T": ANY}, _depth_to_space_shape, _depth_to_space,
        (_image((2, 3, 5, 12), 2), _image((1, 2, 1, 45), 3), _image((0, 2, 3, 4), 2), _image((1, 7, 4, 132), 2),
         _image((1, 2, 2, 6), 2, "InvalidArgument")),
        cost="move", attrs={"data_format": ("NHWC",)},
    ),
    OpRule(
        "SpaceToDepth", {"T": ANY}, _space_to_depth_shape, _space_to_depth,
        (_image((2, 4, 6, 3), 2), _image((1, 9, 3, 5), 3), _image((0, 2, 2, 4), 2), _image((1, 8, 4, 33), 2),
         _image((1, 3, 2, 6), 2, "InvalidArgument")),
        cost="move", attrs={"data_format": ("NHWC",)},
    ),
    OpRule(
        "SpaceToBatchND", {"T": NUMBERS, "Tblock_shape": INDEX, "Tpaddings": INDEX}, _space_to_batch_shape, _space_to_batch,
        (_batch((2, 5, 6, 3), (2, 3), (1, 0, 2, 1)), _batch((1, 7, 5), (4,), (0, 1)),
         _batch((0, 4, 4, 2), (2, 2), (0, 0, 0, 0)),
         _batch((1, 6, 6, 33), (2, 2), (0, 0, 1, 1)), _batch((1, 5, 4, 2), (2, 2), (0, 0, 0, 0), "InvalidArgument")),
        cost="move", by_value=(1,), by_length=(2,),
    ),
    OpRule(
        "BatchToSpaceND", {"T": NUMBERS, "Tblock_shape": INDEX, "Tcrops": INDEX}, _batch_to_space_shape, _batch_to_space,
        (_batch((12, 3, 3, 3), (2, 3), (1, 0, 2, 1)), _batch((4, 2, 5), (4,), (0, 1)),
         _batch((0, 4, 4, 2), (2, 2), (0, 0, 0, 0)),
         _batch((4, 3, 4, 33), (2, 2), (0, 0, 1, 1)), _batch((3, 4, 4, 2), (2, 2), (0, 0, 0, 0), "InvalidArgument")),
        cost="move", by_value=(1,), by_length=(2,),
    ),
]  # fmt: skip

RULES = [of_every_type(rule) for rule in _RULES]
