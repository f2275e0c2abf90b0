"""Matrix products: operands at hand, new inputs, Consts and variables."""

from __future__ import annotations

from tests.random.maker import Builder, Maker, broadcast
from tests.random.recipe import Dim, Operand, Type
from tf_disc.compiler.op_rules.record import OpRule


def _weight(m: Maker, type_: Type) -> Operand:
    """The second operand: often of known sizes, as a weight has."""
    if all(isinstance(d, int) for d in type_.dims):
        choice = m.src.integer(0, 9)
        if choice < 3:
            return {"random": m.src.integer(0, 999), "dtype": type_.dtype, "dims": list(type_.dims)}
        if choice < 6:
            return m.add("@read", [{"var": m.new_variable(type_)}], [type_])[0]
    return m.same(type_)


def _matmul(m: Maker, rule: OpRule) -> bool:
    a = m.pick(rule.dtypes["T"], 2, 2)
    t = m.types[a]
    ta, tb = m.src.chance(25), m.src.chance(25)
    rows, inner = (t.dims[1], t.dims[0]) if ta else t.dims
    columns: Dim = m.src.of((1, 2, 3, 8, 17, 33, 64)) if m.src.chance(70) else m.dim()
    dims = (columns, inner) if tb else (inner, columns)
    if not (m.fits((rows, columns)) and m.fits(dims)):
        return False
    b = _weight(m, Type(t.dtype, dims))
    m.add(
        "MatMul", [a, b], [Type(t.dtype, (rows, columns))], {"transpose_a": ta, "transpose_b": tb}
    )
    return True


def _batch_matmul(m: Maker, rule: OpRule) -> bool:
    a = m.pick(rule.dtypes.get("T", ("f32",)), 2, 4)
    t = m.types[a]
    ta, tb = m.src.chance(25), m.src.chance(25)
    rows, inner = t.dims[-2:][::-1] if ta else t.dims[-2:]
    columns: Dim = m.src.of((1, 2, 3, 8, 17)) if m.src.chance(50) else m.dim()
    batch = t.dims[:-2] if rule.op == "BatchMatMul" else m.part_of(t.dims[:-2])
    dims = (*batch, *((columns, inner) if tb else (inner, columns)))
    joined = broadcast(t.dims[:-2], batch)
    if joined is None or not (m.fits((*joined, rows, columns)) and m.fits(dims)):
        return False
    b = m.same(Type(t.dtype, dims))
    m.add(rule.op, [a, b], [Type(t.dtype, (*joined, rows, columns))], {"adj_x": ta, "adj_y": tb})
    return True


_EQUATIONS = (
    ("ab,bc->ac", "ab", "bc"), ("abc,cd->abd", "abc", "cd"), ("abc,adc->abd", "abc", "adc"), ("abc,bcd->abd", "abc", "bcd"),
    ("ab,ab->ab", "ab", "ab"), ("ab,ab->a", "ab", "ab"), ("abcd,aecd->acbe", "abcd", "aecd"), ("ab,c->abc", "ab", "c"),
)  # fmt: skip


def _einsum(m: Maker, rule: OpRule) -> bool:
    equation, left, right = m.src.of(_EQUATIONS)
    a = m.pick(rule.dtypes["T"], len(left), len(left))
    t = m.types[a]
    size: dict[str, Dim] = dict(zip(left, t.dims))
    for letter in right:
        size.setdefault(letter, m.dim())
    dims = tuple(size[x] for x in right)
    result = tuple(size[x] for x in equation.split("->")[1])
    if not (m.fits(dims) and m.fits(result)):
        return False
    m.add(
        "Einsum",
        [[a, m.same(Type(t.dtype, dims))]],
        [Type(t.dtype, result)],
        {"equation": equation},
    )
    return True


BUILDERS: dict[str, Builder] = {
    "MatMul": _matmul,
    "BatchMatMul": _batch_matmul,
    "BatchMatMulV2": _batch_matmul,
    "Einsum": _einsum,
}
