"""Coverage of real models, as `python -m benchmarks.coverage` counts it."""

import pytest

from benchmarks.coverage import Coverage, markdown, measure, our_model, tables


@pytest.mark.parametrize("name", ["memory", "deepfm"])
def test_models_of_plain_ops_are_covered_whole(name):
    found = measure(our_model(name))
    assert found.share == 1 and not found.left


def test_what_is_left_adds_up():
    """A Keras LSTM and GRU: loops, and work in their bodies that is compiled."""
    found = measure(our_model("lstm"))
    assert sum(found.left.values()) == found.nodes - found.covered > 0
    assert found.steering > 0 and found.in_bodies > 0
    assert found.share < found.share_of_work


def test_the_page_has_one_row_a_model():
    found = {"x": Coverage(nodes=12, covered=6, spatial=2)}
    found["x"].left["Conv2D", "there is no rule for Conv2D"] = 2
    shares, left = map(markdown, tables(found))
    assert shares.splitlines()[-1] == "| x | 12 | 6 | 60.0% | 2 | 0 | 60.0% |"
    assert left.splitlines()[-1] == "| x | Conv2D | 2 | there is no rule for Conv2D |"
