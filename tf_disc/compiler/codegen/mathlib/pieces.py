"""Polynomials an interval, with their coefficients in AVX-512 registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.lanes import Lanes


def on_whole_vectors(
    lanes: Lanes, emitter: Callable[[Lanes, ir.Value], ir.Value], x: ir.Value
) -> ir.Value:
    """emitter(x), which takes 16 floats at a time; of fewer the rest is left undefined.

    What emits one float and what emits 16 must agree, so a scalar goes through a vector, too.
    """
    width, b = lanes.machine.lanes, lanes.builder
    if lanes.width == width:
        return emitter(lanes, x)
    kind = ir.VectorType(lanes.element, width)
    undefined = ir.Constant(kind, ir.Undefined)
    whole = Lanes(b, kind)
    first = ir.Constant(ir.IntType(32), 0)
    if not isinstance(lanes.kind, ir.VectorType):
        value = emitter(whole, b.insert_element(undefined, x, first))
        return b.extract_element(value, first)
    if lanes.width > width:
        raise ValueError(f"vectors of {lanes.width} floats on a machine of {width}")

    def picked(a: ir.Value, count: int) -> ir.Value:
        """The first `count` lanes; those that `a` lacks are undefined."""
        order = [i if i < lanes.width else 0 for i in range(count)]
        indices = ir.Constant(ir.VectorType(ir.IntType(32), count), order)
        return b.shuffle_vector(a, ir.Constant(a.type, ir.Undefined), indices)

    return picked(emitter(whole, picked(x, width)), lanes.width)


def piecewise(
    lanes: Lanes, index: ir.Value, x: ir.Value, tables: Sequence[Sequence[float]], *, own: bool
) -> ir.Value:
    """The polynomial of interval `index` modulo 16, at t, which is x less the interval's centre.

    own: t itself is added, as fit.py says.

    tables: 16 numbers each: the centres, then the coefficients from the constant upward. NaN
    stays NaN, whatever its index.

    On Zen 4 a table of 32 takes the multiplier's place for a cycle, one of 16 for a third; higher
    degrees on wider intervals are faster than the reverse.
    """
    centres, start, *coefficients = tables
    t = lanes.sub(x, lanes.lookup(centres, index))
    slope = lanes.lookup(coefficients[-1], index)
    for table in reversed(coefficients[:-1]):
        slope = lanes.fma(slope, t, lanes.lookup(table, index))
    first = lanes.lookup(start, index)
    return lanes.fma(slope, t, lanes.add(first, t) if own else first)
