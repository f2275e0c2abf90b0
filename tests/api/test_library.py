"""Loading the native library: versions, what is missing, and what a plain import costs."""

import json
import os
import subprocess
import sys

import pytest

from tf_disc.errors import IncompatibleTensorFlowError, PluginConflictError
from tf_disc.fingerprint import compiler_fingerprint
from tf_disc.ops.library import _check_registration, check_tensorflow_version
from tf_disc.settings import worker_command, worker_environment


def run_python(program, **environment):
    """A fresh process; raises with its output if it fails."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **worker_environment(), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_another_series_says_what_to_do():
    with pytest.raises(IncompatibleTensorFlowError) as error:
        check_tensorflow_version("2.20.1", "2.21.0")
    message = str(error.value)
    assert "built for TensorFlow 2.21" in message
    assert "this process has TensorFlow 2.20.1" in message
    assert "pip install 'tensorflow-cpu==2.21.*'" in message
    assert isinstance(error.value, ImportError)


def test_another_plugin_says_what_to_do():
    with pytest.raises(PluginConflictError, match=r"Another plugin .* tf_disc stays off"):
        _check_registration("custom")
    _check_registration("plugin")
    _check_registration("duplicate")


def test_a_patch_release_passes():
    check_tensorflow_version("2.21.3", "2.21.0")


def test_import_with_tf_disc_0_imports_no_tensorflow():
    program = "import sys, tf_disc; print('tensorflow' in sys.modules, tf_disc.is_enabled())"
    assert run_python(program, TF_DISC="0") == "False False"


def test_import_enables():
    program = "import tf_disc; print(tf_disc.is_enabled())"
    assert run_python(program, TF_DISC="1") == "True"


def test_wrong_environment_names_the_variable():
    program = (
        "import tf_disc\n"
        "try:\n    tf_disc.enable()\n"
        "except tf_disc.OptionError as error: print(error)"
    )
    said = run_python(program, TF_DISC="0", TF_DISC_MODE="slow")
    assert "option mode (environment: TF_DISC_MODE) is 'slow'" in said
    assert "async, sync, aot" in said


def test_missing_library_says_what_to_do():
    program = (
        "import pathlib, tf_disc.ops.library as l\n"
        "l._FOLDER = pathlib.Path('nowhere')\n"
        "try:\n    l.load_library()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    said = run_python(program, TF_DISC="0")
    assert said.startswith("TfDiscError")
    assert "make build" in said


def test_worker_starts_without_tensorflow():
    """The worker's own modules are imported; the worker loop is not started."""
    module = worker_command()[-1]
    program = (
        "import json, sys, importlib\n"
        f"importlib.import_module({module!r})\n"
        "heavy = ('tensorflow', 'keras', 'rich')\n"
        "print(json.dumps([name for name in heavy if name in sys.modules]))"
    )
    assert json.loads(run_python(program)) == []


def test_fingerprint_names_versions_and_is_stable():
    assert compiler_fingerprint() == compiler_fingerprint()
    assert compiler_fingerprint().startswith("tf_disc-")
    assert "llvmlite-" in compiler_fingerprint()
    again = run_python("from tf_disc.fingerprint import compiler_fingerprint as f; print(f())")
    assert again == compiler_fingerprint()


def test_fingerprint_imports_no_llvmlite():
    program = (
        "import sys, tf_disc.fingerprint as f; f.compiler_fingerprint();"
        "print('llvmlite' in sys.modules)"
    )
    assert run_python(program) == "False"
