"""`rappor bench`: run the benchmarks of the source repository."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from rappor_core.errors import RapporError

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TOOLS = ("psutil", "httpx")  # what the benchmarks use beyond the product's own libraries


class BenchmarksMissingError(RapporError):
    """The benchmarks are part of the repository, not of the installed packages."""


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which ones; all where none is named.")
    ] = None,
) -> None:
    """Measure speed and memory, as ratios against named alternatives in the same run."""
    present = {path.stem: path for path in sorted(BENCHMARKS.glob("[!_]*.py"))}
    if not present:
        raise BenchmarksMissingError(
            f"there is no benchmark in {BENCHMARKS}; run this from a clone of the repository"
        )
    missing = [tool for tool in TOOLS if find_spec(tool) is None]
    if missing:
        raise BenchmarksMissingError(
            f"the benchmarks need {' and '.join(missing)}: run make bench, "
            "or pip install -e '.[all,dev]'"
        )
    for name in names or present:
        if name not in present:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(present)}")
    for name in names or present:
        print(f"== {name}", flush=True)
        done = subprocess.run([sys.executable, present[name]], check=False)  # noqa: S603 - our own
        if done.returncode:
            raise typer.Exit(1)
