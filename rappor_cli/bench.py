"""`rappor bench`: run the benchmarks of the source repository and write them to one page."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from decoder.files import probe_file
from rappor_cli.bench_records import BenchMachine, Comparison, Page, Part, comparison
from rappor_core.errors import RapporError

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
FORM = (
    "from _run import"  # in each script that writes comparisons; others print tables of their own
)
TOOLS = ("psutil", "httpx")  # what the benchmarks use beyond the product's own libraries
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "fastapi", "sqlalchemy")


class BenchmarksMissingError(RapporError):
    """The benchmarks are part of the source, not of the installed packages."""


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which ones; all where none is named.")
    ] = None,
    small: Annotated[bool, typer.Option(help="A small form of each, in minutes.")] = False,
    markdown: Annotated[
        Path | None,
        typer.Option(help="Write these parts to a page, and to the JSON beside it."),
    ] = None,
) -> None:
    """Measure speed, memory and accuracy beside named alternatives in the same run."""
    present = in_form()
    _complain_where_missing(present)
    chosen = names or list(present)
    for name in chosen:
        if name not in present:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(present)}")
    if markdown is not None:
        for path in (markdown, markdown.with_suffix(".json")):
            probe_file(path)
    parts, failed = list[Part](), list[str]()
    for name in chosen:
        print(f"== {name}", flush=True)
        before = _load()
        rows, done = _run(present[name], small)
        failed += [] if done else [name]
        words = f"rappor bench {name}" + " --small" * small
        load = f"{before} at its start, {_load()} at its end"
        parts.append(Part(name, words, f"{datetime.now(UTC):%Y-%m-%d}", load, tuple(rows)))
    if markdown is not None:
        _write(markdown, [part for part in parts if part.name not in failed])
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        raise typer.Exit(1)


def in_form() -> dict[str, Path]:
    """The scripts of the common form, by name."""
    paths = sorted(BENCHMARKS.glob("[!_]*.py"))
    return {path.stem: path for path in paths if FORM in path.read_text(encoding="utf-8")}


def _write(markdown: Path, parts: list[Part]) -> None:
    """Put parts on a page, in place of their earlier form."""
    records, here = markdown.with_suffix(".json"), machine()
    page = Page(here, ())
    if records.exists():
        page = Page.from_json(records.read_text(encoding="utf-8"))
    page = page.with_parts(here, parts)
    markdown.write_text(page.markdown(), encoding="utf-8")
    records.write_text(page.to_json(), encoding="utf-8")


def machine() -> BenchMachine:
    """Describe this machine: processor, memory, system, versions of libraries."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return BenchMachine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        memory=f"{pages * size / 1024**3:.0f} GiB",
        system=f"{platform.system()} {platform.release().split('-')[0]}",
        python=platform.python_version(),
        versions=_versions(),
    )


def _complain_where_missing(present: dict[str, Path]) -> None:
    if not present:
        raise BenchmarksMissingError(
            f"there is no benchmark in {BENCHMARKS}: wheels leave them out. They are in the source "
            "distribution: pip download --no-deps --no-binary :all: "
            f"rappor-telemetry=={_version('rappor-telemetry')}, unpack it, pip install "
            "'.[all,dev,bench]' there, and run python -m rappor_cli bench"
        )
    missing = [tool for tool in TOOLS if find_spec(tool) is None]
    if missing:
        raise BenchmarksMissingError(
            f"the benchmarks need {' and '.join(missing)}: run make bench, "
            "or pip install -e '.[all,dev,bench]'"
        )


def _run(path: Path, small: bool) -> tuple[list[Comparison], bool]:
    """What one benchmark found, and whether it came to its end."""
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records"
        words = [sys.executable, str(path), "--records", str(records), *["--small"] * small]
        done = subprocess.run(words, check=False)  # noqa: S603 - our own
        lines = records.read_text().splitlines() if records.exists() else []
        return [comparison(json.loads(line)) for line in lines], done.returncode == 0


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _processor() -> str:
    """The model as Linux names it, else as Python does."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _versions() -> dict[str, str]:
    found = {name: _version(name) for name in LIBRARIES}
    return {name: number for name, number in found.items() if number}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
