"""Attention is one group, whoever wrote it, and gives what its three groups gave and what the interpreter gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import NUMPY, RUNS_BF16, TARGETS, Program, host_target
from tests.compiler.interpreter import Interpreter
from tests.compiler.samples import optimized
from tf_disc.compiler.codegen.attention_kernel import MOST_ROWS, block_rows
from tf_disc.compiler.codegen.memory import plan_memory
from tf_disc.compiler.importer.cluster_file import import_cluster
from tf_disc.compiler.ir.dims import as_dim
from tf_disc.compiler.passes.groups import Group, form_groups
from tf_disc.compiler.pipeline import compile_cluster

HEADS, WIDTH = 4, 8


class _Writer(ClusterWriter):
    """A cluster writer that remembers its inputs' shapes: "b", "s" (rows) and "t" (columns) are any size."""

    def __init__(self) -> None:
        super().__init__("attention")
        self.shapes: list[tuple[str, tuple[Any, ...]]] = []

    def given(self, name: str, *shape: Any, dtype: str = "f32") -> str:
        concrete = [{"b": 2, "s": 6, "t": 5}.get(d, d) for d in shape]
        known = [d if isinstance(d, int) else None for d in shape]
        self.shapes.append((dtype, shape))
        return self.tensor(name, np.zeros(concrete, NUMPY[dtype]), known)

    def turned(self, x: str, *perm: int) -> str:
        return self.node("Transpose", x, self.constant(perm))

    def heads(self, name: str, length: str, count: int = HEADS) -> str:
        """[b, count, length, WIDTH], of a value in which heads are side by side."""
        return self.turned(self.given(name, "b", length, count, WIDTH), 0, 2, 1, 3)

    def product(self, a: str, b: str, **attrs: Any) -> str:
        return self.node("BatchMatMulV2", a, b, **{"adj_x": False, "adj_y": False, **attrs})

    def scores(self) -> str:
        return self.product(self.heads("q", "s"), self.heads("k", "t"), adj_y=True)

    def merged(self, probabilities: str) -> str:
        """The second product, with heads side by side again."""
        return self.turned(self.product(probabilities, self.heads("v", "t")), 0, 2, 1, 3)


def _masked(*mask: Any) -> Callable[[_Writer], list[str]]:
    def write(w: _Writer) -> list[str]:
        scaled = w.node("Mul", w.scores(), w.constant(0.35, "f32"))
        return [w.merged(w.node("Softmax", w.node("AddV2", scaled, w.given("mask", *mask))))]

    return write


def _by_hand(w: _Writer) -> list[str]:
    """A softmax of five ops, and a mask that chooses."""
    axis = w.constant([-1])
    keep = w.given("keep", "b", 1, "s", "t", dtype="bool")
    x = w.node("SelectV2", keep, w.scores(), w.constant(-1e9, "f32"))
    e = w.node("Exp", w.node("Sub", x, w.node("Max", x, axis, keep_dims=True)))
    return [w.merged(w.node("RealDiv", e, w.node("Sum", e, axis, keep_dims=True)))]


def _ranges(w: _Writer, scores: str) -> tuple[str, str]:
    """The numbers of rows [s, 1] and of columns [t]."""
    shape = w.node("Shape", scores, out_type="i32")

    def size(axis: int) -> str:
        ends = [w.constant([axis]), w.constant([axis + 1]), w.constant([1])]
        return w.node("StridedSlice", shape, *ends, shrink_axis_mask=1)

    rows = w.node("Range", w.constant(0), size(2), w.constant(1))
    columns = w.node("Range", w.constant(0), size(3), w.constant(1))
    return w.node("ExpandDims", rows, w.constant(1)), columns


def _causal(w: _Writer) -> list[str]:
    """Two ranges compared."""
    scores = w.scores()
    keep = w.node("GreaterEqual", *_ranges(w, scores))
    x = w.node("SelectV2", keep, scores, w.constant(-1e9, "f32"))
    return [w.merged(w.node("Softmax", x))]


def _causal_returned(w: _Writer) -> list[str]:
    """All probabilities are asked for, those of nothing, too."""
    scores = w.scores()
    rows, columns = _ranges(w, scores)
    x = w.node("SelectV2", w.node("Greater", rows, columns), scores, w.constant(-1e9, "f32"))
    p = w.node("Softmax", x)
    return [w.merged(p), p]


