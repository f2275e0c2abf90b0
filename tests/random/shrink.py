"""Cuts a failing recipe smaller while it fails in the same way.

On the recipe rather than by hypothesis: every attempt builds two graphs, and cutting a graph takes tens of attempts where
drawing it anew takes hundreds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from tests.random.recipe import Body, Input, Node, Recipe, operands, renumbered

Fails = Callable[[Recipe], bool]


def shrink(recipe: Recipe, fails: Fails, attempts: int = 250) -> Recipe:
    """The smallest recipe found for which `fails` still holds."""
    left = attempts
    changed = True
    while changed and left > 0:
        changed = False
        for candidate in _candidates(recipe):
            left -= 1
            if left <= 0:
                break
            if fails(candidate):
                recipe, changed = candidate, True
                break
    return recipe


def _candidates(recipe: Recipe) -> Iterator[Recipe]:
    """Smaller recipes, the boldest cuts first."""
    for i in range(len(recipe.calls)):
        if len(recipe.calls) > 1:
            yield _with(recipe, calls=[recipe.calls[i]])
    for i in range(len(recipe.body.outputs)):
        if len(recipe.body.outputs) > 1:
            yield _live(_with(recipe, body=_outputs(recipe.body, [recipe.body.outputs[i]])))
    for v in range(len(recipe.body.params), recipe.body.outputs[0]):
        # An earlier value may be wrong already.
        if len(recipe.body.outputs) == 1:
            yield _live(_with(recipe, body=_outputs(recipe.body, [v])))
    for i in range(len(recipe.calls)):
        if len(recipe.calls) > 1:
            yield _with(recipe, calls=recipe.calls[:i] + recipe.calls[i + 1 :])
    for i, node in enumerate(recipe.body.nodes):
        for inner in node.bodies.values():
            if node.op in ("@cond", "@switch"):
                yield _live(_inlined(recipe, i, inner))
    for i in reversed(range(len(recipe.body.nodes))):
        yield from _without(recipe, i)
    for i, node in enumerate(recipe.body.nodes):
        for name, inner in node.bodies.items():
            for j in reversed(range(len(inner.nodes))):
                smaller = _bypassed(inner, j)
                if smaller is not None:
                    nodes = copy.deepcopy(recipe.body.nodes)
                    nodes[i].bodies[name] = smaller
                    yield _with(recipe, body=Body(recipe.body.params, nodes, recipe.body.outputs))
    if recipe.variables and not any(_variables(recipe.body)):
        yield _with(recipe, variables=[])
    for i, node in enumerate(recipe.body.nodes):
        if node.after:
            nodes = copy.deepcopy(recipe.body.nodes)
            nodes[i].after = []
            yield _with(recipe, body=Body(recipe.body.params, nodes, recipe.body.outputs))
    for i, call in enumerate(recipe.calls):
        for name, size in call.sizes.items():
            for smaller in (1, 2, 3, size // 2):
                if 0 < smaller < size:
                    calls = copy.deepcopy(recipe.calls)
                    twin = f"{name}_"
                    calls[i].sizes[name] = smaller
                    if calls[i].sizes.get(twin) == size:
                        calls[i].sizes[twin] = smaller
                    yield _with(recipe, calls=calls)


def _with(recipe: Recipe, **fields: Any) -> Recipe:
    return Recipe(**{**vars(copy.deepcopy(recipe)), **fields})


def _variables(body: Body) -> Iterator[bool]:
    """One item a variable that a body or a body in it names."""
    for node in body.nodes:
        yield from (True for o in node.inputs if isinstance(o, dict) and "var" in o)
        for inner in node.bodies.values():
            yield from _variables(inner)


def _outputs(body: Body, outputs: list[int]) -> Body:
    return Body(body.params, body.nodes, outputs)


def _without(recipe: Recipe, at: int) -> Iterator[Recipe]:
    """The node gone: its results become inputs of the graph, or one of its operands of the same type."""
    body = recipe.body
    bypassed = _bypassed(body, at)
    if bypassed is not None:
        yield _live(_with(recipe, body=bypassed))
    node = body.nodes[at]
    if node.outs:
        key = 1 + max((i.key for i in recipe.inputs), default=0)
        fresh = [Input(t, [False] * len(t.dims), key=key + i) for i, t in enumerate(node.outs)]
        inputs = [*recipe.inputs, *fresh]
        count, first = len(body.params), _first(body, at)
        old = list(range(len(body.types())))
        made = list(range(first, first + len(node.outs)))
        kept = [v for v in old if v not in made]
        order = [*kept[:count], *made, *kept[count:]]
        number = {v: i for i, v in enumerate(order)}
        nodes = [_renumber(n, number) for i, n in enumerate(body.nodes) if i != at]
        params = [*body.params, *node.outs]
        new = Body(params, nodes, [number[o] for o in body.outputs])
        yield _live(_with(recipe, inputs=inputs, body=new))


def _first(body: Body, at: int) -> int:
    """The number of a node's first result."""
    return len(body.params) + sum(len(n.outs) for n in body.nodes[:at])


