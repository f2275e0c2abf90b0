"""The options in force, and how they reach the native library.

Options come in layers, the later winning: defaults, environment, `enable(...)`, then each open
`options(...)` context. They belong to the process, not to a thread.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from tf_disc import config
from tf_disc.config import OPTIONS, Value
from tf_disc.fingerprint import compiler_fingerprint

_lock = threading.Lock()
_enable_layer: dict[str, Value] = {}
_context_layers: list[Mapping[str, Value]] = []
_native: ModuleType | None = None


def worker_command() -> list[str]:
    """The command that starts a compile worker with this Python."""
    return [sys.executable, "-m", "tf_disc.compiler.worker"]


def worker_environment() -> dict[str, str]:
    """What the worker's environment has beyond this process's own.

    It finds this tf_disc first and nothing in the current folder (3.10 ignores the last one), and
    TF_DISC=0 keeps `import tf_disc` there from importing TensorFlow.
    """
    parent = str(Path(__file__).resolve().parent.parent)
    paths = [parent, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {"PYTHONPATH": os.pathsep.join(paths), "TF_DISC": "0", "PYTHONSAFEPATH": "1"}


def in_force() -> dict[str, Value]:
    """All options by name, as they stand."""
    with _lock:
        return _merged()


def _merged() -> dict[str, Value]:
    merged = {**config.defaults(), **config.environment_options(), **_enable_layer}
    for layer in _context_layers:
        merged.update(layer)
    return merged


def attach(native: ModuleType, layer: Mapping[str, Value]) -> None:
    """Hands the options to the library and keeps it told of every change."""
    global _native
    with _lock:
        before = dict(_enable_layer)
        _enable_layer.update(layer)
        try:
            _push(native)
        except Exception:
            _enable_layer.clear()
            _enable_layer.update(before)
            raise
        _native = native


def push_layer(layer: Mapping[str, Value]) -> None:
    """Opens a context's layer."""
    with _lock:
        _context_layers.append(layer)
        if _native is not None:
            try:
                _push(_native)
            except Exception:
                _remove(layer)
                raise


def pop_layer(layer: Mapping[str, Value]) -> None:
    """Closes that very layer: contexts of several threads need not end in order."""
    with _lock:
        _remove(layer)
        if _native is not None:
            _push(_native)


def _remove(layer: Mapping[str, Value]) -> None:
    # By identity: two contexts with equal options are two layers.
    del _context_layers[next(i for i, open_ in enumerate(_context_layers) if open_ is layer)]


def _push(native: ModuleType) -> None:
    options = _merged()
    native.configure(
        worker_command=worker_command(),
        worker_environment=worker_environment(),
        fingerprint=compiler_fingerprint(),
        cache_dir=options["cache_dir"],
        dump_dir=options["dump"],
        compile_timeout_s=options["compile_timeout_s"],
        weight_cache_mb=options["weight_cache_mb"],
        max_cpu=options["max_cpu"],
        pool_mb=options["pool_mb"],
    )
    for option in OPTIONS:
        if option.scope == "graph":
            native.set_option(option.name, option.text(options[option.name]))
