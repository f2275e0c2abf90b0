"""Loads the native library into TensorFlow."""

from tf_disc.ops.library import load_library, require_library

__all__ = ["load_library", "require_library"]
