"""What goes into a cluster and what stays outside."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.grappler.graphs import (
    CPU,
    chain,
    controls,
    function,
    graph_of,
    launches,
    names,
    node,
    nodes_in,
    ops_in,
    optimize,
    placeholder,
    reasons,
    run,
    shapes,
)
from tf_disc.grappler import optimize_graph


def test_a_chain_becomes_one_launch_of_a_function_named_by_its_content():
    graph = optimize(lambda: tf.identity(chain(placeholder("x"), "y"), name="out"), ["out"])
    (launch,) = launches(graph)
    assert nodes_in(graph, launch) == {"y_0", "y_1", "y"}
    name = launch.attr["cluster"].func.name
    assert name.startswith("cluster_") and len(name) == len("cluster_") + 16
    assert launch.attr["cluster_id"].s.decode() == name
    assert list(launch.input) == ["x"]
    assert list(node(graph, "out").input) == [launch.name]
    assert names(graph) == {"x", "out", launch.name}


def test_equal_graphs_get_equal_functions_and_others_do_not():
    def build(length):
        return lambda: tf.identity(chain(placeholder("x"), "y", length), name="out")

    first, second, other = (optimize(build(n), ["out"]) for n in (3, 3, 4))
    assert launches(first)[0].attr["cluster"] == launches(second)[0].attr["cluster"]
    assert launches(first)[0].attr["cluster"] != launches(other)[0].attr["cluster"]


def test_the_second_call_changes_nothing():
    first = optimize(lambda: tf.identity(chain(placeholder("x"), "y"), name="out"), ["out"])
    assert optimize_graph(first, ["out"]) == first


SMALL, LARGE, UNKNOWN = (16, 1024), (17, 1024), (None, 8)


@pytest.mark.parametrize(
    ("shape", "length", "is_worth_it"),
    [(SMALL, 2, False), (SMALL, 3, True), (LARGE, 1, False), (LARGE, 2, True), (UNKNOWN, 1, False),
     (UNKNOWN, 2, True), (None, 2, True)],
)  # fmt: skip
def test_how_many_light_ops_are_worth_it_depends_on_their_data(shape, length, is_worth_it):
    graph = optimize(
        lambda: tf.identity(chain(placeholder("x", shape), "y", length), name="out"), ["out"]
    )
    assert bool(launches(graph)) == is_worth_it
    if not is_worth_it:
        least = 3 if shape == SMALL else 2
        assert reasons("Exp")["Exp"] == (
            f"its cluster is too small: {length} of at least {least} ops, none of them heavy"
        )


@pytest.mark.parametrize(
    "build",
    [tf.nn.softmax, lambda x: tf.reduce_sum(x, 0), lambda x: tf.transpose(x)],
    ids=["softmax", "sum", "transpose"],
)
def test_some_ops_are_worth_it_alone_unless_their_data_are_small(build):
    def launches_with(shape):
        return launches(
            optimize(lambda: tf.identity(build(placeholder("x", shape)), name="out"), ["out"])
        )

    assert len(launches_with(UNKNOWN)) == len(launches_with(LARGE)) == 1
    assert not launches_with(SMALL)


def test_what_tensorflow_may_fuse_with_a_convolution_is_left_to_it():
    def build(length):
        x = placeholder("x", (None, 8, 8, 3))
        y = tf.nn.conv2d(x, tf.ones([3, 3, 3, 4]), 1, "SAME")
        y = tf.raw_ops.BiasAdd(value=y, bias=tf.ones([4]), name="bias")
        tf.identity(chain(y, "y", length), name="out")

    assert not launches(optimize(lambda: build(1), ["out"]))
    assert reasons("BiasAdd")["BiasAdd"] == (
        "its cluster is too small: 2 of at least 3 ops, none of them heavy"
    )
    assert launches(optimize(lambda: build(2), ["out"]))


def test_one_heavy_op_is_enough():
    graph = optimize(
        lambda: tf.identity(
            tf.matmul(placeholder("a"), placeholder("b", (8, 4)), name="m"), name="out"
        ),
        ["out"],
    )
    assert nodes_in(graph, launches(graph)[0]) == {"m"}


@pytest.mark.parametrize(
    ("least", "shape", "is_worth_it"),
    [(1, SMALL, True), (2, SMALL, True), (3, SMALL, False), (3, LARGE, True), (4, LARGE, False)],
)
def test_option_min_cluster_size(native, least, shape, is_worth_it):
    native.set_option("min_cluster_size", str(least))
    try:
        graph = optimize(
            lambda: tf.identity(chain(placeholder("x", shape), "y", 2), name="out"), ["out"]
        )
    finally:
        native.set_option("min_cluster_size", "3")
    assert bool(launches(graph)) == is_worth_it


@pytest.mark.parametrize(
    ("option", "value", "op"), [("deny_ops", "Tanh,Log", "Tanh"), ("deny_nodes", "y_*", "Tanh")]
)
def test_denied_nodes_stay(native, option, value, op):
    native.set_option(option, value)
    try:
        optimize(lambda: tf.identity(chain(placeholder("x"), "y"), name="out"), ["out"])
    finally:
        native.set_option(option, "")
    assert reasons(op)[op] == f"option {option} names it"


def test_reasons_name_what_does_not_match():
    def build():
        x = tf.compat.v1.placeholder(tf.float64, [2], name="x")
        y = tf.raw_ops.Tanh(x=x)
        tf.raw_ops.Atan(x=y, name="out")

    optimize(build, ["out"])
    assert reasons() == {"Tanh": "no rule for T=f64", "Atan": "there is no rule for Atan"}


def test_an_attribute_outside_the_table_stays():
    def build():
        x = placeholder("x", (1, 2, 3, 4))
        tf.raw_ops.BiasAdd(value=x, bias=tf.zeros([2]), data_format="NCHW", name="out")

    optimize(build, ["out"])
    assert reasons("BiasAdd")["BiasAdd"] == "no rule for data_format=NCHW"


def test_without_a_table_the_pass_leaves_graphs_alone(native):
    native.set_op_table([])
    before = graph_of(lambda: tf.identity(chain(placeholder("x"), "y"), name="out"))
    assert optimize_graph(before, ["out"]) == before


def test_disabled_leaves_graphs_alone(native):
    native.set_option("enabled", "0")
    try:
        before = graph_of(lambda: tf.identity(chain(placeholder("x"), "y"), name="out"))
        assert optimize_graph(before, ["out"]) == before
    finally:
        native.set_option("enabled", "1")


def test_a_graph_to_be_differentiated_is_left_alone(native):
    before = graph_of(lambda: tf.identity(chain(placeholder("x"), "y"), name="out"))
    after = optimize_graph(before, ["out"], allow_non_differentiable_rewrites=False)
    assert after == before
    (record,) = json.loads(native.pass_statistics())["graphs"]
    assert "differentiated" in record["skipped"]


def test_a_broken_graph_is_left_alone_and_the_reason_recorded(native):
    before = graph_of(lambda: tf.identity(chain(placeholder("x"), "y"), name="out"))
    node(before, "y").input[0] = "nowhere"
    assert optimize_graph(before, ["out"], remap=False) == before
    (record,) = json.loads(native.pass_statistics())["graphs"]
    assert '"y" has input "nowhere"' in record["skipped"]


def test_bad_op_table_rows_are_refused_by_name(native):
    from tests.grappler.small_table import row

    with pytest.raises(ValueError, match='row "Tanh" has cost "cheap"'):
        native.set_op_table([row("Tanh", "cheap", {})])
    with pytest.raises(ValueError, match='row "Tanh" allows T="float32"'):
        native.set_op_table([row("Tanh", "real", {"T": ["float32"]})])
    with pytest.raises(ValueError, match='row "Tanh" has constant "maybe"'):
        native.set_op_table([row("Tanh", "real", {}, constant="maybe")])


# --- Constants and weights


def test_small_consts_are_copied_and_large_ones_stay_outside():
    def build():
        x = placeholder("x", (None, 64))
        small = tf.constant(np.arange(64, dtype="f4"), name="small")
        weight = tf.constant(np.random.default_rng(1).random((64, 64), "f4"), name="weight")
        zeros = tf.constant(0.0, shape=[64, 64], name="zeros")
        y = tf.add(tf.matmul(x, weight), small)
        tf.identity(tf.matmul(y, zeros), name="out")

    graph = optimize(build, ["out"])
    (launch,) = launches(graph)
    assert list(launch.input) == ["x", "weight"]
    assert list(launch.attr["weight_operands"].list.i) == [1]
    assert list(launch.attr["constant_weights"].list.i) == [1]
    assert ops_in(graph, launch)["Const"] == 2
    # Nothing uses the copied ones any more.
    assert names(graph) == {"x", "weight", "out", launch.name}


def test_a_const_with_another_user_stays_too():
    def build():
        c = tf.constant(2.0, name="c")
        y = tf.multiply(chain(placeholder("x"), "y"), c)
        tf.identity(y, name="out")
        tf.raw_ops.Atan(x=c, name="other")

    graph = optimize(build, ["out", "other"])
    assert "c" in names(graph)
    assert ops_in(graph, launches(graph)[0])["Const"] == 1


def test_a_fetched_or_fed_const_stays():
    def build():
        c = tf.constant(2.0, name="c")
        tf.identity(tf.multiply(chain(placeholder("x"), "y"), c), name="out")

    fetched = optimize(build, ["out", "c"])
    assert "c" in names(fetched)
    fed = optimize(build, ["out"], feeds=["c:0"])
    (launch,) = launches(fed)
    assert "c" in launch.input and not ops_in(fed, launch)["Const"]


def variable(name: str, shape: list[int]) -> tf.Tensor:
    """A handle."""
    return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=shape, shared_name=name, name=name)


def read(handle: tf.Tensor, name: str) -> tf.Tensor:
    """What a variable of f32 holds."""
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32, name=name)


def matmul_of_variable(inplace: bool = False, identity: bool = False) -> None:
    """out = x @ w."""
    value = read(variable("w", [8, 4]), "w_read")
    if identity:
        value = tf.identity(value, name="w_identity")
    value.set_shape([8, 4])
    if inplace:
        tf.raw_ops.InplaceUpdate(x=value, i=[0], v=tf.zeros([1, 4]), name="in_place")
    tf.identity(tf.matmul(placeholder("x"), value), name="out")


@pytest.mark.parametrize("identity", [False, True])
def test_what_a_variable_holds_is_a_weight(identity):
    graph = optimize(lambda: matmul_of_variable(identity=identity), ["out"])
    (launch,) = launches(graph)
    by_name = dict(zip(launch.input, shapes(launch, "input_shapes"), strict=True))
    assert by_name == {"x": (-1, 8), "w_read": (8, 4)}
    assert list(launch.attr["weight_operands"].list.i) == [list(launch.input).index("w_read")]
    assert list(launch.attr["constant_weights"].list.i) == []


def test_no_weights_where_the_graph_writes_in_place():
    graph = optimize(lambda: matmul_of_variable(inplace=True), ["out", "in_place"])
    assert not launches(graph)[0].attr["weight_operands"].list.i


def test_arguments_and_fed_values_are_no_weights():
    graph = optimize(
        lambda: tf.identity(tf.matmul(placeholder("x"), placeholder("w", (8, 4))), name="out"),
        ["out"],
    )
    assert not launches(graph)[0].attr["weight_operands"].list.i
    fed = optimize(matmul_of_variable, ["out"], feeds=["w_read"])
    assert not launches(fed)[0].attr["weight_operands"].list.i


def test_a_weight_only_where_the_table_says_so():
    def build():
        w = read(variable("w", [8, 8]), "w_read")
        w.set_shape([8, 8])
        tf.identity(tf.matmul(w, tf.tanh(placeholder("x", (8, 8)))), name="out")

    graph = optimize(build, ["out"])
    assert not launches(graph)[0].attr["weight_operands"].list.i


def test_a_gather_takes_the_handle_inside():
    def build():
        indices = tf.compat.v1.placeholder(tf.int32, [None], name="indices")
        rows = tf.raw_ops.ResourceGather(
            resource=variable("table", [100, 8]), indices=indices, dtype=tf.float32
        )
        tf.identity(chain(rows, "y"), name="out")

    graph = optimize(build, ["out"])
    (launch,) = launches(graph)
    assert ops_in(graph, launch)["ResourceGather"] == 1
    assert set(launch.input) == {"table", "indices"}
    assert function(graph, launch).signature.is_stateful
    # So that two reads are never merged into one.
    assert launch.attr["_disc_reads"].s.decode() == launch.name


def test_operands_by_value_and_by_length_are_inputs():
    def build():
        axis = tf.compat.v1.placeholder(tf.int32, [1], name="axis")
        shape = tf.compat.v1.placeholder(tf.int32, [2], name="shape")
        y = tf.reduce_mean(chain(placeholder("x"), "y"), axis=axis)
        tf.identity(tf.reshape(y, shape), name="out")

    graph = optimize(build, ["out"])
    (launch,) = launches(graph)
    by_name = {name: i for i, name in enumerate(launch.input)}
    assert list(launch.attr["const_operands"].list.i) == [by_name["axis"]]
    assert list(launch.attr["length_operands"].list.i) == [by_name["shape"]]


def test_a_computed_axis_leaves_the_cluster_and_comes_back_as_a_constant_operand():
    def build():
        k = tf.compat.v1.placeholder(tf.int32, [], name="k")
        axis = tf.add(k, 1, name="axis")
        tf.identity(tf.reduce_mean(chain(placeholder("x"), "y"), axis=axis), name="out")

    graph = optimize(build, ["out"])
    (launch,) = launches(graph)
    assert "axis" in launch.input
    assert list(launch.attr["const_operands"].list.i) == [list(launch.input).index("axis")]


def test_sizes_computed_of_data_come_from_outside():
    """The compiler follows sizes, not data: the reader's cluster takes them as an input."""

    def build():
        x = placeholder("x", (None, 8))
        some = tf.compat.v1.placeholder(tf.int32, [None], name="some")
        count = tf.raw_ops.Sum(input=tf.cast(chain(x, "n"), tf.float32), axis=[0, 1])
        data = tf.stack([tf.cast(count, tf.int32), -1], name="data")
        picked = tf.gather(tf.shape(x), some)
        length = tf.stack([tf.maximum(picked[0], 1), -1], name="length")
        y = tf.reshape(chain(x, "y"), data)
        tf.identity(tf.reshape(tf.exp(y), length), name="out")

    graph = optimize(build, ["out"])
    (reader,) = [launch for launch in launches(graph) if ops_in(graph, launch)["Reshape"] == 2]
    lengths = {list(reader.input)[i] for i in reader.attr["length_operands"].list.i}
    assert len(lengths) == 2
    assert not ops_in(graph, reader)["Pack"]


