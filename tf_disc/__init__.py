"""tf_disc: a TensorFlow plugin for x86 CPUs; one compile serves every size of a model's inputs.

Importing it enables it:

    import tensorflow as tf
    import tf_disc

With `TF_DISC=0` in the environment the import changes nothing and does not import TensorFlow;
`tf_disc.enable()` then switches it on. The compile worker relies on that: it is a process that
imports `tf_disc.compiler` and never TensorFlow.
"""

from tf_disc.api import (
    clear_weight_cache,
    disable,
    enable,
    is_enabled,
    options,
    report,
    wait_for_compiles,
)
from tf_disc.config import enabled_by_environment
from tf_disc.errors import IncompatibleTensorFlowError, OptionError, TfDiscError
from tf_disc.version import __version__

__all__ = [
    "IncompatibleTensorFlowError",
    "OptionError",
    "TfDiscError",
    "__version__",
    "clear_weight_cache",
    "disable",
    "enable",
    "is_enabled",
    "options",
    "report",
    "wait_for_compiles",
]

if enabled_by_environment():
    enable()
