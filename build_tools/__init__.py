"""Builds the native parts of tf_disc against the TensorFlow that is installed.

`setup.py` and the Makefile both come through here, so that there is one way to build:

    python -m build_tools           libtf_disc.so, _native and the libraries beside them, in place
    python -m build_tools cc-tests  the C++ unit tests, built and run
"""