def test_axes_computed_of_the_rank_stay_inside():
    """As tf.transpose and tf.reduce_sum write them for a tensor of unknown rank."""

    def build():
        y = chain(placeholder("x", None), "y")
        rank = tf.raw_ops.Rank(input=y)
        numbers = tf.range(0, rank, 1)
        perm = tf.subtract(tf.subtract(rank, 1), numbers)
        turned = tf.raw_ops.Transpose(x=y, perm=perm)
        total = tf.raw_ops.Sum(input=tf.exp(turned), axis=numbers, keep_dims=False)
        tf.identity(total, name="out")

    graph = optimize(build, ["out"])
    (launch,) = launches(graph)
    inside = ops_in(graph, launch)
    assert inside["Rank"] == inside["Range"] == inside["Transpose"] == inside["Sum"] == 1
    assert inside["Sub"] == 2
    assert list(launch.input) == ["x"]
    assert list(launch.attr["const_operands"].list.i) == []


def test_axes_of_a_gradient_stay_inside():
    """Which axes a broadcast had is what the compiler knows of two shapes that it follows."""

    def build():
        x, bias = placeholder("x", (None, 8)), placeholder("bias", (None,))
        y = chain(x, "y")
        axes = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(y), s1=tf.shape(bias))
        tf.identity(tf.raw_ops.Sum(input=tf.exp(y), axis=axes.r1), name="out")

    graph = optimize(build, ["out"])
    (launch,) = launches(graph)
    inside = ops_in(graph, launch)
    assert inside["BroadcastGradientArgs"] == inside["Sum"] == 1 and inside["Shape"] == 2
    assert set(launch.input) == {"x", "bias"}
    assert list(launch.attr["const_operands"].list.i) == []


