"""Which C++ files belong to which target. BUILD repeats these lists; tests/repo compares them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Folders of cc/ whose files are not part of libtf_disc.so.
_NOT_LIBRARY = {"bindings", "serve", "testing", "tests"}


def _sorted_sources(pattern: str) -> list[Path]:
    return sorted((ROOT / "cc").glob(pattern))


def library_sources() -> list[Path]:
    """Sources of libtf_disc.so: all of cc/ but bindings, serving programs and tests."""
    return [
        path
        for path in _sorted_sources("**/*.cc")
        if not _NOT_LIBRARY.intersection(path.relative_to(ROOT).parts)
    ]


def library_headers() -> list[Path]:
    """Headers that the sources of libtf_disc.so may include."""
    return [
        path
        for path in _sorted_sources("**/*.h")
        if not _NOT_LIBRARY.intersection(path.relative_to(ROOT).parts)
    ]


def binding_sources() -> list[Path]:
    """Sources of the Python module `tf_disc._native`."""
    return _sorted_sources("bindings/*.cc")


def test_sources() -> list[Path]:
    """One C++ test program each."""
    return _sorted_sources("**/tests/*_test.cc")


def test_support_sources(test: Path) -> list[Path]:
    """What is linked with a test: `main`, and the files of its folder that are no tests."""
    beside = [path for path in sorted(test.parent.glob("*.cc")) if path not in test_sources()]
    return [*_sorted_sources("testing/*.cc"), *beside]
