"""The `tf-disc` command."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from tf_disc.version import __version__


@click.group()
@click.version_option(__version__, prog_name="tf-disc")
def main() -> None:
    """Looks into what tf_disc compiles."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--as-dumped", is_flag=True, help="Run the dumped kernel; compile nothing.")
@click.option("--dump", default="", help="Folder for the stages of the new compile.")
@click.option("--tolerance", default=1e-4, help="Largest difference from TensorFlow.")
def replay(folder: Path, as_dumped: bool, dump: str, tolerance: float) -> None:
    """Runs the dumped cluster in FOLDER again, alone, and compares it with TensorFlow.

    FOLDER is one of the folders that TF_DISC_DUMP fills. Exits with 1 if results differ.
    """
    from rich.console import Console
    from rich.table import Table

    from tf_disc.compiler.errors import UnsupportedError
    from tf_disc.errors import TfDiscError
    from tf_disc.tools.replay import difference
    from tf_disc.tools.replay import replay as run

    try:
        done = run(folder, recompile=not as_dumped, dump=dump)
    except (TfDiscError, UnsupportedError, RuntimeError, ValueError) as error:
        raise click.ClickException(f"{type(error).__name__}: {error}") from error
    console = Console()
    console.print(f"{done.cluster['name']}: {len(done.cluster['nodes'])} nodes")
    if done.stage_ms:
        stages = ", ".join(f"{name} {ms:.0f}" for name, ms in done.stage_ms.items())
        console.print(f"compiled in {sum(done.stage_ms.values()):.0f} ms: {stages}")
    table = Table("output", "dtype", "shape", "difference from TensorFlow")
    worst = 0.0
    for name, output, expected in zip(done.cluster["outputs"], done.outputs, done.expected):
        apart = difference(output, expected)
        worst = max(worst, apart)
        table.add_row(name, str(output.dtype), str(list(output.shape)), f"{apart:.1e}")
    console.print(table)
    if not worst <= tolerance:
        console.print(f"results differ by more than {tolerance:g}")
        sys.exit(1)


if __name__ == "__main__":
    main()