def test_shapes_of_a_gradient_from_outside_have_their_lengths_fixed_and_not_their_values():
    def build():
        shape = tf.compat.v1.placeholder(tf.int32, [None], name="shape")
        y = chain(placeholder("x", (None, 8)), "y")
        axes = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(y), s1=shape)
        tf.identity(tf.raw_ops.Sum(input=tf.exp(y), axis=axes.r1), name="out")

    graph = optimize(build, ["out"])
    (launch,) = launches(graph)
    at = list(launch.input).index("shape")
    assert list(launch.attr["length_operands"].list.i) == [at]
    assert list(launch.attr["const_operands"].list.i) == []


def test_axes_computed_of_the_rank_elsewhere_are_constant_operands():
    """What they are computed of is asked for by value where it is not in the same cluster."""

    def build():
        x = placeholder("x", None)
        with tf.compat.v1.control_dependencies([tf.raw_ops.Rank(input=x, name="rank")]):
            # Not compiled, so what comes after it is in no cluster with what comes before.
            printed = tf.raw_ops.Print(input=x, data=[x], name="printed")
        before = tf.compat.v1.get_default_graph().get_tensor_by_name("rank:0")
        rank = tf.maximum(before, tf.raw_ops.Rank(input=printed))
        numbers = tf.range(0, rank, 1)
        tf.identity(tf.raw_ops.Sum(input=chain(printed, "y"), axis=numbers), name="out")

    graph = optimize(build, ["out"])
    (launch,) = launches(graph)
    inside = ops_in(graph, launch)
    assert inside["Range"] == inside["Sum"] == inside["Maximum"] == inside["Rank"] == 1
    assert set(launch.input) == {"rank", "printed"}
    at = list(launch.input).index("rank")
    assert list(launch.attr["const_operands"].list.i) == [at]


