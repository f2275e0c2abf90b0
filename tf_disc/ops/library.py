"""Finds, checks and loads libtf_disc.so, once a process."""

from __future__ import annotations

import importlib
import importlib.util
import json
import threading
from pathlib import Path
from types import ModuleType

from tf_disc.errors import IncompatibleTensorFlowError, PluginConflictError, TfDiscError

_FOLDER = Path(__file__).resolve().parent.parent / "lib"
_lock = threading.Lock()
_native: ModuleType | None = None


def _series(version: str) -> str:
    return ".".join(version.split(".")[:2])


def check_tensorflow_version(found: str, built: str) -> None:
    """Raises IncompatibleTensorFlowError unless `found` is of the series that `built` is of.

    C++ types of TensorFlow change their layout between minor versions, so that loading the library
    into another series would corrupt memory rather than fail.
    """
    if _series(found) != _series(built):
        raise IncompatibleTensorFlowError(
            f"tf_disc was built for TensorFlow {_series(built)} ({built}) and this process has "
            f"TensorFlow {found}. tf_disc stays off. Install a matching one: "
            f"pip install 'tensorflow-cpu=={_series(built)}.*', or build tf_disc anew against "
            f"TensorFlow {found}. TF_DISC=0 in the environment lets the import pass."
        )


def _import_tensorflow(built: str) -> ModuleType:
    if importlib.util.find_spec("tensorflow") is None:
        raise IncompatibleTensorFlowError(
            f"tf_disc needs TensorFlow {_series(built)} and this Python has none. "
            f"Run: pip install 'tensorflow-cpu=={_series(built)}.*'. "
            "TF_DISC=0 in the environment lets the import pass, for the compiler alone."
        )
    return importlib.import_module("tensorflow")


def load_library() -> ModuleType:
    """Loads the library and returns `tf_disc._native`. Later calls return the same.

    Raises IncompatibleTensorFlowError, or TfDiscError where the library is missing or does not
    load; each says what to do.
    """
    global _native
    with _lock:
        if _native is None:
            _native = _load()
        return _native


def require_library() -> ModuleType:
    """`tf_disc._native` if it is loaded. Raises TfDiscError if `enable()` was never called."""
    if _native is None:
        raise TfDiscError("tf_disc is not enabled in this process. Call tf_disc.enable() first.")
    return _native


def _load() -> ModuleType:
    library, info = _FOLDER / "libtf_disc.so", _FOLDER / "build_info.json"
    if not library.exists() or not info.exists():
        raise TfDiscError(
            f"tf_disc's native library is missing: {library}. In a source tree run `make build`; "
            "an installed tf_disc needs `pip install --force-reinstall tf-disc`."
        )
    built = json.loads(info.read_text())["tensorflow"]
    tensorflow = _import_tensorflow(built)
    check_tensorflow_version(tensorflow.__version__, built)
    try:
        # TensorFlow registers ops only from libraries that it opens itself, so this comes before
        # the import of _native, which would have the dynamic linker open the same file.
        tensorflow.load_op_library(str(library))
        native = importlib.import_module("tf_disc._native")
    except (ImportError, tensorflow.errors.OpError) as error:
        raise TfDiscError(
            f"tf_disc's native library {library} (built for TensorFlow {built}) does not load "
            f"into TensorFlow {tensorflow.__version__}: {error}. Build it anew with `make build`."
        ) from error
    _check_registration(native.registration())
    return native


def _check_registration(registration: str) -> None:
    if registration == "custom":
        raise PluginConflictError(
            "Another plugin (such as zentf or intel-extension-for-tensorflow) is the graph optimizer "
            "of CPUs in this process, and TensorFlow takes one. tf_disc stays off. Import tf_disc "
            "in a process that does not load the other: uninstall it, or keep it out of "
            "site-packages/tensorflow-plugins."
        )
