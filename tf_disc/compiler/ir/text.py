"""Printer and parser of both IR levels. ``print(parse(text)) == text`` for every text that was printed.

One op a line::

    %3: f32[b, s, 64] = matmul(%1, %2) {transpose_b=true} @ "layer/dense"

Attribute values: numbers, true/false, strings in double quotes, dims in ``<>``, lists in ``[]``.
A region follows its op in braces, its arguments in bars.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from tf_disc.compiler.ir.dims import Dim, parse_dim
from tf_disc.compiler.ir.graph import Block, Graph, Guard, Input, Op, SymbolSource, Value
from tf_disc.compiler.ir.types import parse_type, split_top


def attr_text(value: Any) -> str:
    """One attribute value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Dim):
        return f"<{value}>"
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return repr(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(attr_text(v) for v in value)}]"
    raise TypeError(f"no text form for an attribute of type {type(value).__name__}")


def parse_attr(text: str) -> Any:
    """The inverse of attr_text; lists come back as tuples."""
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("<"):
        return parse_dim(text[1:-1])
    if text.startswith('"'):
        return json.loads(text)
    if text.startswith("["):
        return tuple(parse_attr(t) for t in split_top(text[1:-1]))
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return float(text)


class _Namer:
    """Gives names in order of appearance, so that equal IR prints equal text."""

    def __init__(self) -> None:
        self.names: dict[Value, str] = {}

    def __call__(self, value: Value) -> str:
        if value not in self.names:
            self.names[value] = f"%{len(self.names)}"
        return self.names[value]


def _attrs_text(op: Op) -> str:
    if not op.attrs:
        return ""
    inner = ", ".join(f"{k}={attr_text(v)}" for k, v in sorted(op.attrs.items()))
    return f" {{{inner}}}"


def _print_block(block: Block, namer: _Namer, indent: str, lines: list[str], sources: bool) -> None:
    for op in block.ops:
        operands = ", ".join(namer(v) for v in op.operands)
        results = ", ".join(f"{namer(r)}: {r.type}" for r in op.results)
        line = f"{indent}{results + ' = ' if results else ''}{op.name}({operands}){_attrs_text(op)}"
        if op.source and sources:
            line += f" @ {json.dumps(op.source)}"
        for region in op.regions:
            arguments = ", ".join(f"{namer(a)}: {a.type}" for a in region.args)
            lines.append(f"{line} {{ |{arguments}|")
            _print_block(region, namer, indent + "  ", lines, sources)
            line = f"{indent}}}"
        lines.append(line)


def print_block(block: Block, *, sources: bool = True) -> str:
    """A block's ops as text; its arguments stand first on a line of their own."""
    namer = _Namer()
    lines = ["|" + ", ".join(f"{namer(a)}: {a.type}" for a in block.args) + "|"]
    _print_block(block, namer, "", lines, sources)
    return "\n".join(lines) + "\n"


def print_graph(graph: Graph) -> str:
    """A cluster in tensor IR as text."""
    namer = _Namer()
    lines = [f"graph @{graph.name} {{"]
    for item in graph.inputs:
        lines.append(
            f"  {item.kind} {namer(item.value)}: {item.value.type} @ {json.dumps(item.name)}"
        )
    for name, source in graph.symbols.items():
        lines.append(f"  symbol {name} = {source}")
    for guard in graph.guards:
        lines.append(f"  guard {guard} @ {json.dumps(guard.reason)}")
    _print_block(graph.block, namer, "  ", lines, True)
    lines.append(f"  return {', '.join(namer(v) for v in graph.outputs)}")
    lines.append("}")
    return "\n".join(lines) + "\n"


class ParseError(ValueError):
    """Text that is not IR; names the line."""


