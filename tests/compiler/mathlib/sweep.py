"""All floats through one function: `python -m tests.compiler.mathlib.sweep exp log` (a few minutes each).

Prints what it found and puts it into tf_disc/compiler/codegen/mathlib/measured.json, which
docs/numerics.md shows. test_every_float.py does the same against the stated bounds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.compiler.execute import TARGETS
from tests.compiler.mathlib.compiled import kernel
from tests.compiler.mathlib.reference import REFERENCES
from tests.compiler.mathlib.ulp import wrong
from tf_disc.compiler.codegen import mathlib
from tf_disc.compiler.codegen.mathlib.measured import PATH, Measured, read

#: One value of sign and exponent a chunk.
CHUNK = 1 << 23
TINY = float(np.finfo(np.float32).tiny)


@dataclass
class Found:
    """The largest error in ULP, its operand, and how many results break the bound."""

    ulp: float = 0.0
    worst: float = 0.0
    wrong: int = 0


def _exact(name: str) -> Callable[[np.ndarray], np.ndarray]:
    # numpy has neither; ours in double is tested against mpmath, and is another polynomial.
    if name in ("erf", "erfc"):
        return kernel(name, "f64")
    return REFERENCES[name].exact


def _normal_errors(result: np.ndarray, exact: np.ndarray, rounded: np.ndarray) -> np.ndarray:
    """In units of the last place of `rounded`, a normal number."""
    power = (rounded.view(np.uint32) & np.uint32(0x7F800000)).view(np.float32)
    return np.abs(result - exact) / (power.astype(np.float64) * 2.0**-23)


def sweep(name: str, targets: tuple[str, ...] = TARGETS) -> dict[str, Found]:
    """Every float that is normal or infinite or NaN, inside the reference's range, by target.

    Denormal operands, which count as zero, and zeros are test_special_values.py's.
    """
    reference, exact_of = REFERENCES[name], _exact(name)
    bound = mathlib.FUNCTIONS[name].max_ulp["f32"]
    found = {target: Found() for target in targets}
    for high in range(512):
        if high % 256 == 0:
            continue
        x = np.arange(high * CHUNK, (high + 1) * CHUNK, dtype=np.uint32).view(np.float32)
        if np.isfinite(x[0]):
            x = x[(x >= reference.low) & (x <= reference.high)]
        if x.size == 0:
            continue
        with np.errstate(all="ignore"):
            exact = exact_of(x.astype(np.float64))
            rounded = exact.astype(np.float32)
            normal = np.isfinite(rounded) & (np.abs(exact) >= TINY)
        all_normal = bool(normal.all())
        for target, record in found.items():
            result = kernel(name, "f32", target=target)(x)
            if not all_normal:
                record.wrong += int(wrong(result[~normal], exact[~normal], bound).sum())
            if not normal.any():
                continue
            picked = (result, exact, rounded, x)
            if not all_normal:
                picked = tuple(array[normal] for array in picked)
            with np.errstate(invalid="ignore"):
                errors = _normal_errors(*picked[:3])
            record.wrong += int((~(errors <= bound)).sum())
            at = int(np.nanargmax(errors)) if not np.isnan(errors).all() else 0
            if errors[at] > record.ulp:
                record.ulp, record.worst = float(errors[at]), float(picked[3][at])
    return found


def main(names: list[str]) -> None:
    for name in names:
        found = sweep(name)
        measured = read()
        for target, record in found.items():
            print(f"{name} {target}: {record}", flush=True)
            if record.wrong:
                raise SystemExit(f"{name} breaks its bound for {target}; nothing is recorded")
            entry = measured.setdefault(name, {}).get(target, Measured())
            measured[name][target] = entry.with_error(round(record.ulp, 3), record.worst)
        text = {n: {t: m.fields() for t, m in sorted(by.items())} for n, by in measured.items()}
        PATH.write_text(json.dumps(text, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
