"""Results on disk: one JSON file with everything, one Markdown page with what people read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.roofline import Roofline
from benchmarks.session import Row
from benchmarks.statistics import geometric_mean

Table = tuple[list[str], list[list[str]]]


@dataclass(frozen=True)
class Results:
    """A run: about the machine and the command, its roofline, its rows, and who could not run what."""

    about: dict[str, Any]
    roofline: Roofline
    rows: list[Row]
    failures: list[Row]

    def write(self, folder: Path) -> list[Path]:
        """Writes results.json and results.md into a folder that is there. Returns their paths."""
        data = {
            "about": self.about,
            "roofline": asdict(self.roofline),
            "rows": self.rows,
            "failures": self.failures,
        }
        paths = [folder / "results.json", folder / "results.md"]
        paths[0].write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        paths[1].write_text(self.markdown(), encoding="utf-8")
        return paths

    @classmethod
    def read(cls, file: Path) -> Results:
        """What `write` wrote as JSON."""
        data = json.loads(file.read_text(encoding="utf-8"))
        return cls(data["about"], Roofline(**data["roofline"]), data["rows"], data["failures"])

    def markdown(self) -> str:
        """The page: about, roofline, a section a scenario."""
        parts = ["# Results", "", f"    {self.about['command']}", ""]
        parts += [f"{key}: {value}  " for key, value in self.about.items() if key != "command"]
        parts += ["", "## Roofline, this run", "", _page(_roofline_table(self.roofline))]
        for scenario, tables in _TABLES.items():
            rows = [row for row in self.rows if row["scenario"] == scenario]
            if rows:
                parts += ["", f"## {scenario}", "", _NOTES[scenario]]
                parts += [text for table in tables(rows) for text in ("", _page(table))]
                parts += _means(rows) if scenario == "micro" else []
        wrong = [row for row in self.rows if row.get("correct") is False]
        if wrong:
            parts += ["", "## Wrong results", ""]
            parts += [
                f"- {r['peer']}, {r['scenario']} {r['model']} {r['shape']}: {r['wrong']}"
                for r in wrong
            ]
        if self.failures:
            parts += ["", "## Could not be measured", ""]
            parts += [
                f"- {f['peer']}, {f['scenario']} {f['model']}: {f['error'].strip().splitlines()[-1]}"
                for f in self.failures
            ]
        return "\n".join(parts) + "\n"


def cases(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, Row]]:
    """Rows by model and shape, then by peer, in the order in which they came."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row["model"], row["shape"]), {})[row["peer"]] = row
    return found


def _page(table: Table) -> str:
    header, rows = table
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else format(value, form)


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _peers(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["peer"] for row in rows))


def _roofline_table(roofline: Roofline) -> Table:
    rows = [
        [f"oneDNN GEMM {name}, GFLOP/s", f"{value:.0f}", f"{value * roofline.cores:.0f} (x cores)"]
        for name, value in roofline.gflops_a_core.items()
    ]
    for level, one in roofline.copy_one_core.items():
        size = 2 * roofline.level_bytes[level] / (1 << 20)
        whole = roofline.copy_all_cores[level]
        rows.append(
            [f"copy in {level} ({size:.1f} MiB a core), GB/s", f"{one:.0f}", f"{whole:.0f}"]
        )
    return ["", "one core", f"all {roofline.cores} cores"], rows


def _latency_tables(rows: Sequence[Row]) -> list[Table]:
    """Everybody's medians and quartiles; then, for each tf_disc, its ratios and its bound."""
    peers = _peers(rows)
    discs = [peer for peer in peers if peer.startswith("tf_disc")]
    return [_times(rows, peers), *(_ratios(rows, disc, peers) for disc in discs)]


def _times(rows: Sequence[Row], peers: Sequence[str]) -> Table:
    body = []
    for (model, shape), found in cases(rows).items():
        line = [f"{model} {shape}"]
        for peer in peers:
            if peer not in found:
                line.append("-")
                continue
            r = found[peer]
            text = f"{_ms(r['median_ms'])} ({_ms(r['q1_ms'])}-{_ms(r['q3_ms'])})"
            line.append(text if r["correct"] else f"WRONG {text}")
        line.append(" / ".join(_ms(found[p]["empty_ms"]) if p in found else "-" for p in peers))
        body.append(line)
    return ["model, shape", *(f"{peer} ms" for peer in peers), "empty graph ms"], body


def _ratios(rows: Sequence[Row], disc: str, peers: Sequence[str]) -> Table:
    others = [peer for peer in peers if peer != disc]
    header = [f"{disc}: model, shape", *(f"over {peer} (net)" for peer in others)]
    header += ["net ms", "share of roofline", "GB/s", "largest difference", "in kernels"]
    body = []
    for (model, shape), found in cases(rows).items():
        if disc not in found:
            continue
        r = found[disc]
        line = [f"{model} {shape}"]
        for peer in others:
            ratio, after = r["ratio_to"].get(peer), r["net_ratio_to"].get(peer)
            line.append(f"{_number(ratio)} ({_number(after)})")
        line += [_ms(r["net_ms"]), f"{_number(r['roofline_share'], '.0%')} of {r['limit']}"]
        line += [_number(r["gbs"], ".1f"), f"{r['difference']:.1e}"]
        body.append([*line, _number(r["kernel_share"], ".0%")])
    return header, body


