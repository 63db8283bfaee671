"""`rappor decode --all-metrics`: each window of each metric, in processes of this machine."""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

from decoder.errors import DecodeError
from decoder.files import replacing
from decoder.options import DecodeOptions
from decoder.sources.windows import Each
from decoder.workflows.decoding import CandidateChoice
from decoder.workflows.farm import (
    WindowResult,
    WindowTask,
    decode_window,
    tasks_of_collector,
    tasks_of_files,
    write_result,
)
from rappor_cli.progress import progress_bar
from rappor_cli.task_pools import pool_of
from rappor_cli.text import print_note

SUMMARY = "windows.csv"
COLUMNS = ("metric", "first_day", "last_day", "reports", "detected", "folder", "refused")


@dataclass(frozen=True)
class Farm:
    """What `rappor decode --all-metrics` decodes, where it writes, and which workers run it."""

    files: tuple[Path, ...]
    collector: str | None
    first: date | None
    last: date | None
    each: Each | None
    candidates: CandidateChoice
    options: DecodeOptions
    output: Path | None
    workers: int | None

    def tasks(self) -> list[WindowTask]:
        """Wrong usage where something is missing that is needed for all metrics."""
        if self.each is None or self.output is None:
            raise typer.BadParameter("--all-metrics needs --each and -o DIR")
        if self.files:
            found = tasks_of_files(self.files, self.each, self.candidates, self.options, print_note)
            return list(found)
        if self.collector is None or self.first is None or self.last is None:
            raise typer.BadParameter(
                "--all-metrics needs --aggregate files, or --collector URL with --from and --to"
            )
        days = self.first, self.last
        return list(
            tasks_of_collector(
                self.collector, self.each, *days, self.candidates, self.options, print_note
            )
        )


def decode_all(farm: Farm, as_json: bool) -> None:
    """Decode all windows, write each window's files as they are ready, and print what each
    worker did."""
    tasks, output = farm.tasks(), farm.output or Path()
    if not tasks:
        raise DecodeError("no window of any metric was found")
    run = pool_of(decode_window, farm.workers, ["decoder.workflows.farm"]).run
    began = perf_counter()
    with progress_bar("windows", len(tasks)) as advance:
        results = collect(tasks, run, output, advance)
    _write_summary(tasks, results, output)
    totals = _totals(results, perf_counter() - began)
    _print(totals, output, as_json)
    if totals["refused"]:
        raise typer.Exit(1)


def collect(
    tasks: list[WindowTask],
    run: Callable[[Iterable[WindowTask]], Iterator[tuple[WindowTask, WindowResult]]],
    output: Path,
    advance: Callable[[int], None],
) -> dict[str, WindowResult]:
    """Write the files of results by folder as they come; one that comes twice is written once."""
    done: dict[str, WindowResult] = {}
    for task, result in run(tasks):
        if task.folder in done:
            continue
        write_result(task, result, output)
        done[task.folder] = result
        advance(1)
    return done


def _write_summary(tasks: list[WindowTask], results: dict[str, WindowResult], output: Path) -> None:
    with replacing(output / SUMMARY) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for task in tasks:
            result, window = results[task.folder], task.aggregate
            writer.writerow(
                (window.metric, window.first_day, window.last_day, window.num_reports,
                 result.detected, task.folder, result.refused)
            )  # fmt: skip


def _totals(results: dict[str, WindowResult], seconds: float) -> dict[str, Any]:
    """For machines: counts, and of each worker its windows and processor seconds."""
    workers: dict[str, list[float]] = defaultdict(list)
    for result in results.values():
        workers[result.worker].append(result.seconds)
    return {
        "windows": len(results),
        "refused": sum(result.refused is not None for result in results.values()),
        "seconds": seconds,
        "workers": {
            name: {"windows": len(took), "cpu_seconds": sum(took)}
            for name, took in sorted(workers.items())
        },
    }


def _print(totals: dict[str, Any], output: Path, as_json: bool) -> None:
    if as_json:
        print(json.dumps(totals))
        return
    rate = totals["windows"] / totals["seconds"]
    print(
        f"{output}: {totals['windows']} windows decoded, {totals['refused']} refused "
        f"(see {SUMMARY}); {totals['seconds']:.1f} s, {rate:.1f} a second",
        file=sys.stderr,
    )
    for name, did in totals["workers"].items():
        each = did["cpu_seconds"] / did["windows"]
        print(f"  {name}: {did['windows']} windows, {each:.2f} processor seconds each",
              file=sys.stderr)  # fmt: skip
