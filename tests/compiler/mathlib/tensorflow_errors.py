"""TensorFlow's own errors, for comparison: `python -m tests.compiler.mathlib.tensorflow_errors`.

A sample of all magnitudes and of where models compute, since its kernels take minutes for all floats.
"""

from __future__ import annotations

import json

import numpy as np
import tensorflow as tf

from tests.compiler.mathlib.reference import REFERENCES
from tests.compiler.mathlib.test_error_bounds import every
from tests.compiler.mathlib.ulp import largest_ulp
from tf_disc.compiler.codegen.mathlib.measured import PATH, Measured, read

KERNELS = {
    name: getattr(tf.math, name)
    for name in (
        *("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "softplus", "erf", "erfc", "rsqrt"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
    )
}
#: Where its sin, cos and tan still mean something.
FARTHEST = 1e5


def main() -> None:
    generator = np.random.default_rng(1)
    near = generator.normal(0.0, 3.0, 1_000_000).astype(np.float32)
    small = np.exp2(generator.uniform(-8.0, 4.0, 500_000)).astype(np.float32)
    x = np.concatenate([every(2**12 + 1), near, small])
    measured = read()
    for name, kernel in KERNELS.items():
        operands = x[np.abs(x) < FARTHEST] if name in ("sin", "cos", "tan") else x
        with np.errstate(all="ignore"):
            exact = REFERENCES[name].exact(operands.astype(np.float64))
        error = largest_ulp(kernel(tf.constant(operands)).numpy(), exact)
        print(f"{name:9} {error:.2f}", flush=True)
        measured.setdefault(name, {})["tensorflow"] = Measured(ulp=round(error, 2))
    text = {n: {t: m.fields() for t, m in by.items()} for n, by in measured.items()}
    PATH.write_text(json.dumps(text, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
