"""Writes docs/ops.md from the op rules: `make docs`."""

from __future__ import annotations

from pathlib import Path

from tf_disc.compiler.op_rules import RULES
from tf_disc.compiler.op_rules.left import LEFT
from tf_disc.compiler.op_rules.record import OpRule

PAGE = Path("docs") / "ops.md"

_HEAD = """\
# Ops that are compiled

<!-- Made by `make docs` from tf_disc/compiler/op_rules. Edit that. -->

One record an op says all of this; [adding_an_op.md](adding_an_op.md) shows how to write one. A node
joins a cluster when its op is here, its type attributes are among those listed, and its other
attributes have the values listed. Everything else stays with TensorFlow, and `tf_disc.report()` says
which ops those are.

- *Types*: by attribute. An op without any takes what TensorFlow's own definition takes.
- *By value*: operands that must be constants, counted from 0 (from the end where negative). *By
  length*: small integer operands that are read when the call runs; their number of elements alone is
  fixed.
- *Kind*: `heavy` (products), `real` (arithmetic over elements), `move` (data movement), `free` (costs
  nothing), `shape` (arithmetic of sizes). A cluster is worth it when it holds a heavy op, or a few that
  do or move something; one with a star is enough where its data are large or of unknown size.
"""


def _types(rule: OpRule) -> str:
    return "<br>".join(f"{attr}: {', '.join(types)}" for attr, types in rule.dtypes.items())


def _limits(rule: OpRule) -> str:
    parts = [f"{attr} = {' or '.join(values)}" for attr, values in rule.attrs.items()]
    for word, positions in (
        ("by value", rule.by_value),
        ("by length", rule.by_length),
        ("packed weight", rule.weights),
        ("variable", rule.resources),
    ):
        if positions:
            parts.append(f"{word}: {', '.join(map(str, positions))}")
    return "<br>".join([*parts, *([rule.notes] if rule.notes else [])])


def page() -> str:
    """The whole page."""
    rows = [
        f"| `{op}` | {rule.cost}{'*' if rule.alone else ''} | {_types(rule)} | {_limits(rule)} | {len(rule.examples)} |"
        for op, rule in sorted(RULES.items(), key=lambda item: item[0].lstrip("_"))
    ]
    table = "\n".join(["| op | kind | types | limits | examples |", "|---|---|---|---|---|", *rows])
    text = (
        f"{_HEAD}\n{len(RULES)} ops; each example is compared with TensorFlow, once with all sizes "
        f"unknown and once with all known.\n\n{table}\n"
    )
    return text.replace("|  |", "| |").replace("|  |", "| |") + _left()


def _left() -> str:
    """What stays with TensorFlow, by reason."""
    lines = [f"- {reason}: {', '.join(f'`{name}`' for name in names)}" for reason, names in LEFT]
    return (
        "\n## What stays with TensorFlow, and why\nOps that have no rule on purpose; a star stands for the rest of "
        "a name. The report gives these reasons. An op that is neither above nor here has no rule yet.\n\n"
        + "\n".join(lines)
        + "\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
