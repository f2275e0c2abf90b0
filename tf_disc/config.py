"""Every option of tf_disc, once: name, type, default, environment variable, and what it does.

docs/options.md is written from this table (`python -m tf_disc.tools.options_page`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tf_disc.errors import OptionError

Value = str | int | float | bool | tuple[str, ...]
Kind = Literal["bool", "int", "float", "text", "folder", "names"]

_TRUE = {"1", "true", "on", "yes"}
_FALSE = {"0", "false", "off", "no"}


@dataclass(frozen=True)
class Option:
    """One option.

    `scope` says when a change takes effect: "graph" options are recorded when a function is
    traced and stay with it; "process" options act on whatever runs or compiles afterwards.
    `changes_code` options are part of the key of a compiled kernel.
    """

    name: str
    kind: Kind
    default: Value
    environment: str
    scope: Literal["graph", "process"]
    changes_code: bool
    doc: str
    choices: tuple[str, ...] = ()
    minimum: float = 0

    def parse(self, value: object) -> Value:
        """The value in the option's type. Takes that type or its text; raises OptionError."""
        if self.kind == "bool":
            return self._parse_bool(value)
        if self.kind == "names":
            return self._parse_names(value)
        if self.kind in ("int", "float"):
            return self._parse_number(value)
        if not isinstance(value, (str, os.PathLike)):
            raise self._wrong(value, "text")
        text = os.fspath(value)
        if self.choices and text not in self.choices:
            raise self._wrong(value, f"one of {', '.join(self.choices)}")
        if self.kind == "folder" and text:
            return os.path.abspath(os.path.expanduser(text))
        return text

    def text(self, value: Value) -> str:
        """The value as C++ reads it: `1`/`0` for a bool, names joined by commas."""
        if isinstance(value, bool):
            return "1" if value else "0"
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value)

    def _parse_bool(self, value: object) -> bool:
        text = str(value).strip().lower()
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise self._wrong(value, "0 or 1")

    def _parse_names(self, value: object) -> tuple[str, ...]:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, (list, tuple, set, frozenset)):
            raise self._wrong(value, "names, as a list or joined by commas")
        if not all(isinstance(item, str) and "," not in item for item in items):
            raise self._wrong(value, "names without commas")
        return tuple(item.strip() for item in items if item.strip())

    def _parse_number(self, value: object) -> int | float:
        what = f"{'a whole' if self.kind == 'int' else 'a'} number of at least {self.minimum:g}"
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise self._wrong(value, what)
        try:
            number = int(value) if self.kind == "int" else float(value)
        except ValueError:
            raise self._wrong(value, what) from None
        # The negated comparison refuses NaN as well.
        if not number >= self.minimum or number != float(value):
            raise self._wrong(value, what)
        return number

    def _wrong(self, value: object, expected: str) -> OptionError:
        return OptionError(
            f"tf_disc: option {self.name} (environment: {self.environment}) is {value!r}; "
            f"expected {expected}. Nothing was changed."
        )


