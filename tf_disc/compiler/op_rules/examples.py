"""Examples that many ops share: shapes that would catch a wrong lowering, over all element types of an op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from tf_disc.compiler.op_rules.record import Arg, Example, OpRule

Shape = tuple[int, ...]

UNARY: tuple[Shape, ...] = ((), (0,), (1,), (3, 5), (17,), (2, 3, 67), (4, 0, 2))
#: Operands of equal rank or less, sizes 0 and 1, and more than a vector.
PAIRS: tuple[tuple[Shape, Shape], ...] = (
    ((), ()), ((5,), (5,)), ((3, 17), (17,)), ((3, 17), (3, 1)), ((2, 1, 7), (4, 1)), ((0, 3), (3,)),
    ((1,), (33,)), ((2, 3, 4, 5), (1, 3, 1, 5)), ((130,), ()),
)  # fmt: skip


def unary(
    dtypes: Sequence[str], kind: str = "any", attrs: Mapping[str, Any] | None = None
) -> tuple[Example, ...]:
    """One operand: all shapes of the first type, two of each other."""
    return tuple(
        Example((Arg(dtype, shape, kind),), attrs or {})
        for i, dtype in enumerate(dtypes)
        for shape in (UNARY if i == 0 else ((2, 3, 67), (0,)))
    )


def binary(dtypes: Sequence[str], *kinds: str) -> tuple[Example, ...]:
    """Two operands that broadcast: all pairs of the first type, three of each other. kinds: of both, or of each."""
    left, right = (*kinds, *kinds)[:2] if kinds else ("any", "any")
    return tuple(
        Example((Arg(dtype, a, left), Arg(dtype, b, right)))
        for i, dtype in enumerate(dtypes)
        for a, b in (PAIRS if i == 0 else (((3, 1), (1, 67)), ((0, 3), (3,)), ((33,), (33,))))
    )


def same_shape(dtypes: Sequence[str], count: int = 2, kind: str = "any") -> tuple[Example, ...]:
    """`count` operands of one shape."""
    return tuple(
        Example((Arg(dtype, shape, kind),) * count)
        for i, dtype in enumerate(dtypes)
        for shape in (((3, 5), (0, 4), (), (2, 3, 67)) if i == 0 else ((33,), (0,)))
    )


def of_every_type(rule: OpRule) -> OpRule:
    """The rule with one more example of each element type that its examples lack: the largest one, in that type."""
    attr = next((a for a in ("T", "Tparams", "dtype") if a in rule.dtypes), None)
    good = [e for e in rule.examples if not e.error and _data(e)]
    if attr is None or not good:
        return rule
    largest = max(good, key=lambda e: max(prod(a.dims) for a in _data(e)))
    lacking = [t for t in rule.dtypes[attr] if all(_data(e)[0].dtype != t for e in good)]
    return replace(rule, examples=(*rule.examples, *(_in_type(largest, t) for t in lacking)))


def _data(example: Example) -> list[Arg]:
    """The operands whose elements are drawn: data, not indices or sizes."""
    args = [a for arg in example.args for a in (arg if isinstance(arg, tuple) else (arg,))]
    return [a for a in args if a.values is None and not a.high]


def _in_type(example: Example, dtype: str) -> Example:
    old = _data(example)[0].dtype

    def changed(arg: Arg) -> Arg:
        data = arg.values is None and not arg.high and arg.dtype == old
        return replace(arg, dtype=dtype) if data else arg

    args = tuple(
        tuple(changed(a) for a in arg) if isinstance(arg, tuple) else changed(arg)
        for arg in example.args
    )
    return replace(example, args=args)  # type: ignore[arg-type]