def _causal_logits(w: _Writer) -> list[str]:
    """All scores are asked for."""
    scores = w.scores()
    rows, columns = _ranges(w, scores)
    x = w.node("SelectV2", w.node("Greater", rows, columns), scores, w.constant(-1e9, "f32"))
    return [w.merged(w.node("Softmax", x)), scores]


def _band(w: _Writer) -> list[str]:
    """A band of ones, and what Keras' dot_product_attention puts round it."""
    scores = w.scores()
    shape = w.node("Shape", scores, out_type="i32")
    ends = [w.constant([2]), w.constant([4]), w.constant([1])]
    ones = w.node("Fill", w.node("StridedSlice", shape, *ends), w.constant(True, "bool"))
    band = w.node("MatrixBandPart", ones, w.constant(-1), w.constant(0))
    every = w.node("Fill", shape, w.constant(True, "bool"))
    keep = w.node("LogicalAnd", every, band)
    x = w.node("SelectV2", keep, scores, w.constant(-2e38, "f32"))
    return [w.merged(w.node("Softmax", x))]


def _counted(w: _Writer) -> list[str]:
    """Running sums of ones, as Keras' MultiHeadAttention has them, and its Softmax, which masks before and after."""
    scores = w.scores()
    shape = w.node("Shape", scores, out_type="i32")
    ends = [w.constant([2]), w.constant([4]), w.constant([1])]
    ones = w.node("Fill", w.node("StridedSlice", shape, *ends), w.constant(1))
    attrs = {"exclusive": False, "reverse": False}
    rows = w.node("Cumsum", ones, w.constant(-2), **attrs)
    columns = w.node("Cumsum", ones, w.constant(-1), **attrs)
    keep = w.node("GreaterEqual", rows, columns)
    p = w.node("Softmax", w.node("SelectV2", keep, scores, w.constant(-1e9, "f32")))
    return [w.merged(w.node("SelectV2", keep, p, w.constant(0.0, "f32")))]


def _causal_after_mask(w: _Writer) -> list[str]:
    """Another mask chooses the same fill, before and after."""
    low = w.constant(-np.inf, "f32")
    scores = w.node("SelectV2", w.given("some", "b", 1, 1, "t", dtype="bool"), w.scores(), low)
    keep = w.node(
        "Greater", w.node("AddV2", _ranges(w, scores)[0], w.constant(1)), _ranges(w, scores)[1]
    )
    x = w.node("SelectV2", keep, scores, low)
    x = w.node("SelectV2", w.given("other", "b", 1, 1, "t", dtype="bool"), x, low)
    return [w.merged(w.node("Softmax", x))]


def _future_chosen(w: _Writer) -> list[str]:
    """What is masked is what is chosen, with a fill that is not small."""
    scores = w.scores()
    rows, columns = _ranges(w, scores)
    late = w.node("Less", w.node("Sub", rows, columns), w.constant(0))
    x = w.node("SelectV2", late, w.constant(0.25, "f32"), scores)
    return [w.merged(w.node("Softmax", x))]


def _shifted(w: _Writer) -> list[str]:
    """Rows are the last of the columns, as with a cache of keys; no softmax."""
    scores = w.scores()
    rows, columns = _ranges(w, scores)
    shape = w.node("Shape", scores, out_type="i32")
    sizes = [
        w.node(
            "StridedSlice",
            shape,
            *(w.constant([n]) for n in (axis, axis + 1, 1)),
            shrink_axis_mask=1,
        )
        for axis in (3, 2)
    ]
    keep = w.node("GreaterEqual", w.node("AddV2", rows, w.node("Sub", *sizes)), columns)
    x = w.node("SelectV2", keep, scores, w.constant(-3.0, "f32"))
    return [w.merged(w.node("Sigmoid", x))]


def _keras(w: _Writer) -> list[str]:
    """MultiHeadAttention of Keras: Einsum, keys first, nothing transposed."""
    q = w.node("Mul", w.given("q", "b", "s", HEADS, WIDTH), w.constant(0.35, "f32"))
    k, v = (w.given(n, "b", "t", HEADS, WIDTH) for n in "kv")
    scores = w.node("Einsum", k, q, equation="aecd,abcd->acbe")
    return [w.node("Einsum", w.node("Softmax", scores), v, equation="acbe,aecd->abcd")]