def test_axes_computed_of_sizes_leave_the_cluster():
    """A size is no constant: the reader is compiled for each value, as for any operand by value."""

    def build():
        y = chain(placeholder("x", (None, 8)), "y")
        rows = tf.shape(y)[0]
        numbers = tf.range(0, rows - rows + 1, 1, name="numbers")
        total = tf.raw_ops.Sum(input=tf.exp(y), axis=numbers)
        tf.identity(chain(total, "z"), name="out")

    graph = optimize(build, ["out"])
    readers = [launch for launch in launches(graph) if ops_in(graph, launch)["Sum"]]
    assert readers
    for launch in readers:
        (at,) = launch.attr["const_operands"].list.i
        assert launch.attr["Tin"].list.type[at] == tf.int32.as_datatype_enum
        assert not ops_in(graph, launch)["Range"]


def test_a_cluster_of_constants_stays():
    big = np.random.default_rng(1).random((64, 64), "f4")
    graph = optimize(lambda: tf.identity(chain(tf.constant(big), "y"), name="out"), ["out"])
    assert not launches(graph)
    assert reasons("Tanh")["Tanh"] == "its cluster depends on constants only"


# --- Shape arithmetic


def test_shape_arithmetic_stays_inside():
    def build():
        x = placeholder("x", (None, None, 8))
        y = chain(x, "y")
        rows = tf.shape(y)[0] * tf.shape(y)[1]
        tf.identity(tf.reshape(y, tf.stack([rows, 8])), name="out")

    graph = optimize(build, ["out"])
    (launch,) = launches(graph)
    inside = ops_in(graph, launch)
    assert inside["Shape"] and inside["StridedSlice"] and inside["Pack"] and inside["Mul"]
    assert list(launch.input) == ["x"]


