"""`python -m benchmarks setup` and `python -m benchmarks run`; docs/benchmarks.md has the commands."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks import environments
from benchmarks.artifacts import Artifacts
from benchmarks.peers import FAMILIES, PEERS, Peer, choose
from benchmarks.results import Results
from benchmarks.roofline import Roofline
from benchmarks.scenarios import compile as compiles
from benchmarks.scenarios import latency, memory, micro, stream, throughput
from benchmarks.session import Row, Session
from benchmarks.workloads import WORKLOADS

SCENARIOS = ("latency", "stream", "throughput", "compile", "memory", "micro")
RESULTS = Path(__file__).resolve().parent / "results"


Names = tuple[str, ...]


def _names(known: Sequence[str] | None) -> Callable[[click.Context, click.Parameter, str], Names]:
    """Reads names joined by commas, each one of a known list; None: anything goes."""

    def read(context: click.Context, parameter: click.Parameter, value: str) -> Names:
        names = tuple(name for name in value.split(",") if name)
        for name in names:
            if known is not None and name not in known:
                raise click.BadParameter(f"there is no {name}; known are {', '.join(known)}")
        return names

    return read


_envs_option = click.option(
    "--envs",
    type=click.Path(path_type=Path),
    default=environments.DEFAULT_FOLDER,
    show_default=True,
    help="Folder of the peers' virtual environments.",
)


@click.group(help="Measures tf_disc against its peers.")
def main() -> None:
    pass


@main.command(help="Makes a virtual environment for each peer that needs one, from named pins.")
@_envs_option
@click.option(
    "--only", callback=_names(tuple(environments.PINS)), default="", help="Names; all if none."
)
@click.option("--again", is_flag=True, help="Makes those that are current, too.")
def setup(envs: Path, only: tuple[str, ...], again: bool) -> None:
    for name in only or tuple(environments.PINS):
        if not again and environments.is_current(name, envs):
            click.echo(f"{name}: there already")
            continue
        click.echo(f"{name}: {' '.join(environments.PINS[name])}")
        environments.make(name, envs)


@main.command(help="Measures, and writes JSON, Markdown and plots.")
@click.option(
    "--scenario",
    callback=_names(SCENARIOS),
    default=",".join(SCENARIOS),
    help="Joined by commas; all.",
)
@click.option(
    "--models", callback=_names(tuple(WORKLOADS)), default=",".join(WORKLOADS), help="All."
)
@click.option(
    "--shapes", callback=_names(None), default="", help="Of latency, as tables name them; all."
)
@click.option("--cases", callback=_names(None), default="", help="Parts of micro names; all.")
@click.option(
    "--peers",
    callback=_names(tuple(peer.name for peer in PEERS)),
    default=",".join(FAMILIES),
    help="tf is always among them: results are compared with its.",
)
@click.option("--precision", callback=_names(("f32", "bf16")), default="f32", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=15, show_default=True)
@click.option(
    "--seconds", default=0.15, show_default=True, help="Of one peer's calls in a round of a case."
)
@click.option(
    "--arrivals", type=click.IntRange(1), default=200, show_default=True, help="Of stream."
)
@click.option(
    "--compiling-arrivals",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Of stream, for peers that compile for each size.",
)
@click.option("--calls", type=click.IntRange(1), default=1000, show_default=True, help="Of memory.")
@click.option(
    "--disc-option", multiple=True, metavar="NAME=VALUE", help="Given to tf_disc.enable()."
)
@_envs_option
@click.option(
    "--artifacts",
    type=click.Path(path_type=Path),
    default=Path("build/benchmarks/models"),
    show_default=True,
    help="Folder of models as peers read them.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Folder; a dated one of results/.")
@click.option("--plots/--no-plots", default=True, show_default=True)
@click.option("--show-all", is_flag=True, help="Prints the whole page at the end.")
def run(
    scenario: tuple[str, ...],
    models: tuple[str, ...],
    shapes: tuple[str, ...],
    cases: tuple[str, ...],
    peers: tuple[str, ...],
    precision: tuple[str, ...],
    rounds: int,
    seconds: float,
    arrivals: int,
    compiling_arrivals: int,
    calls: int,
    disc_option: tuple[str, ...],
    envs: Path,
    artifacts: Path,
    output: Path | None,
    plots: bool,
    show_all: bool,
) -> None:
    # What is missing is said before hours of measuring, not after.
    draw = _plots_module().draw if plots else None
    chosen = choose(peers, precision)
    _require_environments(chosen, envs)
    options = dict(_pair(text) for text in disc_option)
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("roofline", total=None)

        def say(text: str) -> None:
            progress.update(task, description=text)
            if not console.is_terminal:
                console.print(text)

        session = Session(
            chosen,
            envs,
            Artifacts(artifacts, envs),
            measure_roofline(min(1.0, rounds * 0.2)),
            rounds,
            seconds,
            options,
            say,
        )
        measures: dict[str, Callable[[], list[Row]]] = {
            "latency": lambda: latency.measure(session, models, shapes),
            "stream": lambda: stream.measure(session, models, arrivals, compiling_arrivals),
            "throughput": lambda: throughput.measure(session, models, max(seconds, 0.3)),
            "compile": lambda: compiles.measure(session, models),
            "memory": lambda: memory.measure(session, models, calls),
            "micro": lambda: micro.measure(session, cases),
        }
        now = datetime.datetime.now().astimezone()
        folder = output or RESULTS / now.strftime("%Y-%m-%d-%H%M%S")
        folder.mkdir(parents=True, exist_ok=True)
        rows: list[Row] = []
        for name in scenario:
            rows += measures[name]()
            # After each, so that a later one that fails takes nothing along.
            results = Results(_about(session, now), session.roofline, rows, session.failures)
            paths = results.write(folder)
    if draw is not None:
        paths += draw(results, folder)
    if show_all:
        click.echo(results.markdown())
    click.echo("\n".join(map(str, paths)))
    wrong = sorted({row["peer"] for row in rows if row.get("correct") is False})
    if wrong:
        click.echo(f"WRONG RESULTS of {', '.join(wrong)}: see the page", err=True)
    if session.failures:
        click.echo(f"{len(session.failures)} could not be measured: see the page", err=True)


def measure_roofline(seconds: float) -> Roofline:
    """In a fresh process: `seconds` for each figure. Raises CalledProcessError."""
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.roofline"],
        cwd=root,
        env={**os.environ, "TF_DISC": "0", "ROOFLINE_SECONDS": str(seconds)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return Roofline(**json.loads(done.stdout))


def _plots_module() -> Any:
    try:
        from benchmarks import plots
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error}. Install the extra `benchmarks` (matplotlib), or give --no-plots."
        ) from error
    return plots


def _require_environments(peers: Sequence[Peer], envs: Path) -> None:
    needed = {peer.environment for peer in peers}
    if any(peer.reads == "onnx" for peer in peers):
        needed.add("onnx")
    for name in sorted(needed):
        try:
            environments.python_of(name, envs)
        except FileNotFoundError as error:
            raise click.ClickException(str(error)) from error


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text} is not NAME=VALUE")
    return name, value


def _about(session: Session, now: datetime.datetime) -> dict[str, Any]:
    root = Path(__file__).resolve().parent.parent
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True
    )
    return {
        "command": f"python -m benchmarks {' '.join(sys.argv[1:])}",
        "date": now.isoformat(timespec="seconds"),
        "commit": commit.stdout.strip() or "unknown",
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "load": ", ".join(f"{value:.1f}" for value in os.getloadavg()),
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "rounds": session.rounds,
        "seconds_a_round": session.seconds,
        "peers": dict(session.versions),
        "notes": session.notes,
    }


def _cpu_name() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