def _grouped(w: _Writer) -> list[str]:
    """Two heads of keys and values, each for two heads of queries, repeated by Tile and Reshape."""
    q = w.heads("q", "s")

    def repeated(name: str) -> str:
        x = w.given(name, "b", "t", 2, WIDTH)
        shape = w.node("Shape", x, out_type="i32")
        ends = [w.constant([0]), w.constant([2]), w.constant([1])]
        lead = w.node("StridedSlice", shape, *ends)
        x = w.node("ExpandDims", x, w.constant(3))
        x = w.node("Tile", x, w.constant([1, 1, 1, 2, 1]))
        whole = w.node("ConcatV2", lead, w.constant([HEADS, WIDTH]), w.constant(0))
        return w.turned(w.node("Reshape", x, whole), 0, 2, 1, 3)

    scores = w.product(q, repeated("k"), adj_y=True)
    return [w.turned(w.product(w.node("Softmax", scores), repeated("v")), 0, 2, 1, 3)]


def _grouped_einsum(w: _Writer) -> list[str]:
    """The same, as an equation with an axis for the group."""
    q = w.given("q", "b", "s", 2, 2, WIDTH)
    k, v = (w.given(n, "b", "t", 2, WIDTH) for n in "kv")
    scores = w.node("Einsum", q, k, equation="bsngd,btnd->bngst")
    return [w.node("Einsum", w.node("Softmax", scores), v, equation="bngst,btnd->bsngd")]


def _returned(w: _Writer) -> list[str]:
    """The probabilities are an output, too."""
    p = w.node("Softmax", w.scores())
    return [w.merged(p), p]


def _logits(w: _Writer) -> list[str]:
    """What the first product gives is an output, too."""
    x = w.scores()
    return [w.merged(w.node("Softmax", w.node("Mul", x, w.constant(0.35, "f32")))), x]


def _rows_returned(w: _Writer) -> list[str]:
    """One number a row is an output, and the masked scores are."""
    x = w.node("AddV2", w.scores(), w.given("mask", "t"))
    return [w.merged(w.node("Softmax", x)), w.node("Max", x, w.constant([-1]), keep_dims=False), x]


def _unreduced(w: _Writer) -> list[str]:
    """No sum along the rows."""
    return [w.merged(w.node("Sigmoid", w.node("AddV2", w.scores(), w.given("bias", "s", "t"))))]


def _read_again(w: _Writer) -> list[str]:
    """The scores are needed once more when the second product's operand is there."""
    x = w.node("Mul", w.scores(), w.constant(0.35, "f32"))
    most = w.node("Max", x, w.constant([-1]), keep_dims=True)
    return [w.merged(w.node("Sigmoid", x)), w.node("Sub", x, most)]


def _two_scores(w: _Writer) -> list[str]:
    """Two products are added, as for relative positions."""
    q = w.heads("q", "s")
    content = w.product(q, w.heads("k", "t"), adj_y=True)
    position = w.product(q, w.given("r", HEADS, WIDTH, "t"))
    return [w.merged(w.node("Softmax", w.node("AddV2", content, position)))]


def _doubles(w: _Writer) -> list[str]:
    q, k, v = (
        w.given(n, "b", length, WIDTH, dtype="f64") for n, length in zip("qkv", "stt", strict=True)
    )
    return [w.product(w.node("Softmax", w.product(q, k, adj_y=True)), v)]


def _plain_matrices(w: _Writer) -> list[str]:
    """No batch, and keys that lie transposed."""
    q, k, v = w.given("q", "s", WIDTH), w.given("k", WIDTH, "t"), w.given("v", "t", WIDTH)
    return [w.node("MatMul", w.node("Softmax", w.node("MatMul", q, k)), v)]


def _flat_batch(w: _Writer) -> list[str]:
    """Scores of heads become a batch of matrices in between, and heads again."""
    scores = w.scores()
    shape = w.node("Shape", scores, out_type="i32")
    rest = w.node("StridedSlice", shape, w.constant([2]), w.constant([4]), w.constant([1]))
    flat = w.node("ConcatV2", w.constant([-1]), rest, w.constant(0))
    p = w.node("Reshape", w.node("Softmax", w.node("Reshape", scores, flat)), shape)
    return [w.merged(p)]


