"""A few of the programs of public bug reports; `make cases` runs all of them, in both modes.

The record itself is looked at here too, and that a case with fewer launches than recorded is no pass.
"""

import pytest

from tests.cases.run import Result, cases_folder, minimums, parse, problem, run

#: One of each kind: many shapes, errors, special values, control flow, assignments, a SavedModel, training.
FEW = ("01", "11", "15", "28", "33", "39", "43", "57")
FOLDER = cases_folder()


@pytest.mark.skipif(
    FOLDER is None, reason="../shared/cases is not there; TF_DISC_CASES can name the folder"
)
def test_programs_agree_and_are_compiled():
    assert FOLDER is not None
    results = run(FOLDER, "sync", FEW)
    assert len(results) == len(FEW)
    problems = [p for r in results if (p := problem(r, minimums()))]
    assert not problems, "\n".join(problems)


@pytest.mark.skipif(
    FOLDER is None, reason="../shared/cases is not there; TF_DISC_CASES can name the folder"
)
def test_every_program_has_a_minimum():
    assert FOLDER is not None
    names = {p.stem for p in FOLDER.glob("[0-9][0-9]_*.py")}
    assert names == set(minimums())


def test_where_none_is_compiled_it_is_said_why():
    for name, known in minimums().items():
        assert known["launches"] > 0 or known["why"], f"{name}: say why nothing of it is compiled"


def test_passing_without_compiling_is_a_failure():
    minimum = {"01_x": {"launches": 2}}
    assert not problem(Result("PASS", "01_x", "", 2), minimum)
    assert not problem(Result("PASS", "01_x", "", 3), minimum)
    assert "at least 2" in problem(Result("PASS", "01_x", "", 1), minimum)
    assert problem(Result("PASS", "01_x", "", None), minimum)
    assert "FAIL" in problem(Result("FAIL", "01_x", "values differ", 2), minimum)
    assert "no minimum" in problem(Result("PASS", "02_y", "", 2), minimum)


def test_lines_of_the_runner():
    text = "PASS 01_x [4s/5s launches=12]\nFAIL 03_y call 1: values differ [1s/2s launches=0]\n1 passed, 1 failed"
    assert parse(text) == [
        Result("PASS", "01_x", "[4s/5s launches=12]", 12),
        Result("FAIL", "03_y", "call 1: values differ [1s/2s launches=0]", 0),
    ]
