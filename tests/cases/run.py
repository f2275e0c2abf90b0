"""Programs of public bug reports, with and without tf_disc, and that each holds as many compiled clusters as it did.

    python -m tests.cases.run [--mode sync|async]... [--only GLOB]... [--jobs N] [--record]

The programs and their runner are beside the repository, in `../shared/cases` (or where `TF_DISC_CASES` says). The runner
compares every call with plain TensorFlow in a process of its own, and counts the DiscLaunch nodes of the optimised graphs: a
plugin that compiles nothing would pass, so `minimum_launches.json` has for each case how many there must be, and where none,
why.
`--record` writes what was found as the new minimum, the smallest of all modes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MINIMUM = Path(__file__).parent / "minimum_launches.json"
MODES = ("sync", "async")
_LINE = re.compile(r"(PASS|FAIL|ERROR) (\S+) ?(.*)")
_LAUNCHES = re.compile(r"launches=(\d+)")


@dataclass(frozen=True)
class Result:
    """What the runner says of a case. `launches` is None where it counted nothing."""

    verdict: str
    name: str
    detail: str
    launches: int | None


def cases_folder() -> Path | None:
    """Where the programs are, or None where there are none."""
    folder = Path(os.environ.get("TF_DISC_CASES") or ROOT.parent / "shared" / "cases")
    return folder if (folder / "runner.py").exists() else None


def run(folder: Path, mode: str, only: Iterable[str] = (), jobs: int = 2) -> list[Result]:
    """Runs the runner. Raises RuntimeError if it says nothing of any case."""
    command = [
        sys.executable,
        str(folder / "runner.py"),
        "--plugin",
        "tf_disc",
        "--stats",
        "--jobs",
        str(jobs),
    ]
    command += ["--env", f"TF_DISC_MODE={mode}"]
    for pattern in only:
        command += ["--only", pattern]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TF_DISC")}
    path = os.pathsep.join([str(ROOT), *filter(None, [environment.get("PYTHONPATH")])])
    done = subprocess.run(
        command, env={**environment, "PYTHONPATH": path}, capture_output=True, text=True
    )
    results = parse(done.stdout)
    if not results:
        raise RuntimeError(
            f"the runner of {folder} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return results


def parse(text: str) -> list[Result]:
    """The runner's lines."""
    results = []
    for line in text.splitlines():
        if found := _LINE.fullmatch(line.strip()):
            verdict, name, detail = found.groups()
            count = _LAUNCHES.search(detail)
            results.append(Result(verdict, name, detail, int(count[1]) if count else None))
    return results


def minimums() -> dict[str, dict[str, Any]]:
    """By case: `launches`, the smallest number; where that is 0, `why`."""
    data: dict[str, dict[str, Any]] = json.loads(MINIMUM.read_text())
    return data


def problem(result: Result, minimum: dict[str, dict[str, Any]]) -> str:
    """What is wrong with a case, or nothing."""
    if result.verdict != "PASS":
        return f"{result.name}: {result.verdict} {result.detail}"
    known = minimum.get(result.name)
    if known is None:
        return f"{result.name}: no minimum is recorded; run `python -m tests.cases.run --record`"
    if result.launches is None or result.launches < known["launches"]:
        return f"{result.name}: {result.launches} DiscLaunch in its graphs, at least {known['launches']} were recorded"
    return ""


def record(results: Iterable[Result]) -> None:
    """Writes the smallest number found of each case; other cases and the reasons stay."""
    found: dict[str, int] = {}
    for r in results:
        if r.launches is not None:
            found[r.name] = min(r.launches, found.get(r.name, r.launches))
    data = minimums() if MINIMUM.exists() else {}
    for name, launches in found.items():
        why = data.get(name, {}).get("why", "")
        data[name] = {"launches": launches, **({"why": why} if launches == 0 else {})}
    lines = [f"  {json.dumps(name)}: {json.dumps(data[name])}" for name in sorted(data)]
    MINIMUM.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> int:
    """0 if every case passed with as many launches as recorded."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mode", action="append", choices=MODES, default=[])
    parser.add_argument("--only", action="append", default=[], metavar="GLOB")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    folder = cases_folder()
    if folder is None:
        print(
            f"no cases: {ROOT.parent / 'shared' / 'cases'} is not there; TF_DISC_CASES can name the folder"
        )
        return 2
    results: list[Result] = []
    problems: list[str] = []
    for mode in options.mode or MODES:
        found = run(folder, mode, options.only, options.jobs)
        results += found
        if not options.record:
            problems += [f"{mode}: {p}" for r in found if (p := problem(r, minimums()))]
        elif bad := [r for r in found if r.verdict != "PASS"]:
            problems += [f"{mode}: {r.name}: {r.verdict} {r.detail}" for r in bad]
        for r in found:
            print(f"{mode:6}{r.verdict:6}{r.name} {r.detail}")
    if options.record:
        record(r for r in results if r.verdict == "PASS")
    print("\n".join(problems) or f"{len(results)} passed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