FORMS: dict[str, Callable[[_Writer], list[str]]] = {
    "mask of keys": _masked("b", 1, 1, "t"),
    "mask of pairs": _masked("b", 1, "s", "t"),
    "mask of heads": _masked(HEADS, "s", 1),
    "mask of one row": _masked("t"),
    "by hand": _by_hand,
    "causal": _causal,
    "causal returned": _causal_returned,
    "causal logits": _causal_logits,
    "band": _band,
    "counted": _counted,
    "causal after a mask": _causal_after_mask,
    "future chosen": _future_chosen,
    "shifted": _shifted,
    "keras": _keras,
    "grouped": _grouped,
    "grouped einsum": _grouped_einsum,
    "returned": _returned,
    "logits": _logits,
    "rows returned": _rows_returned,
    "unreduced": _unreduced,
    "read again": _read_again,
    "two scores": _two_scores,
    "doubles": _doubles,
    "plain matrices": _plain_matrices,
    "flat batch": _flat_batch,
}

#: Sizes b, s and t.
SIZES = (
    (1, 0, 1), (0, 2, 3), (2, 1, 1), (2, 2, 0), (1, 3, 3), (2, 15, 15), (1, 16, 17), (3, 17, 16), (1, 64, 64),
    (1, 65, 65), (1, 128, 128), (1, 333, 40), (1, 40, 333),
)  # fmt: skip


@dataclass
class _Made:
    cluster: dict[str, Any]
    shapes: list[tuple[str, tuple[Any, ...]]]

    def arrays(self, b: int, s: int, t: int, seed: int = 0) -> list[Any]:
        rng = np.random.default_rng(seed)
        sizes = {"b": b, "s": s, "t": t}
        found = []
        for dtype, shape in self.shapes:
            concrete = [sizes.get(d, d) for d in shape]
            if dtype == "bool":
                found.append(rng.random(concrete) < 0.7)
            else:
                found.append(rng.normal(size=concrete).astype(NUMPY[dtype]))
        return found


def made(form: str) -> _Made:
    w = _Writer()
    outputs = FORMS[form](w)
    return _Made(w.cluster(*outputs), w.shapes)


def groups_of(cluster: dict[str, Any]) -> list[Group]:
    return form_groups(optimized(cluster))[0]


@pytest.mark.parametrize("form", FORMS)
def test_is_one_group(form: str) -> None:
    kinds = [group.kind for group in groups_of(made(form).cluster)]
    assert kinds.count("attention") == 1 and "product" not in kinds
    # Keras scales the queries before; nothing else is in memory in between.
    assert len(kinds) == (2 if form == "keras" else 1)


@pytest.mark.parametrize("form", FORMS)
def test_gives_what_its_parts_give(form: str) -> None:
    case = made(form)
    interpreter = Interpreter(import_cluster(case.cluster))
    one = Program(compile_cluster(case.cluster, target=host_target()))
    parts = Program(compile_cluster(case.cluster, target=host_target(), attention=False))
    for sizes in SIZES:
        arrays = case.arrays(*sizes)
        for found, apart, wanted in zip(
            one(arrays), parts(arrays), interpreter(arrays), strict=True
        ):
            # Sums that cancel out keep the errors of their terms, which are as large as the largest sums.
            near = 2e-6 * max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)))
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=near, err_msg=str(sizes))
            np.testing.assert_allclose(found, apart, rtol=2e-5, atol=near, err_msg=str(sizes))


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_not_finite_spreads_as_before(target: str) -> None:
    """A row of -inf is NaN, as in TensorFlow; a NaN stays in its row; infinite scores and values do."""
    case = made("mask of pairs")
    one = Program(compile_cluster(case.cluster, target=target))
    interpreter = Interpreter(import_cluster(case.cluster))
    names = [item["name"] for item in case.cluster["inputs"]]
    given = dict(zip(names, case.arrays(2, 19, 21), strict=True))
    q, mask = given["q"], given["mask"]
    mask[0, 0, 3] = -np.inf
    mask[1, 0, :, 5:] = -np.inf
    q[0, 7, 1, 2] = np.nan
    q[1, 8, 2, 0] = np.inf
    arrays = [given[name] for name in names]
    found, wanted = one(arrays)[0], interpreter(arrays)[0]
    assert np.isnan(found[0, 3]).all() and not np.isnan(found[0, 4]).any()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


MASKED = ("causal", "band", "counted", "causal after a mask", "future chosen", "shifted")


@pytest.mark.parametrize("form", MASKED)
def test_columns_beyond_a_causal_mask_are_not_multiplied(form: str) -> None:
    case = made(form)
    one = Program(compile_cluster(case.cluster, target=host_target()))
    parts = Program(compile_cluster(case.cluster, target=host_target(), attention=False))
    for length in (16, 512):
        arrays = case.arrays(1, length, length)
        one.multiplications = parts.multiplications = 0
        one(arrays), parts(arrays)
        assert parts.multiplications == 2 * HEADS * WIDTH * length**2
        share = one.multiplications / parts.multiplications
        assert share == 1 if length == 16 else 0.5 < share < 0.6


