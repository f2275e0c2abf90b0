"""Einsum: transposes, sums and one product of a batch of matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tf_disc.compiler.ir.dims import Dim, as_dim, product
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.products import TYPES
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext

_ELLIPSIS = "..."


@dataclass(frozen=True)
class _Equation:
    """One label an axis. Those of an ellipsis are "...0", "...1" from the right, and broadcast."""

    operands: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]


def _labels(c: RuleContext, text: str, broadcast: int) -> tuple[str, ...]:
    """The labels of one operand or of the output, with `broadcast` axes for an ellipsis."""
    before, dots, after = text.partition(_ELLIPSIS)
    if "." in before + after:
        raise c.unsupported(f'"{text}" in the equation')
    middle = [f"{_ELLIPSIS}{i}" for i in reversed(range(broadcast))] if dots else []
    labels = (*before, *middle, *after)
    if len(set(labels)) != len(labels):
        raise c.unsupported(f'"{text}" takes a diagonal')
    return labels


def _parse(c: RuleContext) -> _Equation:
    text = str(c.attr("equation", ""))
    inputs, arrow, output = text.partition("->")
    parts = inputs.split(",")
    if not arrow or "->" in output or len(parts) != len(c.inputs) or len(parts) > 2:
        raise c.unsupported(f'the equation "{text}"')
    operands = []
    for part, value in zip(parts, c.inputs, strict=True):
        named = len(part.replace(_ELLIPSIS, ""))
        broadcast = len(value.dims) - named
        if broadcast < 0 or (broadcast > 0 and _ELLIPSIS not in part):
            raise c.unsupported(f'"{part}" in the equation for rank {len(value.dims)}')
        operands.append(_labels(c, part, broadcast))
    widest = max(sum(_broadcasts(label) for label in labels) for labels in operands)
    result = _labels(c, output, widest)
    missing = set(result) - {label for labels in operands for label in labels}
    if missing or (widest and _ELLIPSIS not in output):
        raise c.unsupported(f'the output of "{text}"')
    return _Equation(tuple(operands), result)


def _broadcasts(label: str) -> bool:
    return len(label) > 1


def _sizes(c: RuleContext, equation: _Equation) -> dict[str, Dim]:
    """The size of each label. A named label has one; those of an ellipsis broadcast."""
    sizes: dict[str, Dim] = {}
    for labels, value in zip(equation.operands, c.inputs, strict=True):
        for label, dim in zip(labels, value.dims, strict=True):
            if label not in sizes:
                sizes[label] = dim
            elif _broadcasts(label):
                sizes[label] = c.b.broadcast_dim(sizes[label], dim, "Einsum: broadcast")
            else:
                c.b.require(dim, "==", sizes[label], f"Einsum: sizes of label {label}")
    return sizes


def _shape(c: RuleContext) -> list[Dims]:
    equation = _parse(c)
    sizes = _sizes(c, equation)
    return [tuple(sizes[label] for label in equation.output)]


@dataclass(frozen=True)
class _Term:
    """An operand: a value and the label of each of its axes."""

    value: Value
    labels: tuple[str, ...]


class _Lowering:
    def __init__(self, c: RuleContext) -> None:
        self.c = c
        self.equation = _parse(c)
        self.sizes = _sizes(c, self.equation)

    def dims(self, labels: Sequence[str]) -> list[Dim]:
        return [self.sizes[label] for label in labels]

    def terms(self) -> Iterator[_Term]:
        """The operands without the labels that only they have and the output lacks, which are summed."""
        for i, labels in enumerate(self.equation.operands):
            others = {label for j, o in enumerate(self.equation.operands) if j != i for label in o}
            kept = [label for label in labels if label in others or label in self.equation.output]
            axes = [k for k, label in enumerate(labels) if label not in kept]
            value = self.c.inputs[i]
            # One size for a label, whichever operand it was read from.
            same = [
                d if _broadcasts(label) else self.sizes[label]
                for d, label in zip(value.dims, labels, strict=True)
            ]
            value = self.c.b.reshape(value, same)
            if axes:
                value = self.c.b.reshape(
                    self.c.b.reduce("sum", value, axes),
                    [d for k, d in enumerate(same) if k not in axes],
                )
            yield _Term(value, tuple(kept))

    def arranged(self, term: _Term, order: Sequence[str]) -> Value:
        """The operand with its axes in another order."""
        return self.c.b.transpose(term.value, [term.labels.index(label) for label in order])

    def spread(self, term: _Term, order: Sequence[str]) -> Value:
        """The operand with all labels of `order`, repeated along those that it lacks."""
        own = [label for label in order if label in term.labels]
        value = self.arranged(term, own)
        dims = iter(value.dims)
        aligned = [next(dims) if label in term.labels else as_dim(1) for label in order]
        return self.c.b.broadcast(self.c.b.reshape(value, aligned), self.dims(order))

    def run(self) -> Value:
        terms = list(self.terms())
        output = self.equation.output
        if len(terms) == 1:
            return self.arranged(terms[0], output)
        a, b = terms
        common = [label for label in b.labels if label in a.labels]
        contracted = [label for label in common if label not in output]
        free = [label for label in output if not (label in a.labels and label in b.labels)]
        free = [label for label in free if not _broadcasts(label)]
        if not contracted or not free:
            # No product of matrices: elementwise, then perhaps a sum, which fuse.
            order = [*output, *contracted]
            terms_of_sum = self.c.b.elementwise("mul", self.spread(a, order), self.spread(b, order))
            if not contracted:
                return terms_of_sum
            axes = list(range(len(output), len(order)))
            return self.c.b.reshape(self.c.b.reduce("sum", terms_of_sum, axes), self.dims(output))
        # The operand that has the output's last free label is the right one: nothing is turned afterwards.
        if free[-1] in a.labels:
            a, b = b, a
        return self.product(a, b, contracted)

    def product(self, a: _Term, b: _Term, contracted: list[str]) -> Value:
        output = self.equation.output
        rows = [x for x in output if x in a.labels and x not in b.labels and not _broadcasts(x)]
        if not (_adjacent(rows, a.labels) and _adjacent(rows, output)):
            # Grouped queries: one axis makes the rows of a matrix, and b is read again for each of the others.
            rows = [max(reversed(rows), key=self.length)]
        columns = [x for x in output if x in b.labels and x not in a.labels and not _broadcasts(x)]
        batch = [x for x in output if x not in rows and x not in columns]
        left, turned_left = self.matrices(a, batch, rows, contracted)
        right, turned_right = self.matrices(b, batch, contracted, columns)
        result = self.c.b.matmul(left, right, turned_left, turned_right)
        order = [*batch, *rows, *columns]
        result = self.c.b.reshape(result, self.dims(order))
        return self.c.b.transpose(result, [order.index(label) for label in output])

    def length(self, label: str) -> int:
        """A size for comparison: what is not known is taken for large."""
        size = self.sizes[label].value
        return 1 << 62 if size is None else size

    def matrices(
        self, term: _Term, batch: list[str], first: list[str], second: list[str]
    ) -> tuple[Value, bool]:
        """A batch of matrices of `first` by `second`, or of their transposes where they lie so in memory."""
        lead = [label for label in batch if label in term.labels]
        turned = term.labels == (*lead, *second, *first) and term.labels != (*lead, *first, *second)
        inner, outer = (second, first) if turned else (first, second)
        value = self.arranged(term, [*lead, *inner, *outer])
        own = iter(value.dims)
        dims = [next(own) if label in term.labels else as_dim(1) for label in batch]
        matrix = [product(self.dims(inner)), product(self.dims(outer))]
        value = self.c.b.reshape(value, [*dims, *matrix])
        return self.c.b.broadcast(value, [*self.dims(batch), *matrix]), turned


def _adjacent(labels: Sequence[str], order: Sequence[str]) -> bool:
    """True where labels follow each other: their axes are one axis of memory."""
    if not labels:
        return True
    first = order.index(labels[0])
    return list(order[first : first + len(labels)]) == list(labels)


_EQUATIONS: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    # Products of matrices, and what Keras' EinsumDense and MultiHeadAttention write.
    ("ab,bc->ac", ((3, 4), (4, 5))), ("ab,bc->ca", ((3, 4), (4, 5))), ("ba,cb->ac", ((4, 3), (5, 4))),
    ("abc,cd->abd", ((2, 3, 17), (17, 33))), ("abc,cde->abde", ((2, 3, 8), (8, 4, 5))),
    ("abcd,cde->abe", ((2, 3, 4, 5), (4, 5, 6))), ("abc,dc->abd", ((2, 3, 4), (7, 4))),
    ("aecd,abcd->acbe", ((2, 6, 4, 8), (2, 5, 4, 8))), ("acbe,aecd->abcd", ((2, 4, 5, 6), (2, 6, 4, 8))),
    ("abc,abd->acd", ((2, 5, 3), (2, 5, 4))), ("abc,acd->abd", ((0, 2, 3), (0, 3, 4))),
    ("abc,acd->abd", ((2, 3, 0), (2, 0, 4))),
    ("bnqd,bnkd->bnqk", ((2, 3, 5, 16), (2, 3, 7, 16))), ("abc,bd->dca", ((2, 3, 4), (3, 5))),
    # Grouped queries: several heads of one operand by one of the other.
    ("bsngd,btnd->bngst", ((2, 5, 3, 2, 8), (2, 7, 3, 8))), ("bngst,btnd->bsngd", ((2, 3, 2, 5, 7), (2, 7, 3, 8))),
    ("bsgnd,btnd->bgnst", ((1, 3, 2, 2, 4), (1, 5, 2, 4))), ("abcd,be->caed", ((2, 3, 4, 5), (3, 6))),
    # A vector on one side or on both, and no contraction.
    ("ab,b->a", ((3, 17), (17,))), ("a,ab->b", ((17,), (17, 3))), ("a,a->", ((33,), (33,))),
    ("abc,abc->ab", ((2, 3, 19), (2, 3, 19))),
    ("i,j->ij", ((3,), (18,))), ("ab,ab->ba", ((3, 5), (3, 5))), ("ab,a->ab", ((3, 5), (3,))), (",a->a", ((), (4,))),
    # Labels that one operand has alone are summed.
    ("abc,bd->ad", ((2, 3, 4), (3, 5))), ("ab,cd->ad", ((2, 3), (4, 5))), ("ab,c->a", ((2, 3), (0,))),
    # One operand.
    ("ab->ba", ((3, 5),)), ("abc->b", ((3, 5, 2),)), ("abc->", ((3, 5, 2),)), ("abcd->dbca", ((2, 3, 4, 5),)),
    ("->", ((),)), ("ab->ab", ((3, 4),)),
    # Ellipses.
    ("...ab,...bc->...ac", ((2, 3, 4, 5), (2, 3, 5, 6))), ("...ab,...bc->...ac", ((2, 1, 4, 5), (3, 5, 6))),
    ("...a,ab->...b", ((2, 3, 4), (4, 5))), ("a...b,b...->a...", ((2, 7, 3), (3, 7))), ("...a->a...", ((2, 3, 4),)),
    ("...a,...a->...", ((2, 3, 9), (1, 9))), ("...,...->...", ((2, 1), (3,))), ("...ab->...a", ((3, 4),)),
)  # fmt: skip
_REFUSED: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("ab,bc->ac", ((3, 4), (5, 6))), ("ab,b->a", ((2, 1), (3,))), ("ab->a", ((2, 3, 4),)), ("ab,bc", ((3, 4), (4, 5))),
    ("...ab->ab", ((2, 3, 4),)), ("...a,...a->...", ((2, 9), (3, 9))),
)  # fmt: skip


def _example(
    dtype: str, equation: str, shapes: tuple[tuple[int, ...], ...], error: str = ""
) -> Example:
    operands = tuple(Arg(dtype, s, "finite") for s in shapes)
    return Example((operands,), {"equation": equation}, error)  # type: ignore[arg-type]


RULES: list[OpRule] = [
    OpRule(
        "Einsum",
        {"T": TYPES},
        _shape,
        lambda c: _Lowering(c).run(),
        (
            *(_example("f32", *e) for e in _EQUATIONS),
            *(_example(t, *e) for t in TYPES[1:] for e in _EQUATIONS[::6]),
            *(_example("f32", *e, error="InvalidArgument") for e in _REFUSED),
        ),
        cost="heavy",
        weights=(1,),
        notes="Diagonals (a label twice in one operand or in the output) are left to TensorFlow.",
    )
]
