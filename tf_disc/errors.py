"""The errors that tf_disc raises from its own functions.

A model that runs through tf_disc never raises one of these: whatever fails there leaves
TensorFlow's own result and a reason in `tf_disc.report()`.
"""


class TfDiscError(Exception):
    """Base of all of them."""


class OptionError(TfDiscError, ValueError):
    """An option has no such name, or its value is not one that it takes."""


class IncompatibleTensorFlowError(TfDiscError, ImportError):
    """The TensorFlow of this process is not one that the library was built for, or is missing."""


class PluginConflictError(TfDiscError, ImportError):
    """Another plugin holds TensorFlow's one place for a graph optimizer of CPUs."""


class NotCompiledError(TfDiscError, AssertionError):
    """`tf_disc.testing.assert_compiled` saw a function run, wholly or in part, without a kernel."""
