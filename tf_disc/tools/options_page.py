"""Writes docs/options.md from the table in `tf_disc.config`: `make docs`."""

from __future__ import annotations

from pathlib import Path

from tf_disc.config import OPTIONS, Option

PAGE = Path("docs") / "options.md"

_HEAD = """\
# Options

<!-- Made by `make docs` from tf_disc/config.py. Edit that. -->

Each can be given to `tf_disc.enable(...)`, to `tf_disc.options(...)` (a context manager and
decorator), or in the environment; the later wins: default, environment, `enable`, contexts from
outside in.

Options of scope *graph* are recorded when a function is traced and stay with it: a context around
a later call of a traced function changes nothing for it. Options of scope *process* act on whatever
runs or compiles afterwards. Options that change code are part of a kernel's key.

| option | values | default | environment | scope | changes code |
|---|---|---|---|---|---|
"""


def _values(option: Option) -> str:
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    if option.kind in ("int", "float"):
        number = "whole number" if option.kind == "int" else "number"
        return f"{number}, at least {option.minimum:g}"
    return {"bool": "`0`, `1`", "names": "names, joined by commas", "folder": "a folder"}.get(
        option.kind, "text"
    )


def page() -> str:
    """The whole page."""
    rows = [
        f"| `{option.name}` | {_values(option)} | `{option.text(option.default)}` "
        f"| `{option.environment}` | {option.scope} | {'yes' if option.changes_code else 'no'} |"
        for option in OPTIONS
    ]
    details = [f"**`{option.name}`**: {option.doc}" for option in OPTIONS]
    return _HEAD + "\n".join(rows).replace("| `` |", "| |") + "\n\n" + "\n\n".join(details) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
