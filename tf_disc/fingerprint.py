"""What identifies the compiler: kernels of another one are never mixed in.

Both sides of the worker protocol take it from here: the process that starts the worker, and the
worker's "ready" line. Importing llvmlite for its version would cost the first 30 ms and an LLVM.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from functools import cache
from pathlib import Path

from tf_disc.version import __version__


@cache
def compiler_fingerprint() -> str:
    """Version, llvmlite's version, and a hash of the compiler's sources, as one line of text."""
    compiler = Path(__file__).resolve().parent / "compiler"
    digest = hashlib.sha256()
    for source in sorted(compiler.rglob("*.py")):
        digest.update(str(source.relative_to(compiler)).encode() + b"\0")
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    try:
        llvmlite = importlib.metadata.version("llvmlite")
    except importlib.metadata.PackageNotFoundError:
        llvmlite = "none"
    return f"tf_disc-{__version__} llvmlite-{llvmlite} {digest.hexdigest()[:16]}"