def test_shape_arithmetic_alone_is_no_cluster():
    def build():
        shape = tf.shape(placeholder("x", (None, None, None)))
        tf.identity(tf.stack([shape[0] * shape[1] + 1, shape[2] - 1]), name="out")

    assert not launches(optimize(build, ["out"]))


def test_shapes_are_recorded():
    def build():
        y = chain(tf.compat.v1.placeholder(tf.float32, [None, 8], name="x"), "y")
        tf.identity(tf.reduce_mean(y, axis=-1), name="out")

    (launch,) = launches(optimize(build, ["out"]))
    assert shapes(launch, "input_shapes") == [(-1, 8)]
    assert shapes(launch, "output_shapes") == [(-1,)]


# --- Names that must stay


def test_a_fetched_member_is_re_exposed_under_its_name():
    graph = optimize(lambda: chain(placeholder("x"), "y"), ["y_1:0", "y"])
    (launch,) = launches(graph)
    assert nodes_in(graph, launch) == {"y_0", "y_1", "y"}
    assert {node(graph, n).op for n in ("y_1", "y")} == {"Identity"}
    x = np.linspace(-1, 1, 8, dtype="f4")[None]
    middle, last = run(graph, ["y_1:0", "y:0"], {"x:0": x})
    np.testing.assert_allclose(middle, np.tanh(np.tanh(x)), rtol=1e-6)
    np.testing.assert_allclose(last, np.exp(middle), rtol=1e-6)


