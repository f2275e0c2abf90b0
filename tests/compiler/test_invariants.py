"""What holds for the whole compiler: what it imports, and what each rule must say."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tf_disc.compiler
from tf_disc.compiler.ir.functions import FUNCTIONS
from tf_disc.compiler.ir.types import ITEM_BYTES
from tf_disc.compiler.ir.verifier import SPECS
from tf_disc.compiler.op_rules import RULES, op_table
from tf_disc.compiler.op_rules.record import OpRule

ROOT = Path(__file__).parents[2]
SOURCES = sorted(Path(tf_disc.compiler.__file__).parent.rglob("*.py"))
#: What the compiler may import besides Python's own modules. mathlib's fits are made offline.
ALLOWED = {"llvmlite", "tf_disc"}
OFFLINE = {"fit.py"}

IMPORT_ALL = """
import importlib, pkgutil, sys
import tf_disc.compiler
for m in pkgutil.walk_packages(tf_disc.compiler.__path__, "tf_disc.compiler."):
    if not m.name.endswith(".fit"):
        importlib.import_module(m.name)
heavy = sorted({n.split(".")[0] for n in sys.modules} & {"tensorflow", "keras", "numpy", "jax", "torch"})
assert not heavy, heavy
"""


def test_the_compiler_imports_without_tensorflow_or_numpy() -> None:
    subprocess.run([sys.executable, "-c", IMPORT_ALL], cwd=ROOT, check=True)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_are_of_llvmlite_and_the_compiler_alone(path: Path) -> None:
    if path.name in OFFLINE:
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [n.name for n in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            top = name.split(".")[0]
            assert top in ALLOWED or top in sys.stdlib_module_names, f"{path}:{node.lineno} {name}"
            outside = top == "tf_disc" and not name.startswith("tf_disc.compiler")
            assert not outside or name in ("tf_disc.fingerprint", "tf_disc.version"), name


ATTRS_OF_TYPE = re.compile(r"^(T\w*|U|[SD]\w*T|dtype|out_type|output_type|index_type|Index)$")


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
class TestEachRule:
    """One record, whole."""

    def test_has_examples(self, rule: OpRule) -> None:
        # A variable's handle cannot be made by the harness; tests/e2e run it.
        assert rule.examples or rule.resources, f"{rule.op} has no example"
        arities = [
            sum(len(a) if isinstance(a, tuple) else 1 for a in example.args)
            for example in rule.examples
        ]
        for arity in arities:
            positions = (*rule.by_value, *rule.by_length, *rule.resources)
            assert all(-arity <= p < arity for p in positions), f"{rule.op}: {positions}"
        # A weight may be one of a list that is shorter in other calls.
        assert all(p < max(arities, default=p + 1) for p in rule.weights), f"{rule.op}: weights"

    def test_examples_have_an_empty_and_an_odd_size(self, rule: OpRule) -> None:
        if rule.cost not in ("heavy", "real") or not rule.examples:
            return
        sizes = {
            d
            for e in rule.examples
            for a in e.args
            for arg in (a if isinstance(a, tuple) else (a,))
            for d in arg.dims
        }
        assert 0 in sizes and any(d % 2 for d in sizes), sorted(sizes)

    def test_has_a_table_entry_of_the_contracts_form(self, rule: OpRule) -> None:
        entry = rule.table_entry()
        assert set(entry) == {
            "op", "dtypes", "attrs", "by_value", "by_length", "weights", "resources", "cost",
            "alone", "constant",
        }  # fmt: skip
        assert re.fullmatch(r"_?[A-Z]\w*", entry["op"])
        assert entry["cost"] in ("heavy", "real", "move", "free", "shape")
        assert isinstance(entry["alone"], bool)
        assert entry["constant"] in ("no", "folds", "sizes", "always")
        for attr, types in entry["dtypes"].items():
            assert ATTRS_OF_TYPE.match(attr), attr
            assert types and set(types) <= set(ITEM_BYTES), types
        for attr, values in entry["attrs"].items():
            assert values and all(isinstance(v, str) for v in values), attr
        for key in ("by_value", "by_length", "weights", "resources"):
            assert all(isinstance(p, int) for p in entry[key])
        assert not set(entry["by_value"]) & set(entry["by_length"])

    def test_notes_are_sentences(self, rule: OpRule) -> None:
        assert not rule.notes or rule.notes.endswith("."), rule.notes


def test_the_table_is_sorted_and_whole() -> None:
    names = [e["op"] for e in op_table()]
    assert names == sorted(RULES) and len(set(names)) == len(names)


def test_every_scalar_function_has_a_spec() -> None:
    assert set(FUNCTIONS) <= set(SPECS)
    for name, function in FUNCTIONS.items():
        assert SPECS[name].operands == function.arity


IMPORT_TESTS = """
import importlib, pathlib, sys
for path in sorted(pathlib.Path("tests/compiler").glob("*.py")):
    # Those that compare with TensorFlow need it.
    if path.stem not in ("test_op_examples", "test_convolutions", "__init__"):
        importlib.import_module(f"tests.compiler.{path.stem}")
assert "tensorflow" not in sys.modules
"""


def test_the_compilers_tests_need_no_tensorflow() -> None:
    subprocess.run([sys.executable, "-c", IMPORT_TESTS], cwd=ROOT, check=True)


def test_nothing_names_this_machine() -> None:
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(work|tmp|home|root)/", text), path
