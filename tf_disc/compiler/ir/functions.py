"""The scalar functions that elementwise ops apply. One entry each: arity, dtype rule, and value on the host.

How each is emitted is said in codegen/scalar.py; the error bound of a math function in codegen/mathlib.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ScalarFunction:
    """`result`: "same" (dtype of the operands), "bool", or "attr" (the op's type says it).

    `cost`: rough vector instructions for one lane group; decides what is computed again rather than kept.
    `evaluate`: value on Python numbers, for folding; None where folding would have to round as the target does.
    """

    name: str
    arity: int
    result: str = "same"
    cost: int = 1
    evaluate: Callable[..., Any] | None = None


def _wrap(bits: int) -> Callable[[int], int]:
    return lambda v: (v + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


_TABLE = [
    ScalarFunction("add", 2, evaluate=lambda a, b: a + b),
    ScalarFunction("sub", 2, evaluate=lambda a, b: a - b),
    ScalarFunction("mul", 2, evaluate=lambda a, b: a * b),
    ScalarFunction("div", 2, cost=4),
    ScalarFunction("neg", 1, evaluate=lambda a: -a),
    ScalarFunction("abs", 1, evaluate=abs),
    ScalarFunction("max", 2, evaluate=max),
    ScalarFunction("min", 2, evaluate=min),
    ScalarFunction("sqrt", 1, cost=6),
    ScalarFunction("rsqrt", 1, cost=8),
    ScalarFunction("exp", 1, cost=15),
    ScalarFunction("log", 1, cost=24),
    ScalarFunction("log1p", 1, cost=27),
    ScalarFunction("tanh", 1, cost=18),
    ScalarFunction("sigmoid", 1, cost=17),
    ScalarFunction("erf", 1, cost=25),
    ScalarFunction("erfc", 1, cost=33),
    ScalarFunction("eq", 2, "bool", evaluate=lambda a, b: a == b),
    ScalarFunction("ne", 2, "bool", evaluate=lambda a, b: a != b),
    ScalarFunction("lt", 2, "bool", evaluate=lambda a, b: a < b),
    ScalarFunction("le", 2, "bool", evaluate=lambda a, b: a <= b),
    ScalarFunction("gt", 2, "bool", evaluate=lambda a, b: a > b),
    ScalarFunction("ge", 2, "bool", evaluate=lambda a, b: a >= b),
    ScalarFunction("and", 2, evaluate=lambda a, b: a and b),
    ScalarFunction("or", 2, evaluate=lambda a, b: a or b),
    ScalarFunction("not", 1, evaluate=lambda a: not a),
    ScalarFunction("select", 3),
    ScalarFunction("cast", 1, "attr"),
    ScalarFunction("copy", 1),
]

FUNCTIONS: dict[str, ScalarFunction] = {f.name: f for f in _TABLE}


def fold(name: str, values: list[Any], dtype: str) -> Any | None:
    """The value of a function of constants of integer or bool type, wrapped as the type wraps; None if not folded.

    Floats are left to the target, which rounds and flushes as a kernel does.
    """
    function = FUNCTIONS[name]
    if function.evaluate is None or any(isinstance(v, float) for v in values):
        return None
    result = function.evaluate(*values)
    if dtype == "i32":
        return _wrap(32)(int(result))
    if dtype == "i64":
        return _wrap(64)(int(result))
    if dtype == "bool":
        return bool(result)
    return None