def _means(rows: Sequence[Row]) -> list[str]:
    """Geometric means over the cases, of ratios with and without the empty graph's time."""
    lines = [""]
    for peer in _peers(rows):
        own = [row for row in rows if row["peer"] == peer]
        if not peer.startswith("tf_disc"):
            continue
        for other in _peers(rows):
            if other == peer:
                continue
            whole = [r["ratio_to"][other] for r in own]
            after = [r["net_ratio_to"][other] for r in own if r["net_ratio_to"][other]]
            slower = [f"{r['model']} {r['shape']}" for r in own if r["ratio_to"][other] < 1]
            lines.append(
                f"{peer} over {other}: geometric mean {_number(geometric_mean(whole))}, net "
                f"{_number(geometric_mean(after))} of {len(after)}; slower in {len(slower)} of "
                f"{len(own)}{': ' if slower else ''}{', '.join(slower)}.  "
            )
    return lines


def _stream_table(rows: Sequence[Row]) -> Table:
    header = ["model", "peer", "arrivals", "first p50 ms", "first p99 ms", "first max ms"]
    header += ["steady p50 ms", "steady p99 ms", "equal size", "equal p50 ms", "equal p99 ms"]
    header += ["p99/p50 at equal size", "compiles"]
    names = ("first_p50_ms", "first_p99_ms", "first_max_ms", "steady_p50_ms", "steady_p99_ms")
    body = []
    for r in rows:
        line = [r["model"], r["peer"], str(r["arrivals"]), *(_ms(r[name]) for name in names)]
        line += [r["shape"].split(": ")[1], _ms(r["equal_p50_ms"]), _ms(r["equal_p99_ms"])]
        compiles = "-" if r["compiles"] is None else str(r["compiles"])
        body.append([*line, _number(r["equal_p99_over_p50"]), compiles])
    return header, body


def _throughput_table(rows: Sequence[Row]) -> Table:
    peers = _peers(rows)
    found: dict[tuple[str, str, int], dict[str, Row]] = {}
    for r in rows:
        found.setdefault((r["model"], r["shape"], r["clients"]), {})[r["peer"]] = r
    body = [
        [
            f"{model} {shape}",
            str(clients),
            *(f"{by[p]['calls_a_second']:.0f}" if p in by else "-" for p in peers),
        ]
        for (model, shape, clients), by in found.items()
    ]
    return ["model, shape", "clients", *(f"{peer} calls/s" for peer in peers)], body


def _compile_table(rows: Sequence[Row]) -> Table:
    header = ["model", "peer", "state", "import s", "load s", "first call s"]
    header += ["first call of further shapes s", "steady ms", "compiles", "compile ms", "from"]
    body = []
    for r in rows:
        line = [r["model"], r["peer"], r["state"]]
        line += [_number(r[name], ".3f") for name in ("import_s", "load_s", "first_call_s")]
        line.append(", ".join(f"{value:.3f}" for value in r["next_first_calls_s"]))
        line.append(_ms(r["steady_ms"]))
        line += [_number(r["compiles"], "g"), _number(r["compile_ms"], ".0f")]
        body.append([*line, ", ".join(r["sources"]) or "-"])
    return header, body


def _memory_table(rows: Sequence[Row]) -> Table:
    header = ["model, shape", "peer", "loaded MiB", "peak MiB", "calls", "growth MiB"]
    body = [
        [
            f"{r['model']} {r['shape']}",
            r["peer"],
            f"{r['loaded_mib']:.0f}",
            f"{r['peak_mib']:.0f}",
            str(r["calls"]),
            f"{r['growth_mib']:.1f}",
        ]
        for r in rows
    ]
    return header, body


_TABLES: dict[str, Callable[[Sequence[Row]], list[Table]]] = {
    "latency": _latency_tables,
    "micro": _latency_tables,
    "stream": lambda rows: [_stream_table(rows)],
    "throughput": lambda rows: [_throughput_table(rows)],
    "compile": lambda rows: [_compile_table(rows)],
    "memory": lambda rows: [_memory_table(rows)],
}

_RATIOS = (
    "Medians (quartiles) of whole calls. Ratios are of medians, above 1 where tf_disc is faster; in "
    "brackets after an empty graph's median, measured in the same process in the same way, is taken "
    "off both. Roofline: the least time that arithmetic or copying inputs and outputs once takes on "
    "all cores, as measured in this run, over the net time."
)
_NOTES = {
    "latency": _RATIOS,
    "micro": _RATIOS,
    "stream": "Random sizes in arrival order. First: the first call of each arrival; steady: its next two; "
    "equal: a fixed size that is called twice after each arrival.",
    "throughput": "Calls a second, medians of rounds; each client is a thread of the same process.",
    "compile": "Fresh processes; tf_disc in mode sync, so that its first call holds the whole compile.",
    "memory": "Resident memory of the peer's process; growth over calls of one shape.",
}
