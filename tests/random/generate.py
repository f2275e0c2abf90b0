"""Draws a recipe: sizes of the calls first, then nodes over the whole op table, regions, gradients, outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.random.maker import FLOATS, SYMBOLS, Maker, Root
from tests.random.ops import BUILDERS
from tests.random.recipe import Call, Recipe, Type
from tests.random.source import Source, from_hypothesis
from tf_disc.compiler.op_rules import RULES

PRIMES = (2, 3, 5, 7, 11, 13, 17, 31)
LARGE = (130, 257, 512, 733, 1000)
_SMALL = (2, 3, 4, 5)
_MODES = ("small", "prime", "large", "zero", "one", "special")


@st.composite
def recipes(draw: Callable[[Any], Any]) -> Recipe:
    """Random recipes, as a hypothesis strategy."""
    return draw_recipe(from_hypothesis(draw))


def draw_recipe(src: Source, only: str = "") -> Recipe:
    """One recipe. `only`: an op that it holds whatever else there is."""
    m = Maker(Root(src, _calls(src)))
    for _ in range(src.integer(1, 3)):
        m.new_input(Type(m.dtype(_all_types()), m.dims()))
    if only:
        _one(m, only)
    # Clusters of one op are compiled, but in few graphs, which get more ops for it.
    smallest = 1 if src.chance(95) else 3
    for _ in range(src.integer(2, 14) + 2 * smallest):
        _step(m)
    if src.chance(35):
        _gradient(m)
    root = m.root
    body = m.finish(_outputs(m))
    options = {"min_cluster_size": smallest}
    return Recipe(root.inputs, root.variables, body, root.calls, options)


def _all_types() -> tuple[str, ...]:
    """Every type that the table has a rule for."""
    return tuple(dict.fromkeys(d for r in RULES.values() for d in r.dtypes.get("T", ())))


def _calls(src: Source) -> list[Call]:
    calls = []
    for mode in (
        src.of(("small", "prime", "one", "zero")),
        "large",
        "special",
        "zero",
        src.of(_MODES),
    ):
        pool = PRIMES if mode in ("prime", "special") else _SMALL
        sizes = {s: src.of(pool) for s in SYMBOLS}
        if mode in ("large", "zero"):
            sizes[src.of(SYMBOLS)] = 0 if mode == "zero" else src.of(LARGE)
        elif mode == "one":
            sizes = {s: 1 if src.chance(50) else n for s, n in sizes.items()}
        twins = {f"{s}_": 1 if src.chance(50) else n for s, n in sizes.items()}
        calls.append(
            Call({**sizes, **twins}, src.integer(0, 9999), mode == "special", src.chance(30))
        )
    return calls


def _step(m: Maker) -> None:
    """One op, or a region."""
    if m.depth < 2 and m.src.chance(8):
        m.src.of((_cond, _while, _switch))(m)
    elif m.depth == 0 and m.root.variables and m.src.chance(8):
        _assign(m)
    else:
        _one(m, m.src.of(list(BUILDERS)))


def _one(m: Maker, op: str) -> None:
    """A node of the op, if it can be had in a few attempts."""
    for _ in range(4):
        if BUILDERS[op](m, RULES[op]):
            return


def _outputs(m: Maker) -> list[int]:
    """What nothing reads, and some others; more than a few make graphs slow to run, not better tests."""
    from tests.random.recipe import operands

    read = {v for node, _ in m.nodes for v in operands(node.inputs)}
    results = [v for node, made in m.nodes for v in made]
    ends = [v for v in results if v not in read][-6:]
    others = [v for v in results if v in read]
    chosen = [*ends, *m.src.some(others, 3)]
    return chosen or results[-1:] or m.params[:1]


# -- regions ---------------------------------------------------------------------------


def _scalar(m: Maker, dtype: str) -> int:
    """A value of rank 0: at hand, or an input."""
    found = m.all((dtype,), 0, 0)
    return m.src.of(found) if found and m.src.chance(70) else m.new_input(Type(dtype, ()))


def _inner(m: Maker, captures: list[int], steps: int) -> Maker:
    inner = Maker(m.root, m)
    for value in captures:
        inner.capture(value)
    for _ in range(steps):
        _step(inner)
    return inner


def _branches(m: Maker, op: str) -> bool:
    """Two bodies over the same captured values, with results of the same types."""
    predicate = _scalar(m, "bool")
    values = list(m.types)
    captures = list(dict.fromkeys([m.src.of(values), *m.src.some(values[-6:], 3)]))
    captures = [v for v in captures if v not in m.rootless]
    if not captures:
        return False
    arms = [_inner(m, captures, m.src.integer(1, 4)) for _ in range(2)]
    # An input that one arm asks for is captured by both, so that they take the same operands.
    every = list(dict.fromkeys(v for arm in arms for v in arm.captured))
    kinds = [t for v, t in arms[0].types.items() if v not in arms[0].rootless][::-1]
    common = [t for t in kinds if _newest(arms[1], t) is not None]
    if not common:
        return False
    outs = [common[0], *m.src.some(common[1:], 2)]
    bodies = {}
    for name, arm in zip(("then", "else"), arms):
        for v in every:
            arm.capture(v)
        order = [arm.captured.index(v) for v in every]
        arm.params = [arm.params[i] for i in order]
        arm.captured = every
        bodies[name] = arm.finish([_newest(arm, t) for t in outs])  # type: ignore[misc]
    m.add(op, [predicate, *every], outs, bodies=bodies)
    return True


def _newest(m: Maker, type_: Type) -> int | None:
    return next((v for v in reversed(m.types) if m.types[v] == type_ and v not in m.rootless), None)


def _cond(m: Maker) -> bool:
    return _branches(m, "@cond")


def _switch(m: Maker) -> bool:
    return _branches(m, "@switch")


def _while(m: Maker) -> bool:
    """A loop of few rounds: the count is a Const, or an input."""
    count = (
        m.constant(m.src.integer(0, 3))
        if m.src.chance(50)
        else m.new_input(Type("i32", ()), "index", 4)
    )
    values = list(m.types)
    loop = [m.src.of(values), *m.src.some(values[-4:], 2)]
    inner = Maker(m.root, m)
    variables = [inner.parameter(v) for v in loop]
    # Captured values come later, as the nodes ask for inputs; `capture` must not find a loop variable.
    inner.captured = [-1 for _ in loop]
    for v in m.src.some([v for v in values if v not in loop], 2):
        inner.capture(v)
    for _ in range(m.src.integer(1, 4)):
        _step(inner)
    results = []
    for variable in variables:
        type_ = inner.types[variable]
        results.append(next(v for v in reversed(inner.types) if inner.types[v] == type_))
    extra = inner.captured[len(loop) :]
    body = inner.finish(results)
    m.add(
        "@while",
        [count, *loop, *extra],
        [m.types[v] for v in loop],
        {"vars": len(loop)},
        {"body": body},
    )
    return True


def _assign(m: Maker) -> None:
    """A variable assigned in the graph, and read again."""
    at = m.src.integer(0, len(m.root.variables) - 1)
    type_ = m.root.variables[at]
    how = m.src.of(("assign", "assign_add", "assign_sub") if type_.dtype != "bool" else ("assign",))
    m.add("@assign", [{"var": at}, m.same(type_)], [], {"how": how})
    m.add("@read", [{"var": at}], [type_])


def _gradient(m: Maker) -> None:
    """Of some floats by some others before them."""
    results = [v for node, made in m.nodes for v in made]
    ys = [v for v in results if m.types[v].dtype in FLOATS]
    if not ys:
        return
    top = m.src.of(ys[-3:])
    xs = [v for v, t in m.types.items() if t.dtype in FLOATS and v < top]
    if not xs:
        return
    chosen = list(dict.fromkeys([m.src.of(xs), *m.src.some(xs, 2)]))
    way = m.src.of(("gradients", "tape"))
    m.add("@grad", [[top], chosen], [m.types[x] for x in chosen], {"way": way})
