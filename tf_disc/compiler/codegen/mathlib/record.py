"""What is known about one math function: the one place for its error bound and its range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.lanes import Lanes


@dataclass(frozen=True)
class MathFunction:
    """One function that `emit` knows.

    max_ulp: by dtype (`f32`, `f64`), the largest error against the exact value, in units in the
        last place of the exact value rounded to that dtype. A dtype that is missing is not
        supported. Inputs below the smallest normal number count as zero, and results below it may
        be zero: TensorFlow's threads run that way (MXCSR flushes and reads denormals as zero).
    valid_range: where the bound holds; outside, special_values says what comes back.
    special_values: NaN, infinities, zeros and poles.
    source: the paper or the algorithm.
    emitter: called with Lanes of the operands' type and the operands.
    """

    name: str
    arity: int
    max_ulp: Mapping[str, float]
    valid_range: str
    special_values: str
    source: str
    emitter: Callable[..., ir.Value]

    def emit(self, lanes: Lanes, *args: ir.Value) -> ir.Value:
        result: ir.Value = self.emitter(lanes, *args)
        return result