@pytest.mark.parametrize("form", MASKED)
def test_masked_values_that_are_not_finite_count(form: str) -> None:
    """Nothing times infinity is NaN, in TensorFlow and here."""
    case = made(form)
    one = Program(compile_cluster(case.cluster, target=host_target()))
    interpreter = Interpreter(import_cluster(case.cluster))
    names = [item["name"] for item in case.cluster["inputs"]]
    given = dict(zip(names, case.arrays(2, 300, 300), strict=True))
    given["v"][0, 280, 1, 3] = np.inf
    given["v"][0, 290, 2, 5] = np.nan
    given["v"][1, 250, 0, 0] = 3e38
    given["v"][1, 251, 0, 0] = 3e38
    given["k"][0, 270, 0, 0] = np.nan
    given["k"][1, 260, 3, 2] = np.inf
    arrays = [given[name] for name in names]
    with np.errstate(over="ignore"):
        found, wanted = one(arrays)[0], interpreter(arrays)[0]
    assert np.isnan(found).any() and not np.isnan(found).all()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-5)


@pytest.mark.skipif(not RUNS_BF16, reason="this CPU has no AVX-512")
@pytest.mark.parametrize("form", ["mask of keys", *MASKED])
def test_gives_what_its_parts_give_in_bf16(form: str) -> None:
    case = made(form)
    one, parts = (
        Program(
            compile_cluster(
                case.cluster,
                target=host_target(),
                features="+avx512bf16",
                precision="bf16",
                attention=attention,
            )
        )
        for attention in (True, False)
    )
    for sizes in ((1, 17, 17), (2, 300, 300)):
        arrays = case.arrays(*sizes)
        for found, apart in zip(one(arrays), parts(arrays), strict=True):
            # A probability between two numbers of bf16 may be rounded either way: a 256th of it.
            np.testing.assert_allclose(found, apart, rtol=1e-3, atol=1e-3, err_msg=str(sizes))
    assert form not in MASKED or one.multiplications < 0.7 * parts.multiplications


def test_nothing_of_the_size_of_the_scores_is_stored() -> None:
    graph = optimized(made("causal").cluster)
    groups, inlined = form_groups(graph)
    assert plan_memory(graph, groups, inlined).arena_bytes == 0


def test_repeated_keys_are_not_copied() -> None:
    """Grouped queries read keys and values where they lie."""
    assert all(
        op.name != "copy" for group in groups_of(made("grouped").cluster) for op in group.ops
    )


@pytest.mark.parametrize("made_of", ["probabilities", "scores", "other op"])
def test_stays_apart_where_the_values_are_made_of_the_scores(made_of: str) -> None:
    """The second product would wait for itself."""
    w = _Writer()
    x = w.product(w.heads("q", "s"), w.heads("k", "s"), adj_y=True)
    p = w.node("Softmax", x)
    v = {"probabilities": p, "scores": x, "other op": w.node("Tanh", w.turned(x, 0, 1, 3, 2))}[
        made_of
    ]
    assert "attention" not in [g.kind for g in groups_of(w.cluster(w.product(p, v)))]


def test_stays_apart_where_a_row_needs_another() -> None:
    """The scores are read in another order, too."""
    w = _Writer()
    x = w.product(w.heads("q", "s"), w.heads("k", "s"), adj_y=True)
    p = w.node("Softmax", w.node("AddV2", x, w.turned(x, 0, 1, 3, 2)))
    v = w.heads("v", "s")
    assert "attention" not in [g.kind for g in groups_of(w.cluster(w.product(p, v)))]


@pytest.mark.parametrize("height", [0, 1, 7, 8, 31, 64, 77, 128, 129, 500, 4096])
@pytest.mark.parametrize("columns", [0, 1, 128, 1000, 5000, 200000])
@pytest.mark.parametrize("batch", [0, 1, 12, 4096])
def test_blocks_are_even_and_fit(batch: int, height: int, columns: int) -> None:
    rows = block_rows(as_dim(batch), as_dim(height), as_dim(4 * columns)).value
    assert rows is not None and rows % 8 == 0 and 8 <= rows <= MOST_ROWS + 8
    blocks = -(-height // rows)
    assert blocks * rows - height < max(rows, 8)
