"""`rappor quickstart FILE`: the metrics of a file, collected from virtual devices and decoded."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from client_sdk import Transport
from collector.domain.operations import COMMAND_LINE
from collector.server import running_collector
from collector.settings import load_settings
from decoder.files import make_folder
from decoder.sources.collector_client import ask
from decoder.workflows.kinds import decoder_kind
from rappor_cli import options as shared
from rappor_cli.commands import load
from rappor_cli.progress import progress_bar
from rappor_cli.store import opened
from rappor_core.errors import RapporError
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.whole_files import write_whole
from simulations.experiments.demo import held_values, readings, report_day, served_at_once
from simulations.populations.fleet import deliver, encode_fleet

DEVICES = 12_000  # of three values with falling shares, 1 in 4,000 runs has another order
_DATABASE = "collector.sqlite"
_COMMANDS = {"location": "density", "discover": "discover"}  # of a kind; `decode` of all others


class QuickstartError(RapporError):
    """The metrics of a file cannot be shown."""


def quickstart(
    file: shared.MetricsFile,
    devices: Annotated[int, typer.Option(min=100, max=10**6, help="Virtual devices.")] = DEVICES,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for files; made if missing.")
    ] = Path("quickstart"),
    seed: shared.Seed = None,
) -> None:
    """See the metrics of FILE at work: a collector, virtual devices, a closed day, decoded tables.

    Devices hold invented values with falling shares (1, 1/2, 1/3, ...). The commands that are
    printed are those for real data.
    """
    metrics, today = load_metrics(file), datetime.now(UTC).date()
    for metric in metrics.declared:
        if metric.expires < today:
            raise QuickstartError(
                f"metric {metric.base_name!r} expired on {metric.expires}; set a later `expires`"
            )
    make_folder(output)
    for leftover in output.glob(f"{_DATABASE}*"):  # its WAL stands beside it
        leftover.unlink()
    database = f"sqlite:///{output / _DATABASE}"
    fleet = [served_at_once(metric, devices, today) for metric in metrics.metrics.values()]
    with opened(database, may_be_new=True) as collector:
        collector.push_metrics(fleet, COMMAND_LINE)
    settings = load_settings(
        database=database, host="127.0.0.1", port=0, workers=1, require_keys=False,
        max_reports_per_address=0, log_level="warning",
    )  # fmt: skip
    with running_collector(settings) as url:
        sent = _send(metrics, devices, today, url, np.random.default_rng(seed))
        print(f"collector: {url}; {devices:,} devices sent {sent:,} reports of invented values")
        print("its floors (min_reports, min_reports_per_cohort) are lowered for so few devices")
        ask(url, f"/v1/days/{today}/close", method="POST")
        done = [_show(words) for words in _commands(metrics, url, output)]
    print(f"\ncounters: {output / _DATABASE}; pages and tables in {output}")
    print("more devices show more: --devices 100000; how many you need: rappor plan NAME")
    if not any(done):
        raise QuickstartError("no metric could be decoded; the reasons stand above")


def _send(
    metrics: MetricsFile, devices: int, today: date, url: str, rng: np.random.Generator
) -> int:
    """Number of reports that the collector took, of the last period of each metric."""
    accepted, by_day = 0, defaultdict[date, dict[str, Metric]](dict)
    for name, metric in metrics.metrics.items():
        by_day[report_day(metric, today)][name] = metric
    total = devices * len(metrics.metrics)
    with Transport(url) as transport, progress_bar("reports", total) as advance:
        for day, some in by_day.items():
            reports = encode_fleet(readings(some, devices, rng), some, day, rng.bytes)
            delivery = deliver(reports, transport, randomness=rng.bytes, progress=advance)
            if delivery.refused:
                raise QuickstartError(f"the collector refused: {dict(delivery.refused)}")
            accepted += delivery.accepted
    return accepted


def _commands(metrics: MetricsFile, url: str, output: Path) -> Iterator[Sequence[str]]:
    """The command that shows each declared metric."""
    for metric in metrics.declared:
        name, command = metric.base_name, _COMMANDS.get(metric.kind, "decode")
        words = ["--metric", name] if command == "decode" else [name]
        listed = [] if _lists_itself(metric) else ["--candidates", _candidates(metric, output)]
        yield [command, *words, "--collector", url, *listed, "-o", str(output / name)]


def _lists_itself(metric: Metric) -> bool:
    """Whether its values need no list of candidates."""
    return (
        metric.kind in _COMMANDS
        or decoder_kind(metric.kind) is not None
        or bool(metric.rules.all_values(metric))
    )


def _candidates(metric: Metric, output: Path) -> str:
    """A file of what the devices hold, and of as many values that nobody holds."""
    held = list(map(str, held_values(metric)))
    path = output / f"{metric.base_name}-candidates.txt"
    write_whole(path, "\n".join([*held, *(f"nobody-{value}" for value in held)]) + "\n")
    return str(path)


def _show(words: Sequence[str]) -> bool:
    """Print a command and run it. A refusal of one metric leaves the others to be shown."""
    print(f"\n$ rappor {shlex.join(words)}")
    try:
        load(words[0])(args=list(words[1:]), standalone_mode=False)
    except RapporError as error:
        print(f"rappor {words[0]}: {error}")
        return False
    return True
