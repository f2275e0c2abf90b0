"""Where the matrices of a batched product lie, as loop IR and as arguments of the ABI's products."""

from __future__ import annotations

from tf_disc.compiler.codegen.coordinates import Coordinate
from tf_disc.compiler.codegen.evaluation import Evaluator
from tf_disc.compiler.errors import InternalError
from tf_disc.compiler.ir.dims import Dim, as_dim
from tf_disc.compiler.ir.graph import Op, Value
from tf_disc.compiler.ir.types import ITEM_BYTES, LoopType
from tf_disc.compiler.passes.matrix_views import matrix_view
from tf_disc.compiler.passes.views import View, collapsed, row_major


def operand_view(op: Op, index: int) -> View:
    """An operand's view with its last two axes in the order of the product's definition."""
    view = matrix_view(op.operands[index])
    if view is None:
        raise InternalError("an operand of a product is no view of stored elements")
    if not op.attrs["transpose_b" if index else "transpose_a"]:
        return view
    dims, strides = view.dims, view.strides
    return View(
        view.base,
        view.offset,
        (*dims[:-2], dims[-1], dims[-2]),
        (*strides[:-2], strides[-1], strides[-2]),
    )


def result_view(op: Op) -> View:
    """The result [batch…, m, n] in the product's own order, as it is written."""
    dims = op.result.dims
    perm = op.attrs.get("out_perm", tuple(range(len(dims))))
    own, strides = [as_dim(1)] * len(perm), [as_dim(1)] * len(perm)
    for i, stride in enumerate(row_major(dims)):
        own[perm[i]], strides[perm[i]] = dims[i], stride
    batch, steps = collapsed(own[:-2], strides[:-2])
    return View(op.result, as_dim(0), (*batch, *own[-2:]), (*steps, *strides[-2:]))


def leading(view: View) -> tuple[bool, Dim]:
    """Whether the library must transpose the matrix, and its leading dimension."""
    (rows, columns), (m, n) = view.strides[-2:], view.dims[-2:]
    if columns == 1 or n.is_one:
        return False, rows if not m.is_one else n
    return True, columns if not n.is_one else m


def address(k: Evaluator, view: View, batch: Coordinate, row: Value, column: Value) -> Value:
    """The address of an element of matrix `batch` of a view."""
    where = k.math.split(batch, [k.size(d) for d in view.dims[:-2]])
    places = [*where, Coordinate(row), Coordinate(column)]
    at = k.math.linear(places, [k.size(s) for s in view.strides])
    at = k.math.add(at, Coordinate(k.size(view.offset)))
    assert at.base is not None
    offset = k.b.int_op("imul", at.base, k.b.index(ITEM_BYTES[view.base.dtype]))
    return k.b.pure("ptradd", [k.buffer(view.base), offset], LoopType("ptr"))
