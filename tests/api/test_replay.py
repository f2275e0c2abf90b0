"""`tf-disc replay`: a dumped cluster runs again, and a damaged dump says what is wrong."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from tf_disc.tools.main import main
from tf_disc.tools.replay import difference

_PROGRAM = """
import tensorflow as tf, tf_disc
table = tf.Variable(tf.random.normal([11, 6], seed=1))
weight = tf.Variable(tf.random.normal([6, 5], seed=2))
@tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
def fn(ids):
    x = tf.gather(table, ids)
    y = tf.matmul(tf.reshape(x, [-1, 6]), weight)
    return tf.reshape(tf.nn.softmax(tf.tanh(y) * 2.0), [tf.shape(ids)[0], -1, 5])
fn(tf.constant([[1, 2, 3], [4, 10, 0]]))
"""


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """The folder of the one cluster of a small model, dumped by a process of its own."""
    folder = tmp_path_factory.mktemp("dump")
    environment = {"TF_DISC": "1", "TF_DISC_DUMP": str(folder), "TF_DISC_MODE": "sync"}
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True, env={**os.environ, **environment})
    (cluster,) = (path for path in folder.iterdir() if (path / "cluster.json").exists())
    return cluster


def run(*arguments):
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


def test_compiled_anew(dump, tmp_path):
    result = run(dump, "--dump", tmp_path / "again")
    assert result.exit_code == 0, result.output
    assert "compiled in" in result.output
    assert "[2, 3, 5]" in result.output
    assert (tmp_path / "again" / "kernel.o").exists()


def test_as_dumped(dump):
    result = run(dump, "--as-dumped")
    assert result.exit_code == 0, result.output
    assert "compiled in" not in result.output


def test_a_difference_is_an_error(dump):
    assert run(dump, "--tolerance", "-1").exit_code == 1


def test_a_folder_that_is_no_dump(tmp_path):
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "cluster.json is missing" in result.output


def test_a_missing_input_is_named(dump, tmp_path):
    cluster = json.loads((dump / "cluster.json").read_text())
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "input_0.npy" in result.output
    assert repr(cluster["inputs"][0]["name"]) in result.output


def test_difference():
    a = np.array([1.0, np.nan, np.inf], np.float32)
    assert difference(a, a.copy()) == 0
    assert difference(a, np.array([1.5, np.nan, np.inf], np.float32)) == 0.5
    assert difference(a, np.array([1.0, 2.0, np.inf], np.float32)) == np.inf
    assert difference(a, a.astype(np.float64)) == np.inf
    assert difference(a, a[:2]) == np.inf
    assert difference(a[:0], a[:0]) == 0
