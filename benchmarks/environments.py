"""Virtual environments of the peers: made from named pins, one each, by `python -m benchmarks setup`.

TensorFlow and tf_disc have none here: they run in the one that the harness runs in, where tf_disc is
built. zentf must not share it: its numpy is older, and its plugin loads into every TensorFlow beside
it. Conversion to ONNX has one too, `onnx`: the runtimes need nothing of what converts.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.peers import OWN

#: What pip installs, to the last digit that changes behaviour.
PINS: Mapping[str, tuple[str, ...]] = {
    "onnx": ("tensorflow-cpu==2.21.0", "tf2onnx==1.17.0", "onnx==1.23.2"),
    "ort": ("onnxruntime==1.32.0", "numpy==2.4.6"),
    "openvino": ("openvino==2026.4.1", "numpy==2.4.6"),
    "zentf": ("zentf==2.21.0.0", "tensorflow-cpu==2.21.0", "numpy==1.26.4"),
}

DEFAULT_FOLDER = Path("build/benchmarks/envs")


def python_of(environment: str, folder: Path) -> Path:
    """The interpreter of an environment. Raises FileNotFoundError with what to run."""
    if environment == OWN:
        return Path(sys.executable)
    # Not resolved: the link's place is what makes it the environment's own.
    path = folder.absolute() / environment / "bin" / "python"
    if not _stamp(environment, folder).exists():
        raise FileNotFoundError(
            f"environment {environment} is not set up in {folder}. "
            f"Run: python -m benchmarks setup --envs {folder}"
        )
    return path


def is_current(environment: str, folder: Path) -> bool:
    """Whether the environment was made from today's pins."""
    stamp = _stamp(environment, folder)
    return stamp.exists() and stamp.read_text(encoding="utf-8") == "\n".join(PINS[environment])


def make(environment: str, folder: Path) -> None:
    """Makes one environment anew. Raises CalledProcessError if pip fails."""
    place = folder / environment
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *PINS[environment]], check=True)
    _stamp(environment, folder).write_text("\n".join(PINS[environment]), encoding="utf-8")


def _stamp(environment: str, folder: Path) -> Path:
    return folder / environment / ".pins"
