"""Coordinates of an element inside a kernel: numbers that may differ from lane to lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_disc.compiler.codegen.loop_builder import LoopBuilder
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.ir.types import LoopType


@dataclass(frozen=True)
class Coordinate:
    """`base + lane * step` for lane 0, 1, 2 …; or `lanes`, a vector, where that form cannot say it.

    A step that only the call knows is `stride`, and `step` is 0 then.
    """

    base: Value | None
    step: int = 0
    lanes: Value | None = None
    stride: Value | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal coordinates of one kernel."""
        return (id(self.base), self.step, id(self.lanes), id(self.stride))

    @property
    def uniform(self) -> bool:
        """True when all lanes have the same number, `base`."""
        return self.base is not None and self.step == 0 and self.stride is None


class CoordinateMath:
    """Arithmetic on coordinates, emitting loop IR."""

    def __init__(self, builder: LoopBuilder) -> None:
        self.b = builder
        #: Whether code may run where an operand has no elements, as behind a pad: a size of 0 divides nothing then.
        self.may_be_empty = False
        self._parts: dict[tuple[object, ...], list[Coordinate]] = {}

    def constant(self, value: int) -> Coordinate:
        """The same number in every lane."""
        return Coordinate(self.b.index(value))

    def scalar(self, value: Value) -> Coordinate:
        """A loop value of i64 as a coordinate, scalar or lanes."""
        return Coordinate(None, 0, value) if self.b.is_lanes(value) else Coordinate(value)

    def vector(self, c: Coordinate) -> Value:
        """All lanes as one v.i64."""
        if c.lanes is not None:
            return c.lanes
        assert c.base is not None
        lane = self.b.pure("lane", [], LoopType("i64", True))
        step = self.b.index(c.step) if c.stride is None else c.stride
        return self.b.int_op("iadd", self.b.int_op("imul", lane, step), c.base)

    def add(self, a: Coordinate, b: Coordinate) -> Coordinate:
        """Lane by lane."""
        if a.base is not None and b.base is not None:
            base = self.b.int_op("iadd", a.base, b.base)
            if a.stride is None and b.stride is None:
                return Coordinate(base, a.step + b.step)
            strides = [self.b.index(c.step) if c.stride is None else c.stride for c in (a, b)]
            return Coordinate(base, stride=self.b.int_op("iadd", *strides))
        if b.base is not None and b.uniform and self.b.known(b.base) == 0:
            return a
        if a.base is not None and a.uniform and self.b.known(a.base) == 0:
            return b
        return Coordinate(None, 0, self.b.int_op("iadd", self._operand(a), self._operand(b)))

    def mul(self, a: Coordinate, by: Value) -> Coordinate:
        """By a number that is the same in every lane."""
        known = self.b.known(by)
        if known == 0:
            return self.constant(0)
        if a.base is None:
            return Coordinate(None, 0, self.b.int_op("imul", self.vector(a), by))
        base = self.b.int_op("imul", a.base, by)
        if a.stride is not None:
            return Coordinate(base, stride=self.b.int_op("imul", a.stride, by))
        if a.step == 0 or known is not None:
            return Coordinate(base, a.step * (known or 0))
        return Coordinate(base, stride=self.b.int_op("imul", self.b.index(a.step), by))

    def divide(self, a: Coordinate, by: Value) -> tuple[Coordinate, Coordinate]:
        """Quotient and remainder of a coordinate >= 0."""
        operand = self._operand(a)
        if self.may_be_empty and self.b.known(by) is None:
            by = self.b.pure("max", [by, self.b.index(1)], LoopType("i64"))
        return (
            self.scalar(self.b.int_op("idiv", operand, by)),
            self.scalar(self.b.int_op("imod", operand, by)),
        )

    def in_range(self, a: Coordinate, size: Value) -> Value:
        """bool: 0 <= a < size, lane by lane where lanes differ."""
        operand = self._operand(a)
        return self.b.pure("in_range", [operand, size], LoopType("bool", self.b.is_lanes(operand)))

    def _operand(self, c: Coordinate) -> Value:
        if c.base is not None and c.uniform:
            return c.base
        return self.vector(c)

    def linear(self, coordinates: Sequence[Coordinate], strides: Sequence[Value]) -> Coordinate:
        """The sum of coordinates times strides."""
        total = self.constant(0)
        for c, s in zip(coordinates, strides, strict=True):
            total = self.add(total, self.mul(c, s))
        return total

    def join(self, parts: Sequence[Coordinate], sizes: Sequence[Value]) -> Coordinate:
        """The position of coordinates of axes of these sizes, row-major, which `split` need not divide."""
        steps = [self.b.index(1)]
        for size in reversed(sizes[1:]):
            steps.insert(0, self.b.int_op("imul", size, steps[0]))
        position = self.linear(parts, steps)
        self._parts[position.key, tuple(id(s) for s in sizes)] = list(parts)
        return position

    def split(self, linear: Coordinate, sizes: Sequence[Value]) -> list[Coordinate]:
        """A row-major position as coordinates of axes of these sizes."""
        given = self._parts.get((linear.key, tuple(id(s) for s in sizes)))
        if given is not None:
            return list(given)
        result: list[Coordinate] = []
        big = [i for i, s in enumerate(sizes) if self.b.known(s) != 1]
        for i in range(len(sizes) - 1, -1, -1):
            if i not in big:
                result.append(self.constant(0))
            elif i == big[0]:
                result.append(linear)
            else:
                linear, rest = self.divide(linear, sizes[i])
                result.append(rest)
        return result[::-1]
