"""The `tf-disc` command."""

from __future__ import annotations

import click

from tf_disc.version import __version__


@click.group()
@click.version_option(__version__, prog_name="tf-disc")
def main() -> None:
    """Looks into what tf_disc compiles."""


if __name__ == "__main__":
    main()
