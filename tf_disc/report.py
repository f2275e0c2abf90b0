"""What tf_disc did in this process: plain data, and a table to read."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tf_disc.compiler.op_rules.left import why_left
from tf_disc.version import __version__

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

_PENDING = {"queued", "compiling"}
_SHOWN_OPS = 6


class Report:
    """Made by `tf_disc.report()`. Prints as tables, in a terminal and with print()."""

    def __init__(
        self,
        passes: Mapping[str, Any],
        launches: Mapping[str, Any],
        options: Mapping[str, Any],
        cpu: tuple[str, str] = ("", ""),
    ) -> None:
        """`passes` and `launches` are the statistics of the native library (docs/report.md).

        cpu: the target and the features that kernels are compiled for.
        """
        self._data = _combine(passes, launches, options, cpu)

    def as_dict(self) -> dict[str, Any]:
        """Everything, as dicts, lists, numbers and text; docs/report.md has the fields."""
        return self._data

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=120)
        console.print(self)
        text: str = console.file.getvalue()  # type: ignore[attr-defined]
        return text

    __repr__ = __str__

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        yield from _tables(self._data)


def _combine(
    passes: Mapping[str, Any],
    launches: Mapping[str, Any],
    options: Mapping[str, Any],
    cpu: tuple[str, str],
) -> dict[str, Any]:
    clusters = _clusters(passes, launches)
    signatures = [signature for cluster in clusters for signature in cluster["signatures"]]
    totals = {
        "graphs": len(passes["graphs"]),
        "pass_time_ms": sum(graph["time_us"] for graph in passes["graphs"]) / 1e3,
        "nodes": passes["nodes"],
        "nodes_in_clusters": passes["in_clusters"],
        "clusters": len(clusters),
        "signatures": len(signatures),
        "signatures_pending": sum(s["state"] in _PENDING for s in signatures),
        "compiles": launches["compiles"],
        "compile_failures": launches["compile_failures"],
        "compile_ms": launches["compile_ms"],
        "calls": sum(cluster["calls"] for cluster in clusters),
        "kernel_runs": sum(cluster["kernel_runs"] for cluster in clusters),
        "kernel_ms": sum(cluster["kernel_ms"] for cluster in clusters),
        "fallbacks": sum(sum(cluster["fallbacks"].values()) for cluster in clusters),
        "guard_failures": sum(signature["guard_failures"] for signature in signatures),
    }
    sources = ("memory_hits", "shipped_hits", "disk", "worker", "weights", "pool")
    return {
        "version": __version__,
        "options": dict(options),
        "cpu": {"target": cpu[0], "features": cpu[1]},
        "totals": totals,
        "clusters": clusters,
        "graphs": [
            {**graph, "clusters": [c["id"] for c in graph["clusters"]]}
            for graph in passes["graphs"]
        ],
        "left_to_tensorflow": _left(passes),
        **{source: launches[source] for source in sources},
        "notes": [*_notes(options, cpu[1]), *launches["problems"]],
    }


def _clusters(passes: Mapping[str, Any], launches: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One entry a cluster id: what the pass put into it, and what its launches did."""
    entries: dict[str, dict[str, Any]] = {}
    unknown = {"graphs": [], "num_nodes": 0, "ops": {}, "nodes": []}
    quiet = {"calls": 0, "kernel_runs": 0, "kernel_ms": 0.0, "fallbacks": {}, "signatures": []}
    for graph in passes["graphs"]:
        for cluster in graph["clusters"]:
            facts = {key: cluster[key] for key in ("num_nodes", "ops", "nodes")}
            entry = entries.setdefault(
                cluster["id"], {"id": cluster["id"], **facts, **quiet, "graphs": []}
            )
            # Equal clusters of several graphs are one: its id is a hash of its content.
            entry["graphs"].append(graph["graph"])
    for cluster in launches["clusters"]:
        # A launch of a saved or deserialised graph was placed by the pass of another process.
        entry = entries.setdefault(cluster["id"], {"id": cluster["id"], **unknown})
        entry.update({key: cluster[key] for key in quiet})
    return list(entries.values())


def _reason(op: str, found: str) -> str:
    """The pass knows that an op has no rule; the rules know why."""
    return (why_left(op) or found) if found.startswith("there is no rule for") else found