def _bypassed(body: Body, at: int) -> Body | None:
    """The body with operands of the same type in place of a node's results; None where there are none."""
    node, types, first = body.nodes[at], body.types(), _first(body, at)
    number = {v: v if v < first else v - len(node.outs) for v in range(len(types))}
    for i, out in enumerate(node.outs):
        same = [v for v in operands(node.inputs) if types[v] == out]
        if not same:
            return None
        number[first + i] = same[0]
    nodes = [_renumber(n, number) for i, n in enumerate(body.nodes) if i != at]
    return Body(body.params, nodes, [number[o] for o in body.outputs])


def _renumber(node: Node, number: dict[int, int]) -> Node:
    after = [number[v] for v in node.after]
    return Node(node.op, renumbered(node.inputs, number), node.attrs, node.outs, after, node.bodies)


def _inlined(recipe: Recipe, at: int, inner: Body) -> Recipe:
    """One arm of a cond in place of the cond."""
    body, node = recipe.body, recipe.body.nodes[at]
    first = _first(body, at)
    inside = dict(enumerate(node.inputs[1:]))
    nodes = list(body.nodes[:at])
    following = first
    for n in inner.nodes:
        nodes.append(_renumber(n, inside))
        for _ in n.outs:
            inside[len(inside)] = following
            following += 1
    number = {
        v: v if v < first else v - len(node.outs) + following - first
        for v in range(len(body.types()))
    }
    number.update({first + i: inside[o] for i, o in enumerate(inner.outputs)})
    nodes += [_renumber(n, number) for n in body.nodes[at + 1 :]]
    return _with(recipe, body=Body(body.params, nodes, [number[o] for o in body.outputs]))


def _live(recipe: Recipe) -> Recipe:
    """Without nodes, inputs and variables that nothing needs. Assignments stay: the variables are looked at."""
    body = recipe.body
    needed = set(body.outputs)
    kept: list[int] = []
    for at in reversed(range(len(body.nodes))):
        node, first = body.nodes[at], _first(body, at)
        if node.op == "@assign" or needed & set(range(first, first + len(node.outs))):
            kept.append(at)
            needed.update([*operands(node.inputs), *node.after])
    params = [i for i in range(len(body.params)) if i in needed]
    order = list(params)
    for at in sorted(kept):
        first = _first(body, at)
        order += range(first, first + len(body.nodes[at].outs))
    number = {v: i for i, v in enumerate(order)}
    nodes = [_renumber(body.nodes[at], number) for at in sorted(kept)]
    new = Body([body.params[i] for i in params], nodes, [number[o] for o in body.outputs])
    return _with(recipe, inputs=[recipe.inputs[i] for i in params], body=new)