def test_a_fetched_member_with_several_outputs_keeps_them_all():
    def build():
        tf.split(chain(placeholder("x"), "y"), 2, axis=1, name="parts")

    graph = optimize(build, ["parts:1"])
    assert node(graph, "parts").op == "IdentityN"
    x = np.linspace(-1, 1, 8, dtype="f4")[None]
    first, second = run(graph, ["parts:0", "parts:1"], {"x:0": x})
    np.testing.assert_allclose(
        np.concatenate([first, second], 1), np.exp(np.tanh(np.tanh(x))), rtol=1e-6
    )


def test_keep_ops_stay():
    graph = optimize(
        lambda: tf.identity(chain(placeholder("x"), "y"), name="out"), ["out"], keep_ops=["y_0"]
    )
    assert node(graph, "y_0").op == "Identity"


def test_a_fed_node_never_joins():
    def build():
        tf.identity(chain(chain(placeholder("x"), "fed"), "y"), name="out")

    graph = optimize(build, ["out"], feeds=["fed:0"])
    assert node(graph, "fed").op == "Exp"
    above = [n for n in launches(graph) if "y" in nodes_in(graph, n)]
    assert [list(n.input) for n in above] == [["fed"]]
    fed = np.ones([1, 8], "f4")
    out = run(graph, "out:0", {"fed:0": fed})
    np.testing.assert_allclose(out, np.exp(np.tanh(np.tanh(fed))), rtol=1e-6)


def test_shapes_of_fed_values_are_not_believed():
    def build():
        tf.identity(chain(placeholder("x", (None, 8)), "y"), name="out")

    (launch,) = launches(optimize(build, ["out"], feeds=["x"]))
    assert shapes(launch, "output_shapes") in ([None], [(-1, -1)], [(-1, 8)])


# --- Control edges, cycles, side effects


def test_control_edges_move_to_the_launch():
    def build():
        x = placeholder("x")
        before = tf.raw_ops.Atan(x=x, name="before")
        with tf.control_dependencies([before]):
            y = chain(x, "y")
        with tf.control_dependencies([y]):
            tf.raw_ops.Atan(x=x, name="after")
        tf.identity(y, name="out")

    graph = optimize(build, ["out", "after"])
    (launch,) = launches(graph)
    assert controls(launch) == {"before"}
    assert controls(node(graph, "after")) == {launch.name}


def test_a_copied_const_brings_its_control_inputs():
    def build():
        x = placeholder("x")
        before = tf.raw_ops.Atan(x=x, name="before")
        with tf.control_dependencies([before]):
            c = tf.constant(2.0, name="c")
        tf.identity(chain(x * c, "y"), name="out")

    (launch,) = launches(optimize(build, ["out"]))
    assert controls(launch) == {"before"}


def test_no_cycle_through_an_op_that_stays():
    def build():
        a = chain(placeholder("x"), "a")
        left = tf.raw_ops.Atan(x=a, name="left")
        tf.identity(chain(a + left, "b"), name="out")

    graph = optimize(build, ["out"])
    first, second = launches(graph)
    assert nodes_in(graph, first) == {"a_0", "a_1", "a"}
    assert "b" in nodes_in(graph, second)
    x = np.linspace(-1, 1, 8, dtype="f4")[None]
    a = np.exp(np.tanh(np.tanh(x)))
    expected = np.exp(np.tanh(np.tanh(a + np.arctan(a))))
    np.testing.assert_allclose(run(graph, "out:0", {"x:0": x}), expected, rtol=1e-5)


