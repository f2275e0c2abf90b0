"""Rules of the repository that no linter knows. Each failure says what to write instead."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tracked(*patterns: str) -> list[Path]:
    """Files that git knows or would add; in a source archive without git, all files."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.splitlines()]
        return [path for path in found if path.is_file()]
    return [p for pattern in patterns or ("*",) for p in ROOT.rglob(pattern) if p.is_file()]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="ignore")


def test_something_is_tracked():
    assert len(tracked("*.py")) > 10
    assert len(tracked("*.cc", "*.h")) > 10


# Spelt in pieces, so that this file does not hold what it forbids.
MACHINE_PATHS = re.compile(r"/(?:work|tmp/[a-z]|home/[a-z]|root|opt)/" + r"[\w.]|file" + r"://")


def test_no_machine_paths():
    bad = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in tracked()
        if path.suffix in {".py", ".cc", ".h", ".md", ".toml", ".bzl", ".yaml", ""}
        and path.name != "LICENSE"
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if MACHINE_PATHS.search(line)
    ]
    assert not bad, "write paths from the repository's root, or find them at run time:\n" + (
        "\n".join(bad)
    )


def test_headers_have_guards_of_their_path():
    for path in tracked("*.h"):
        name = re.sub(r"\W", "_", str(path.relative_to(ROOT))).upper()
        assert f"#define TF_DISC_{name}_\n" in text_of(path), f"{path}: guard TF_DISC_{name}_"


def test_own_headers_are_included_from_the_root():
    for path in tracked("*.h", "*.cc"):
        for name in re.findall(r'#include "([^"]+)"', text_of(path)):
            own = name.startswith("cc/") and (ROOT / name).exists()
            foreign = name.startswith(
                ("absl/", "tensorflow/", "tsl/", "xla/", "google/", "oneapi/")
            )
            assert own or foreign, f'{path}: #include "{name}": write paths from the root'


def test_no_aborts_in_the_library():
    """Nothing of ours ends the user's process."""
    aborts = re.compile(r"\b(?:LOG\(FATAL\)|CHECK\(|CHECK_\w+\(|abort\(\)|std::terminate|QCHECK)")
    for path in tracked("cc/*.cc", "cc/*.h"):
        if {"tests", "testing"} & set(path.parts):
            continue
        for number, line in enumerate(text_of(path).splitlines(), 1):
            code = line.split("//")[0]
            assert not aborts.search(code), f"{path}:{number}: return an absl::Status instead"


def test_compiler_imports_neither_tensorflow_nor_native():
    foreign = re.compile(r"^\s*(?:import|from)\s+(?:tensorflow|tf_disc\._native|keras)\b", re.M)
    for path in tracked("tf_disc/compiler/*.py"):
        assert not foreign.search(text_of(path)), f"{path}: the compiler knows no TensorFlow"


@pytest.mark.parametrize("name", ["LICENSE", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_documents_exist(name):
    assert (ROOT / name).read_text(encoding="utf-8").strip()


def test_licence_is_the_one_that_the_package_names():
    assert "Apache License" in text_of(ROOT / "LICENSE")
    assert 'license = "Apache-2.0"' in text_of(ROOT / "pyproject.toml")


def test_links_between_documents_lead_somewhere():
    for page in tracked("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text_of(page)):
            assert (page.parent / target).exists(), f"{page}: link to {target}, which is not there"


def test_bodies_do_not_swallow_exceptions():
    """`except …: pass` hides what a report should show."""
    swallow = re.compile(r"except[^\n]*:\s*\n\s*(?:pass|\.\.\.)\s*$", re.M)
    for path in tracked("*.py"):
        assert not swallow.search(text_of(path)), f"{path}: say what happened, or let it pass on"


def test_tensorflow_series_is_the_same_everywhere():
    from build_tools.toolchain import TENSORFLOW_SERIES

    project = text_of(ROOT / "pyproject.toml")
    assert set(re.findall(r"tensorflow-cpu==([\d.]+)\.\*", project)) == {TENSORFLOW_SERIES}
    assert f"tensorflow-cpu=={TENSORFLOW_SERIES}.*" in text_of(ROOT / "README.md")


def test_version_is_the_same_everywhere():
    from tf_disc.version import __version__

    assert f"## {__version__}" in text_of(ROOT / "CHANGELOG.md")