_STRING = r'"(?:[^"\\]|\\.)*"'
_OP = re.compile(
    r"^(?P<results>%[^=]*= )?(?P<name>[a-z][\w.]*)\((?P<operands>[^)]*)\)"
    rf"(?: (?P<attrs>\{{(?!\s\|)(?:[^{{}}\"]|{_STRING})*\}}))?"
    rf"(?: @ (?P<source>{_STRING}))?(?P<region> \{{ \|(?P<args>.*)\|)?$"
)


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = [line.strip() for line in text.splitlines()]
        self.at = 0
        self.values: dict[str, Value] = {}

    def fail(self, why: str) -> ParseError:
        line = self.lines[self.at] if self.at < len(self.lines) else "<end>"
        return ParseError(f"line {self.at + 1}: {why}: {line}")

    def next(self) -> str:
        while self.at < len(self.lines) and not self.lines[self.at]:
            self.at += 1
        if self.at >= len(self.lines):
            raise self.fail("the text ends too early")
        return self.lines[self.at]

    def define(self, text: str, value: Value | None = None) -> Value:
        name, _, type_text = text.partition(":")
        try:
            parsed = parse_type(type_text)
        except ValueError as e:
            raise self.fail(str(e)) from e
        if value is None:
            value = Value(parsed)
        if name.strip() in self.values:
            raise self.fail(f"{name.strip()} is defined twice")
        self.values[name.strip()] = value
        return value

    def value(self, name: str) -> Value:
        if name.strip() not in self.values:
            raise self.fail(f"{name.strip()} is used before it is defined")
        return self.values[name.strip()]

    def block(self, block: Block, ends: tuple[str, ...]) -> None:
        while not self.next().startswith(ends):
            block.ops.append(self.op())

    def op(self) -> Op:
        match = _OP.match(self.next())
        if not match:
            raise self.fail("not an op")
        results = split_top((match["results"] or "").removesuffix("= "))
        operands = [self.value(v) for v in split_top(match["operands"])]
        attrs: dict[str, Any] = {}
        try:
            for item in split_top((match["attrs"] or "{}")[1:-1]):
                key, _, text = item.partition("=")
                attrs[key] = parse_attr(text)
            types = [parse_type(r.partition(":")[2]) for r in results]
        except ValueError as e:
            raise self.fail(str(e)) from e
        source = json.loads(match["source"]) if match["source"] else ""
        op = Op(match["name"], operands, types, attrs, [], source)
        arguments = match["args"]
        while arguments is not None:
            region = Block([self.define(a) for a in split_top(arguments)])
            self.at += 1
            self.block(region, ("}",))
            op.regions.append(region)
            more = re.match(r"^\} \{ \|(.*)\|$", self.lines[self.at])
            arguments = more[1] if more else None
        for text, result in zip(results, op.results, strict=True):
            self.define(text, result)
        self.at += 1
        return op


def parse_block(text: str) -> Block:
    """The inverse of print_block. Raises ParseError with the line."""
    parser = _Parser(text)
    head = parser.next()
    if not (head.startswith("|") and head.endswith("|")):
        raise parser.fail("a block begins with its arguments in bars")
    block = Block([parser.define(a) for a in split_top(head[1:-1])])
    parser.at += 1
    while parser.at < len(parser.lines):
        if not parser.lines[parser.at]:
            parser.at += 1
            continue
        block.ops.append(parser.op())
    return block


def parse_graph(text: str) -> Graph:
    """The inverse of print_graph. Raises ParseError with the line."""
    parser = _Parser(text)
    head = re.match(r"^graph @(\S+) \{$", parser.next())
    if not head:
        raise parser.fail("expected 'graph @name {'")
    graph = Graph(head[1])
    parser.at += 1
    while True:
        line = parser.next()
        if found := re.match(r"^(tensor|weight|const|resource) (%\d+: .*?) @ (\".*\")$", line):
            value = parser.define(found[2])
            graph.inputs.append(Input(json.loads(found[3]), found[1], value))
        elif found := re.match(r"^symbol (\w+) = (dim|value)\((\d+), (\d+)\)$", line):
            graph.symbols[found[1]] = SymbolSource(found[2], int(found[3]), int(found[4]))
        elif found := re.match(r"^guard (.*?) (==|>=|!=) (.*?) @ (\".*\")$", line):
            try:
                guard = Guard(
                    parse_dim(found[1]), found[2], parse_dim(found[3]), json.loads(found[4])
                )
            except ValueError as e:
                raise parser.fail(str(e)) from e
            graph.guards.append(guard)
        else:
            break
        parser.at += 1
    parser.block(graph.block, ("return",))
    names = split_top(parser.next().removeprefix("return"))
    graph.outputs = [parser.value(n) for n in names]
    parser.at += 1
    if parser.next() != "}":
        raise parser.fail("expected '}'")
    return graph
