"""Vector math as LLVM IR: straight-line code that calls nothing, with a stated error bound each.

`emit(builder, "exp", x)` emits at the builder's position and makes no basic block; `FUNCTIONS` says
what there is, and for which types, with which error.
"""

from __future__ import annotations

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib import (
    error_functions,
    exponential,
    gamma,
    hyperbolic,
    inverse_trigonometric,
    logarithm,
    power,
    roots,
    trigonometric,
)
from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.record import MathFunction

__all__ = ["FUNCTIONS", "MathFunction", "emit"]

FUNCTIONS: dict[str, MathFunction] = {
    function.name: function
    for module in (
        error_functions,
        exponential,
        gamma,
        hyperbolic,
        inverse_trigonometric,
        logarithm,
        power,
        roots,
        trigonometric,
    )
    for function in module.FUNCTIONS
}


def emit(builder: ir.IRBuilder, name: str, *args: ir.Value) -> ir.Value:
    """Emits the function `name` of FUNCTIONS at the builder's position.

    args: as many as the function's arity, all of one type: float or double, or a vector of either
    with any number of lanes. Returns a value of that type. Emits straight-line code, no new basic
    block. Raises KeyError if there is no such function for the type, TypeError if the operands do
    not fit.
    """
    function = FUNCTIONS.get(name)
    if function is None:
        known = ", ".join(sorted(FUNCTIONS))
        raise KeyError(f"mathlib has no function {name!r}; it has {known}")
    kinds = [arg.type for arg in args]
    if len(args) != function.arity or any(kind != kinds[0] for kind in kinds):
        seen = ", ".join(str(kind) for kind in kinds)
        raise TypeError(
            f"mathlib function {name} takes {function.arity} operands of one type, not ({seen})"
        )
    element = kinds[0].element if isinstance(kinds[0], ir.VectorType) else kinds[0]
    dtype = {ir.FloatType(): "f32", ir.DoubleType(): "f64"}.get(element)
    if dtype is None or dtype not in function.max_ulp:
        known = " and ".join(sorted(function.max_ulp))
        raise KeyError(f"mathlib function {name} is there for {known} only, not for {kinds[0]}")
    return function.emit(Lanes(builder, kinds[0]), *args)