def test_no_cycle_through_control_edges_alone():
    """a1 before b1, b2 before a2: {a1, a2} and {b1, b2} would wait for each other."""

    def build():
        x, z = placeholder("x"), placeholder("z")
        a1, b2 = chain(x, "a1"), chain(z, "b2")
        with tf.control_dependencies([a1]):
            b1 = chain(b2, "b1")
        with tf.control_dependencies([b2]):
            a2 = chain(a1, "a2")
        tf.raw_ops.Atan(x=a2, name="out_a")
        tf.raw_ops.Atan(x=b1, name="out_b")

    graph = optimize(build, ["out_a", "out_b"])
    x = np.zeros([1, 8], "f4")
    run(graph, ["out_a:0", "out_b:0"], {"x:0": x, "z:0": x})
    assert len(launches(graph)) == 1


def test_parts_that_an_unrelated_op_kept_apart_are_merged():
    def build():
        x = placeholder("x")
        late = tf.raw_ops.Atan(x=chain(x, "early"), name="stays")
        long = chain(x, "long", 20)
        tf.identity(chain(long + late, "tail"), name="out")

    graph = optimize(build, ["out"])
    assert sorted(len(nodes_in(graph, n)) for n in launches(graph)) == [3, 24]


def test_a_read_waits_for_the_assign_before_it():
    def build():
        handle = variable("v", [8, 8])
        x = placeholder("x", (8, 8))
        y = chain(x, "y")
        assign = tf.raw_ops.AssignVariableOp(resource=handle, value=y, name="assign")
        with tf.control_dependencies([assign]):
            value = read(handle, "read")
        value.set_shape([8, 8])
        tf.identity(tf.matmul(y, value), name="out")

    graph = optimize(build, ["out"])
    first, second = launches(graph)
    assert "y" in nodes_in(graph, first)
    assert ops_in(graph, second) == {"MatMul": 1}
    assert controls(node(graph, "read")) == {"assign"}


def test_reference_variables_are_not_read_inside():
    def build():
        v = tf.raw_ops.VariableV2(shape=[8], dtype=tf.float32, name="v")
        y = tf.raw_ops.Tanh(x=v, name="reads")
        tf.identity(chain(y, "y"), name="out")

    graph = optimize(build, ["out"])
    assert "reference variable" in reasons("Tanh")["Tanh"]
    (launch,) = launches(graph)
    assert list(launch.input) == ["reads"]


# --- Devices


def on(device: str, name: str, x: tf.Tensor) -> tf.Tensor:
    """A chain there."""
    with tf.device(device):
        return chain(x, name)


def test_two_cpu_devices_are_two_clusters():
    other = CPU.replace("CPU:0", "CPU:1")

    def build():
        with tf.device(CPU):
            x = placeholder("x")
        y = on(other, "y", on(CPU, "a", x))
        with tf.device(CPU):
            tf.identity(y, name="out")

    graph = optimize(build, ["out"])
    assert sorted(n.device for n in launches(graph)) == [CPU, other]


def test_other_devices_and_unplaced_nodes_beside_them_stay():
    gpu = CPU.replace("CPU:0", "GPU:0")

    def build():
        x = placeholder("x")
        tf.identity(on("", "none", on(gpu, "gpu", x)), name="out")

    graph = optimize(build, ["out"])
    assert not launches(graph)
    assert "placed" in reasons("Exp")["Exp"]


def test_several_tasks_without_knowing_ours():
    remote = CPU.replace("task:0", "task:1")

    def build():
        x = placeholder("x")
        tf.identity(on(remote, "b", on(CPU, "a", x)), name="out")

    assert not launches(optimize(build, ["out"]))
    assert "which task is this one" in reasons("Exp")["Exp"]


# --- The function


