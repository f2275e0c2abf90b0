"""Reads a cluster file (docs/contracts.md 3) into tensor IR, node by node through the op rules."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tf_disc.compiler.errors import CompilerError, InternalError, ShapeError, UnsupportedError
from tf_disc.compiler.importer.check_file import check_file
from tf_disc.compiler.ir.builder import MAX_CONTENTS, GraphBuilder, Speculation
from tf_disc.compiler.ir.dims import Dim, as_dim, product
from tf_disc.compiler.ir.graph import Graph, Guard, Input, SymbolSource, Value
from tf_disc.compiler.ir.types import INTEGERS, tensor
from tf_disc.compiler.op_rules import RULES
from tf_disc.compiler.op_rules.record import RuleContext

#: Each speculation fixes one symbol, so this is never reached but by a defect.
MAX_RESTARTS = 1000


def load_cluster(text: str) -> dict[str, Any]:
    """Parses the JSON and checks its form. Raises UnsupportedError with the place."""
    try:
        cluster = json.loads(text)
    except ValueError as e:
        raise UnsupportedError(f"the cluster file is not JSON: {e}") from e
    check_file(cluster)
    return cluster


#: The pass marks nodes whose products keep f32 operands (options f32_ops and f32_nodes) with this attribute.
KEEPS_F32 = "_tf_disc_f32"


def import_cluster(cluster: Mapping[str, Any], *, rounds_products: bool = False) -> Graph:
    """A cluster as tensor IR, with symbols for its unknown sizes and guards for what was speculated.

    rounds_products: f32 operands of products are rounded to bf16, but for those of nodes marked KEEPS_F32.

    Raises UnsupportedError (a node without a rule) or ShapeError (sizes that TensorFlow will refuse).
    """
    check_file(cluster)
    known: dict[str, tuple[Dim, str]] = {}
    for _ in range(MAX_RESTARTS):
        try:
            return _Importer(cluster, known, rounds_products).run()
        except Speculation as s:
            known = {
                name: (_substitute(dim, s.symbol, s.dim), reason)
                for name, (dim, reason) in known.items()
            }
            known[s.symbol] = (s.dim, s.reason)
    raise InternalError(f"{cluster['name']}: {MAX_RESTARTS} speculations did not settle")


def _substitute(dim: Dim, symbol: str, by: Dim) -> Dim:
    """`dim` with a symbol replaced."""
    total = as_dim(0)
    for monomial, coefficient in dim.terms:
        term = as_dim(coefficient)
        for atom in monomial:
            name = getattr(atom, "name", None)
            if name == symbol:
                term = term * by
            elif name is not None:
                term = term * Dim.symbol(name)
            else:
                term = term * Dim.call(
                    atom.function,  # type: ignore[union-attr]
                    _substitute(atom.left, symbol, by),  # type: ignore[union-attr]
                    _substitute(atom.right, symbol, by),  # type: ignore[union-attr]
                )
        total = total + term
    return total


class _Importer:
    def __init__(
        self,
        cluster: Mapping[str, Any],
        known: Mapping[str, tuple[Dim, str]],
        rounds_products: bool,
    ) -> None:
        self.cluster = cluster
        self.known = known
        self.rounds_products = rounds_products
        self.graph = Graph(cluster["name"])
        self.hints: dict[str, int] = {}
        self.builder = GraphBuilder(self.graph, self.hints)
        self.values: dict[str, Value] = {}

    def run(self) -> Graph:
        for index, item in enumerate(self.cluster["inputs"]):
            self._input(index, item)
        for node in self.cluster["nodes"]:
            self._node(node)
        self.graph.outputs = [self._find(name, "the outputs") for name in self.cluster["outputs"]]
        return self.graph

    def _symbol(self, name: str, source: SymbolSource, hint: int) -> Dim:
        """A dim for an unknown: a symbol, or what an earlier speculation found it to be."""
        self.hints[name] = hint
        if name not in self.known:
            self.graph.symbols[name] = source
            return Dim.symbol(name)
        dim, reason = self.known[name]
        # The guard speaks of the input itself, so the symbol stays in the graph's list.
        self.graph.symbols[name] = source
        self.graph.guards.append(Guard(Dim.symbol(name), "==", dim, reason))
        return dim

    def _input(self, index: int, item: Mapping[str, Any]) -> None:
        dtype, kind = item["dtype"], item["kind"]
        dims: list[Dim] = []
        for axis, (known, hint) in enumerate(zip(item["dims"], item["sizes"], strict=True)):
            name = f"d{index}_{axis}"
            if known is None:
                dims.append(self._symbol(name, SymbolSource("dim", index, axis), int(hint)))
                continue
            if known != hint:
                raise ShapeError(
                    f'input "{item["name"]}" axis {axis}: the graph says {known}, this call has {hint}; '
                    "TensorFlow runs the call"
                )
            dims.append(as_dim(known))
            self.graph.symbols[name] = SymbolSource("dim", index, axis)
            self.graph.guards.append(
                Guard(
                    Dim.symbol(name),
                    "==",
                    as_dim(known),
                    f'input "{item["name"]}" has the known size',
                )
            )
        value = Value(tensor(dtype, dims))
        self.graph.inputs.append(Input(item["name"], kind, value))
        if kind == "const":
            self.builder.source = item["name"]
            value = self.builder.constant(
                [_number(v, dtype) for v in item["value"]], dtype, [d.value or 0 for d in dims]
            )
        elif dtype in ("i32", "i64") and kind == "tensor":
            self._follow(index, item, value)
        self.values[item["name"]] = value

    def _follow(self, index: int, item: Mapping[str, Any], value: Value) -> None:
        """Small integer inputs may say sizes: their elements become symbols, with the call's values as hints."""
        count = product(value.dims).value
        hints = item.get("values")
        if count is None or count > MAX_CONTENTS or hints is None or len(hints) != count:
            return
        self.builder.contents[value] = tuple(
            self._symbol(f"v{index}_{i}", SymbolSource("value", index, i), int(hints[i]))
            for i in range(count)
        )

    def _find(self, name: str, user: str) -> Value:
        if name not in self.values:
            raise UnsupportedError(
                f'the cluster file is damaged: "{name}", used by {user}, is not defined'
            )
        return self.values[name]

    def _node(self, node: Mapping[str, Any]) -> None:
        op, name, attrs = node["op"], node["name"], node.get("attrs", {})
        self.builder.source = name
        self.builder.rounds_products = self.rounds_products and not attrs.get(KEEPS_F32)
        if op == "Const":
            self.values[f"{name}:0"] = self._const(name, attrs)
            return
        rule = RULES.get(op)
        inputs = [self._find(i, name) for i in node["inputs"]]
        if rule is None:
            types = ", ".join(str(v.type) for v in inputs)
            raise UnsupportedError(
                f'{op} "{name}" ({types}) has no rule. The cluster stays with TensorFlow; see docs/adding_an_op.md'
            )
        context = RuleContext(self.builder, name, op, inputs, attrs)
        try:
            expected = rule.shape(context)
            lowered = rule.lower(context)
        except (CompilerError, Speculation):
            raise
        except Exception as e:
            types = ", ".join(str(v.type) for v in inputs)
            raise InternalError(
                f'{op} "{name}" ({types}): its rule failed: {type(e).__name__}: {e}'
            ) from e
        results = [lowered] if isinstance(lowered, Value) else list(lowered)
        if [tuple(r.dims) for r in results] != [tuple(e) for e in expected]:
            found = ", ".join(str(r.type) for r in results)
            raise InternalError(
                f"{op} {name}: shape rule and lowering disagree: {expected} and {found}"
            )
        for k, result in enumerate(results):
            self.values[f"{name}:{k}"] = result

    def _const(self, name: str, attrs: Mapping[str, Any]) -> Value:
        found = attrs.get("value", {}).get("tensor")
        if found is None:
            raise UnsupportedError(f'Const "{name}" has no tensor value')
        dtype = found["dtype"]
        return self.builder.constant(
            [_number(v, dtype) for v in found["values"]] or [0], dtype, found["dims"]
        )


def _number(value: Any, dtype: str) -> Any:
    """A JSON number as a Python value of the element type."""
    if dtype == "bool":
        return bool(value)
    if dtype in INTEGERS:
        return int(value)
    return math.nan if value == "nan" else float(value)
