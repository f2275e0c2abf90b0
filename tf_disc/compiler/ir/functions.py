"""The scalar functions that elementwise ops apply. One entry each: arity, dtype rule, and value on the host.

How each is emitted is said in codegen/scalar_functions.py; the error bound of a math function in codegen/mathlib.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tf_disc.compiler.ir.types import INTEGERS, wrapped


@dataclass(frozen=True)
class ScalarFunction:
    """`result`: "same" (dtype of the operands), "bool", or "attr" (the op's type says it).

    `cost`: rough vector instructions for one lane group; decides what is computed again rather than kept.
    `evaluate`: value on Python numbers, for folding; None where folding would have to round as the target does.
    `checked`: it may find at run time that the call is TensorFlow's (a division by zero), so that every element
    must be computed where TensorFlow computes it.
    """

    name: str
    arity: int
    result: str = "same"
    cost: int = 1
    evaluate: Callable[..., Any] | None = None
    checked: bool = False


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_TABLE = [
    ScalarFunction("add", 2, evaluate=lambda a, b: a + b),
    ScalarFunction("sub", 2, evaluate=lambda a, b: a - b),
    ScalarFunction("mul", 2, evaluate=lambda a, b: a * b),
    ScalarFunction("div", 2, cost=4),
    ScalarFunction("neg", 1, evaluate=lambda a: -a),
    ScalarFunction("abs", 1, evaluate=abs),
    ScalarFunction("sign", 1, cost=4, evaluate=lambda a: (a > 0) - (a < 0)),
    ScalarFunction("max", 2, evaluate=max),
    ScalarFunction("min", 2, evaluate=min),
    ScalarFunction("floor", 1),
    ScalarFunction("ceil", 1),
    ScalarFunction("rint", 1),
    ScalarFunction("sqrt", 1, cost=6),
    ScalarFunction("rsqrt", 1, cost=8),
    ScalarFunction("exp", 1, cost=14),
    ScalarFunction("expm1", 1, cost=15),
    ScalarFunction("log", 1, cost=14),
    ScalarFunction("log1p", 1, cost=20),
    ScalarFunction("pow", 2, cost=90, checked=True),
    ScalarFunction("tanh", 1, cost=16),
    ScalarFunction("sigmoid", 1, cost=16),
    ScalarFunction("softplus", 1, cost=37),
    ScalarFunction("erf", 1, cost=17),
    ScalarFunction("erfc", 1, cost=27),
    ScalarFunction("lgamma", 1, cost=150),
    ScalarFunction("ndtri", 1, cost=50),
    ScalarFunction("sin", 1, cost=30, checked=True),
    ScalarFunction("cos", 1, cost=30, checked=True),
    ScalarFunction("tan", 1, cost=50, checked=True),
    ScalarFunction("asin", 1, cost=30),
    ScalarFunction("acos", 1, cost=30),
    ScalarFunction("atan", 1, cost=30),
    ScalarFunction("atan2", 2, cost=36),
    ScalarFunction("sinh", 1, cost=30),
    ScalarFunction("cosh", 1, cost=30),
    ScalarFunction("asinh", 1, cost=40),
    ScalarFunction("acosh", 1, cost=40),
    ScalarFunction("atanh", 1, cost=40),
    # Of integers, and with errors; of floats a rule composes them of div, floor and fmod.
    ScalarFunction("truncdiv", 2, cost=20, checked=True, evaluate=_truncated),
    ScalarFunction(
        "truncmod", 2, cost=22, checked=True, evaluate=lambda a, b: a - b * _truncated(a, b)
    ),
    ScalarFunction("floordiv", 2, cost=24, checked=True, evaluate=lambda a, b: a // b),
    ScalarFunction("floormod", 2, cost=26, checked=True, evaluate=lambda a, b: a % b),
    ScalarFunction("fmod", 2, cost=40, checked=True),
    ScalarFunction("isnan", 1, "bool"),
    ScalarFunction("isinf", 1, "bool"),
    ScalarFunction("isfinite", 1, "bool"),
    ScalarFunction("eq", 2, "bool", evaluate=lambda a, b: a == b),
    ScalarFunction("ne", 2, "bool", evaluate=lambda a, b: a != b),
    ScalarFunction("lt", 2, "bool", evaluate=lambda a, b: a < b),
    ScalarFunction("le", 2, "bool", evaluate=lambda a, b: a <= b),
    ScalarFunction("gt", 2, "bool", evaluate=lambda a, b: a > b),
    ScalarFunction("ge", 2, "bool", evaluate=lambda a, b: a >= b),
    # Bit by bit; a bool is one bit.
    ScalarFunction("and", 2, evaluate=lambda a, b: a & b),
    ScalarFunction("or", 2, evaluate=lambda a, b: a | b),
    ScalarFunction("xor", 2, evaluate=lambda a, b: a ^ b),
    ScalarFunction("not", 1, evaluate=lambda a: not a if isinstance(a, bool) else ~a),
    ScalarFunction("shl", 2, cost=3),
    ScalarFunction("shr", 2, cost=3),
    ScalarFunction("select", 3),
    ScalarFunction("cast", 1, "attr"),
    ScalarFunction("copy", 1),
]

FUNCTIONS: dict[str, ScalarFunction] = {f.name: f for f in _TABLE}


def fold(name: str, values: list[Any], dtype: str) -> Any | None:
    """The value of a function of constants of integer or bool type, wrapped as the type wraps; None if not folded.

    Floats are left to the target, which rounds and flushes as a kernel does; errors to TensorFlow.
    """
    function = FUNCTIONS[name]
    if function.evaluate is None or any(isinstance(v, float) for v in values):
        return None
    if function.checked and values[-1] == 0:
        return None
    result = function.evaluate(*values)
    if dtype in INTEGERS:
        return wrapped(int(result), dtype)
    return bool(result) if dtype == "bool" else None


def is_checked(name: str, dtype: str) -> bool:
    """True where a function of operands of a type may leave the call to TensorFlow, which looks at every element."""
    function = FUNCTIONS.get(name)
    return function is not None and function.checked and (name != "pow" or dtype in INTEGERS)
