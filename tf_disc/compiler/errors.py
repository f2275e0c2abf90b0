"""What the compiler raises. Three kinds, told apart because the reader differs."""

from __future__ import annotations


class CompilerError(Exception):
    """Base of all errors the compiler raises on purpose."""


class UnsupportedError(CompilerError):
    """The cluster holds something without a rule. It stays with TensorFlow; the text says what and why."""


class ShapeError(UnsupportedError):
    """The sizes of this call do not agree. TensorFlow runs the call and reports the user's error."""


class InternalError(CompilerError):
    """A defect of ours: an IR that breaks its own rules."""