OPTIONS: tuple[Option, ...] = (
    Option(
        "enabled",
        "bool",
        True,
        "TF_DISC",
        "graph",
        False,
        "Whether functions that are traced get clusters. In the environment, 0 keeps "
        "`import tf_disc` from doing anything until `tf_disc.enable()` is called.",
    ),
    Option(
        "mode",
        "text",
        "async",
        "TF_DISC_MODE",
        "graph",
        False,
        "What a call does while its kernel is missing. `async`: run in TensorFlow and compile in "
        "the background. `sync`: wait for the compile. `aot`: only kernels that the SavedModel "
        "ships; nothing is compiled.",
        choices=("async", "sync", "aot"),
    ),
    Option(
        "precision",
        "text",
        "f32",
        "TF_DISC_PRECISION",
        "graph",
        True,
        "Type that the f32 inputs of matrix products are rounded to (to nearest even). `bf16` sums in "
        "f32 and leaves everything else f32; weights are rounded once, where they are packed. On a CPU "
        "without AVX512-BF16 products stay f32, and the report says so.",
        choices=("f32", "bf16"),
    ),
    Option(
        "f32_ops",
        "names",
        (),
        "TF_DISC_F32_OPS",
        "graph",
        True,
        "Types of ops whose products keep f32 inputs under `precision=bf16`, for example "
        "`BatchMatMulV2,Einsum`.",
    ),
    Option(
        "f32_nodes",
        "names",
        (),
        "TF_DISC_F32_NODES",
        "graph",
        True,
        "Names of nodes whose products keep f32 inputs under `precision=bf16`; a `*` stands for any text.",
    ),
    Option(
        "never_slower",
        "bool",
        True,
        "TF_DISC_NEVER_SLOWER",
        "graph",
        False,
        "Whether a few calls of each size are timed with the kernel and in TensorFlow, and sizes "
        "at which the kernel loses stay in TensorFlow; the report shows both times. Acts in mode "
        "`async` alone: `sync` and `aot` promise the kernel.",
    ),
    Option(
        "min_cluster_size",
        "int",
        3,
        "TF_DISC_MIN_CLUSTER_SIZE",
        "graph",
        False,
        "Smallest number of ops that do or move something in a cluster without a matrix product; "
        "smaller ones stay in TensorFlow. Where the data are large or of unknown size one less is "
        "enough, and an op that pays alone (a star in docs/ops.md) counts as three.",
        minimum=1,
    ),
    Option(
        "deny_ops",
        "names",
        (),
        "TF_DISC_DENY_OPS",
        "graph",
        False,
        "Types of ops that stay in TensorFlow, for example `Softmax,Erf`.",
    ),
    Option(
        "deny_nodes",
        "names",
        (),
        "TF_DISC_DENY_NODES",
        "graph",
        False,
        "Names of nodes that stay in TensorFlow; a `*` stands for any text.",
    ),
    Option(
        "cache_dir",
        "folder",
        "",
        "TF_DISC_CACHE_DIR",
        "process",
        False,
        "Folder of the disk cache of compiled kernels. Empty: none.",
    ),
    Option(
        "dump",
        "folder",
        "",
        "TF_DISC_DUMP",
        "process",
        False,
        "Folder that gets, for each compile, the cluster, every stage of its IR, LLVM, assembly "
        "and the inputs; `tf-disc replay FOLDER` runs one again. Empty: none.",
    ),
    Option(
        "compile_timeout_s",
        "float",
        120.0,
        "TF_DISC_COMPILE_TIMEOUT_S",
        "process",
        False,
        "Seconds after which a compile counts as failed and its worker is started anew.",
        minimum=0.001,
    ),
    Option(
        "max_cpu",
        "text",
        "",
        "TF_DISC_MAX_CPU",
        "process",
        True,
        "Highest level of x86-64 that kernels are compiled for, for tests and comparisons; what is "
        "compiled stays. oneDNN has a setting of its own (`ONEDNN_MAX_CPU_ISA`). Empty: the CPU's.",
        choices=("", "x86-64-v2", "x86-64-v3", "x86-64-v4"),
    ),
    Option(
        "weight_cache_mb",
        "int",
        2048,
        "TF_DISC_WEIGHT_CACHE_MB",
        "process",
        False,
        "Megabytes that packed weights may take; those used longest ago go first.",
    ),
    Option(
        "pool_mb",
        "int",
        512,
        "TF_DISC_POOL_MB",
        "process",
        False,
        "Megabytes that freed memory of results and intermediates may keep for the next calls, so "
        "that these find their pages in place. Kept memory that no call used for some ten seconds goes back to "
        "the system. 0: nothing is kept, and TensorFlow allocates.",
    ),
)

BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}


def parse_options(values: Mapping[str, object]) -> dict[str, Value]:
    """Checks names and values, all before anything is changed. Raises OptionError."""
    unknown = [name for name in values if name not in BY_NAME]
    if unknown:
        raise OptionError(
            f"tf_disc: there is no option {', '.join(map(repr, unknown))}; "
            f"the options are {', '.join(BY_NAME)}. Nothing was changed."
        )
    return {name: BY_NAME[name].parse(value) for name, value in values.items()}


def environment_options(environment: Mapping[str, str] | None = None) -> dict[str, Value]:
    """The options that the environment sets. Empty text counts as unset. Raises OptionError."""
    environment = os.environ if environment is None else environment
    return {
        option.name: option.parse(environment[option.environment])
        for option in OPTIONS
        # Whether the import enables is asked of the environment by `enabled_by_environment` alone:
        # a later enable() must not find itself switched off by it.
        if option.name != "enabled" and environment.get(option.environment, "")
    }


def enabled_by_environment(environment: Mapping[str, str] | None = None) -> bool:
    """Whether `import tf_disc` enables: yes unless TF_DISC says 0. Raises OptionError."""
    environment = os.environ if environment is None else environment
    option = BY_NAME["enabled"]
    return bool(option.parse(environment.get(option.environment) or "1"))


def defaults() -> dict[str, Value]:
    """Every option at its default."""
    return {option.name: option.default for option in OPTIONS}
