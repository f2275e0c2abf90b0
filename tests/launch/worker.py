"""The fake worker as tests hold it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

FAKE = Path(__file__).parent / "fake_worker.py"


class Worker:
    """Configures the library for the fake worker of one folder, and tells it what to do.

    Each has a fingerprint of its own: kernels of other tests' compilers are not taken from memory.
    """

    def __init__(self, native: ModuleType, folder: Path) -> None:
        self._native = native
        self.folder = folder
        self.fingerprint = f"fake {folder}"
        self.set("kernel any")

    def set(self, behaviour: str) -> None:
        """What it does from the next request (or start) on."""
        (self.folder / "behaviour").write_text(behaviour)

    def go(self) -> None:
        """Ends `wait`."""
        (self.folder / "go").touch()

    def configure(self, **settings: Any) -> None:
        """Points the library at it."""
        self._native.configure(
            **{
                "worker_command": [sys.executable, "-S", str(FAKE), str(self.folder)],
                "worker_environment": {"FAKE_FINGERPRINT": self.fingerprint},
                "fingerprint": self.fingerprint,
                "cache_dir": "",
                "dump_dir": "",
                "compile_timeout_s": 20.0,
                "weight_cache_mb": 64,
                **settings,
            }
        )

    def requests(self) -> list[dict[str, Any]]:
        """Every request so far."""
        path = self.folder / "requests"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]