def _left(passes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Nodes that stayed in TensorFlow, over all graphs, by op and reason; most first."""
    counts: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], list[str]] = {}
    for graph in passes["graphs"]:
        for group in graph["left"]:
            key = (group["op"], _reason(group["op"], group["reason"]))
            counts[key] += group["count"]
            examples.setdefault(key, group["nodes"])
    return [
        {"op": op, "reason": reason, "count": count, "nodes": examples[op, reason]}
        for (op, reason), count in counts.most_common()
    ]


def _notes(options: Mapping[str, Any], features: str) -> list[str]:
    notes = []
    if options["precision"] == "bf16" and "+avx512bf16" not in features.split(","):
        notes.append(
            "precision=bf16 has no effect: this CPU (at the level of option max_cpu) has no "
            "AVX512-BF16, so products stay f32."
        )
    if not options["enabled"]:
        notes.append("tf_disc is off: functions traced now get no clusters.")
    return notes


def _tables(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    yield Text(_summary(data))
    if data["clusters"]:
        # Narrow enough for a terminal of 80 columns; what is wide follows in lines of its own.
        table = Table()
        table.add_column("cluster", no_wrap=True)
        for name in ("kernel", "compile\nms", "calls", "kernel\nruns", "kernel\nms", "in TF"):
            table.add_column(name, justify="left" if name == "kernel" else "right")
        for cluster in data["clusters"]:
            table.add_row(*map(Text, _cluster_row(cluster)))
        yield table
        for cluster in data["clusters"]:
            if cluster["ops"]:
                yield Text(_contents(cluster))
    reasons = _reasons(data["clusters"])
    if reasons:
        table = Table("calls", "ran in TensorFlow (TF) because", "cluster")
        for reason, (count, ids) in reasons.items():
            table.add_row(
                Text(str(count)), Text(reason), Text(_few([_short(id_) for id_ in ids], 1))
            )
        yield table
    slower = _slower(data["clusters"])
    if slower:
        # Times of one call: medians of those that were timed.
        columns = ("cluster", "input elements", "kernel us", "TF us", "calls timed", "signature")
        table = Table(*columns, title="faster in TensorFlow, and left to it (never_slower)")
        for row in slower:
            table.add_row(*map(Text, row))
        yield table
    if data["left_to_tensorflow"]:
        table = Table("nodes", "op", "left to TensorFlow because", "for example")
        for group in data["left_to_tensorflow"]:
            row = (str(group["count"]), group["op"], group["reason"], _few(group["nodes"], 1))
            table.add_row(*map(Text, row))
        yield table
    skipped = Counter(graph["skipped"] for graph in data["graphs"] if graph["skipped"])
    for reason, count in skipped.most_common():
        yield Text(f"{count} graphs left alone: {reason}")
    for note in data["notes"]:
        yield Text(f"note: {note}")


def _summary(data: Mapping[str, Any]) -> str:
    totals = data["totals"]
    covered = totals["nodes_in_clusters"] / totals["nodes"] if totals["nodes"] else 0.0
    return (
        f"tf_disc {data['version']}: {totals['nodes_in_clusters']} of {totals['nodes']} nodes "
        f"({covered:.1%}) of {totals['graphs']} graphs in {totals['clusters']} clusters; "
        f"{totals['compiles']} compiles ({totals['compile_ms'] / 1e3:.2f} s), "
        f"{totals['compile_failures']} failed; {totals['kernel_runs']} kernel runs "
        f"({totals['kernel_ms']:.1f} ms), {totals['fallbacks']} calls in TensorFlow"
    )


def _cluster_row(cluster: Mapping[str, Any]) -> tuple[str, ...]:
    signatures = cluster["signatures"]
    states = Counter(signature["state"] for signature in signatures)
    return (
        _short(cluster["id"]),
        ", ".join(f"{count} {name}" for name, count in states.items()) or "not called",
        f"{sum(signature['compile_ms'] for signature in signatures):.0f}",
        str(cluster["calls"]),
        str(cluster["kernel_runs"]),
        f"{cluster['kernel_ms']:.1f}",
        str(sum(cluster["fallbacks"].values())),
    )


def _short(cluster_id: str) -> str:
    return cluster_id.removeprefix("cluster_")


def _contents(cluster: Mapping[str, Any]) -> str:
    ops = Counter(cluster["ops"]).most_common()
    shown = _few([f"{count} {op}" for op, count in ops], _SHOWN_OPS)
    return f"{_short(cluster['id'])}: {cluster['num_nodes']} nodes: {shown}"


def _reasons(clusters: list[dict[str, Any]]) -> dict[str, tuple[int, list[str]]]:
    """Why calls ran in TensorFlow: how many, and in which clusters."""
    reasons: dict[str, tuple[int, list[str]]] = {}
    for cluster in clusters:
        for reason, calls in cluster["fallbacks"].items():
            count, ids = reasons.get(reason, (0, []))
            reasons[reason] = (count + calls, [*ids, cluster["id"]])
    return reasons


def _slower(clusters: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The sizes at which the kernel lost: by how much, and where."""
    return [
        (
            _short(cluster["id"]),
            _sizes(trial["least_elements"]),
            f"{trial['kernel']['median_us']:.1f}",
            f"{trial['tensorflow']['median_us']:.1f}",
            f"{trial['kernel']['count']} + {trial['tensorflow']['count']}",
            signature["signature"],
        )
        for cluster in clusters
        for signature in cluster["signatures"]
        for trial in signature["speed"]
        if trial["way"] == "tensorflow"
    ]


def _sizes(least: int) -> str:
    """The size class that begins with `least` elements, in words."""
    return f"{least} to {2 * least - 1}" if least > 1 else str(least)


def _few(items: list[str], shown: int) -> str:
    more = f" and {len(items) - shown} more" if len(items) > shown else ""
    return ", ".join(items[:shown]) + more