def test_a_function_and_its_fallback_are_kept_from_grappler():
    def build():
        x = placeholder("x")
        y = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, placeholder("w", (8, 4))), tf.ones([4])))
        tf.identity(y, name="out")

    graph = optimize(build, ["out"])
    (launch,) = launches(graph)
    fallback = launch.attr["_disc_fallback"].func.name
    by_name = {f.signature.name: f for f in graph.library.function}
    assert set(by_name) == {launch.attr["cluster"].func.name, fallback}
    assert {"MatMul", "BiasAdd", "Relu"} <= set(ops_in(graph, launch))
    assert "_FusedMatMul" in {n.op for n in by_name[fallback].node_def}
    assert all(f.attr["_tf_data_function"].b for f in by_name.values())
    x, w = np.ones([2, 8], "f4"), np.ones([8, 4], "f4")
    np.testing.assert_allclose(run(graph, "out:0", {"x:0": x, "w:0": w}), np.full([2, 4], 9.0))


def test_what_is_left_gets_tensorflows_fusions():
    def build():
        x = tf.compat.v1.placeholder(tf.float64, [None, 8], name="x")
        w = tf.compat.v1.placeholder(tf.float64, [8, 4], name="w")
        with tf.device(CPU):
            y = tf.nn.bias_add(tf.matmul(x, w), tf.ones([4], tf.float64))
        with tf.device(CPU):
            tf.identity(tf.nn.relu(y), name="out")

    before = graph_of(build)
    assert optimize_graph(before, ["out"], remap=False) == before
    # f64 has no rule in the small table.
    after = optimize_graph(before, ["out"])
    assert "_FusedMatMul" in {n.op for n in after.node} or len(after.node) == len(before.node)


def test_names_of_nodes_that_look_like_arguments():
    def build():
        x = placeholder("in_0")
        tf.identity(chain(chain(x, "in_1"), "out_0"), name="result")

    graph = optimize(build, ["result"])
    x = np.zeros([1, 8], "f4")
    expected = np.exp(np.tanh(np.tanh(np.ones([1, 8], "f4"))))
    np.testing.assert_allclose(run(graph, "result:0", {"in_0:0": x}), expected, rtol=1e-6)


def test_lost_colocations_are_dropped():
    before = graph_of(lambda: tf.identity(chain(placeholder("x"), "y"), name="out"))
    node(before, "out").attr["_class"].list.s.append(b"loc:@y")
    after = optimize_graph(before, ["out"])
    assert "_class" not in node(after, "out").attr


def test_outlined_and_tf_data_functions_are_skipped(native):
    before = graph_of(lambda: tf.identity(chain(placeholder("x"), "y"), name="out"))
    for graph_id in ("cluster_0123456789abcdef", "__inference_Dataset_map_f_12"):
        assert optimize_graph(before, ["out"], graph_id=graph_id) == before


def test_functions_that_tf_data_calls_are_compiled_in_async_mode(native):
    native.set_option("mode", "sync")
    try:
        before = graph_of(lambda: tf.identity(chain(placeholder("x"), "y"), name="out"))
        inner = before.library.function.add()
        inner.signature.name = "called_inside"
        optimize_graph(before, ["out"], graph_id="Dataset_map_g")
        inside = optimize_graph(before, ["out"], graph_id="called_inside")
        outside = optimize_graph(before, ["out"], graph_id="called_elsewhere")
    finally:
        native.set_option("mode", "aot")
    assert b"mode=async" in launches(inside)[0].attr["options"].s
    assert b"mode=sync" in launches(outside)[0].attr["options"].s


# --- Statistics


def test_statistics_count_clusters_and_what_is_left(native):
    def build():
        x = placeholder("x")
        tf.identity(tf.raw_ops.Atan(x=chain(x, "y") * 2.0), name="out")

    graph = optimize(build, ["out"], graph_id="counted")
    optimize_graph(graph, ["out"], graph_id="counted")
    statistics = json.loads(native.pass_statistics())
    (record,) = statistics["graphs"]
    assert record["graph"] == "counted" and record["calls"] == 2
    (cluster,) = record["clusters"]
    assert cluster["ops"] == {"Exp": 1, "Mul": 1, "Tanh": 2}
    assert cluster["num_nodes"] == 4 and cluster["consts"] == 1
    assert (record["nodes"], record["in_clusters"]) == (6, 4)
    assert {g["op"]: g["count"] for g in record["left"]} == {"Atan": 1, "Identity": 1}
    assert (statistics["nodes"], statistics["in_clusters"]) == (6, 4)
