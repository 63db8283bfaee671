"""`rappor demo` and `rappor quickstart`: a whole deployment on this machine.

Both run a collector and virtual devices with the real encoder and transport, close a day, and
decode tables. The demo uses values with known true shares; a quickstart uses the metrics of your
file.
"""

import random
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from client_sdk import Transport
from client_sdk.randomization.key_derivation import Randomness, system_randomness
from client_sdk.storage.directory import FileLock
from collector.domain.operations import COMMAND_LINE
from collector.server import running_collector
from decoder import Candidates, DecodeOptions, Decoding, decode, write_outputs
from decoder.candidates.lists import metric_candidates
from decoder.files import make_folder
from decoder.kinds.interface import decoder_of, has_candidates
from decoder.options import DEFAULT_LEVEL
from decoder.sources.collector_client import ask, ask_json, fetch_aggregate
from decoder.tables.format import interval, p_text, percent
from rappor_cli import options as shared
from rappor_cli.commands import load
from rappor_cli.demo_service import HOST, DemoError, collector_settings, send, show_service
from rappor_cli.progress import progress_bar
from rappor_cli.store import opened
from rappor_cli.text import text_table
from rappor_core.errors import RapporError
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.whole_files import write_whole
from rappor_core.wire.report import Report
from rappor_server.serving import listening
from simulations.experiments.demo import (
    DemoMetric,
    DemoPlan,
    held_values,
    plan_words,
    readings,
    report_day,
    served_at_once,
)
from simulations.populations.fleet import encode_fleet

DEFAULT_CLIENTS = 100_000  # the first table appears after at most 20 s of processor time
DEFAULT_DEVICES = 12_000  # the top three values are out of order in 1 of 1,000 runs
DEFAULT_PORT = 8100  # the decoder service's port
MAX_ROWS = 24
_DATABASE = "collector.sqlite"


def demo(
    clients: Annotated[int, typer.Option(min=1, help="Devices in the fleet.")] = DEFAULT_CLIENTS,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Repeat a run exactly. Never for real devices.")
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the reports; created if missing.")
    ] = Path("demo-output"),
    epsilon_infinity: Annotated[
        float, typer.Option(help="Nats for a memoized value over a device's lifetime.")
    ] = 1.6,
    epsilon_one: Annotated[float, typer.Option(help="Nats for one report.")] = 1.2,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Then serve two decoded weeks of reports until Ctrl-C."),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the decoder service; 0 picks a free one.")
    ] = DEFAULT_PORT,
) -> None:
    """Run a fleet of devices, a collector and the decoder on this machine, and show the result."""
    with listening(HOST, port) if serve else nullcontext():
        pass  # report an occupied port now, not after minutes of work
    console = Console(markup=False)
    rng, today = np.random.default_rng(seed), datetime.now(UTC).date()
    plan = plan_words(clients, (epsilon_infinity, epsilon_one), today, rng)
    randomness = system_randomness if seed is None else random.Random(seed).randbytes
    with _reserved(output):
        _run(plan, today, output, randomness, console)
        console.print(f"\nWhat a device spends (nats): {plan.cost}", soft_wrap=True)
        if serve:
            console.print("\nThe decoder service, on two weeks of reports at a separate collector:")
            show_service(output, today, rng, randomness, console, port)


@contextmanager
def _reserved(folder: Path) -> Iterator[None]:
    """Make a folder that no other demo uses meanwhile. Raises DemoError if one does."""
    make_folder(folder)
    lock = FileLock(str(folder / "demo.lock"))
    if not lock.try_acquire():
        raise DemoError(f"another demo is using {folder}; choose a folder with -o")
    try:
        yield
    finally:
        lock.release()


def _run(
    plan: DemoPlan, today: date, output: Path, randomness: Randomness, console: Console
) -> None:
    """Send a plan's reports to a new collector, close the day, and decode and print each metric."""
    if set(str(output)) & set("?#%"):
        raise DemoError(f"the folder {str(output)!r} has ?, # or % in its name; choose another")
    metrics_path = output / "metrics.toml"
    metrics_path.write_text(plan.toml, encoding="utf-8")
    database, num_reports = output / _DATABASE, len(plan.readings)
    with running_collector(collector_settings(database, metrics_path)) as url:
        console.print(f"collector: {url}, counters in {database}")
        reports = encode_fleet(plan.readings, plan.file.metrics, today, randomness)
        with Transport(url) as transport, progress_bar("reports", num_reports) as advance:
            delivery = send(reports, transport, randomness, advance)
        console.print(
            f"fleet: {plan.num_clients:,} devices sent {num_reports:,} reports in "
            f"{delivery.batches:,} batches; {delivery.accepted:,} accepted"
        )
        ask(url, f"/v1/days/{today}/close", method="POST")
        for question in plan.questions:
            _show_metric(question, url, output / question.metric.name, console)


def _show_metric(question: DemoMetric, url: str, folder: Path, console: Console) -> None:
    """Decode a metric into a folder, and print its table, warnings and page."""
    aggregate = fetch_aggregate(url, question.metric.name)
    candidates = (
        metric_candidates(aggregate)
        if question.candidates is None
        else Candidates.from_strings(question.candidates)
    )
    options = DecodeOptions(correction="bonferroni", true_shares=question.true_shares)
    decoding = decode(aggregate, candidates, options)
    write_outputs(decoding, folder)
    console.print(_table(question, decoding))
    for warning in decoding.warnings:
        console.print(f"  note: {warning}", soft_wrap=True)
    console.print(f"report: {folder / 'report.html'}", soft_wrap=True)


def _table(question: DemoMetric, decoding: Decoding) -> Table:
    """Return a table with the most frequent true values, and with falsely detected values."""
    name, truth = question.metric.name, question.true_shares
    detected = {row.value: row for row in decoding.detected}
    ranked = sorted(truth, key=lambda value: -truth[value])
    rows = ranked[:MAX_ROWS] + [value for value in detected if value not in truth]
    summary = decoding.summary
    title = (
        f"{name}: {summary.num_detected} found of {len(truth):,} values, "
        f"{summary.num_candidates:,} candidates, {summary.num_reports:,} reports; shares of about "
        f"{percent(summary.detectable_share)} and more are detectable"
    )
    lines = []
    for value in rows:
        row = detected.get(value)
        cells = [value, percent(truth.get(value, 0))]
        if row is None:
            cells += ["", "", "", "no"]
        else:
            cells += [percent(row.share), interval(row.low, row.high), p_text(row.p_adjusted)]
            cells += [row.found + ", wrongly" * (value not in truth)]
        lines.append(cells)
    ends = f"{DEFAULT_LEVEL:.0%} interval"
    headings = ("value", "true share", "share", ends, "corrected p", "found")
    return text_table(title, headings, lines)


def quickstart(
    file: shared.MetricsFile,
    devices: Annotated[int, typer.Option(min=100, max=10**6, help="Devices.")] = DEFAULT_DEVICES,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for files; created if missing.")
    ] = Path("quickstart"),
    seed: shared.Seed = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Accept reports of your app, too, until Ctrl-C.")
    ] = False,
) -> None:
    """See the metrics in FILE at work, with a collector, virtual devices and decoded tables.

    Devices have synthetic values with decreasing frequencies (proportional to 1, 1/2, 1/3, ...).
    The printed commands also work with real data.
    """
    metrics, today = load_metrics(file), datetime.now(UTC).date()
    for metric in metrics.declared:
        if metric.expires < today:
            raise DemoError(
                f"metric {metric.base_name!r} expired on {metric.expires}; set a later `expires`"
            )
    make_folder(output)
    settings = collector_settings(output / _DATABASE)
    fleet = [served_at_once(metric, devices, today) for metric in metrics.metrics.values()]
    with opened(settings.database, may_be_new=True) as collector:
        collector.push_metrics(fleet, COMMAND_LINE)
    rng, total = np.random.default_rng(seed), devices * len(metrics.metrics)
    with running_collector(settings) as url:
        with Transport(url) as transport, progress_bar("reports", total) as advance:
            reports = _reports(metrics, devices, today, rng)
            sent = send(reports, transport, rng.bytes, advance).accepted
        print(f"collector: {url}; {devices:,} devices sent {sent:,} reports of invented values")
        print("its floors (min_reports, min_reports_per_cohort) are lowered for so few devices")
        if serve:
            from rappor_cli.metrics import watch  # the import takes a while

            print(f"send reports of your app to {url}, without a key; Ctrl-C closes and decodes")
            with suppress(KeyboardInterrupt):
                watch(lambda: list(ask_json(url, "/v1/metrics", "metrics")["metrics"]))
        ask(url, f"/v1/days/{today}/close", method="POST")
        done = [_run_shown(words) for words in _commands(metrics, url, output)]
    print(f"\ncounters: {output / _DATABASE}; pages and tables in {output}")
    print("more devices show more: --devices 100000; how many you need: rappor plan NAME")
    if not any(done):
        raise DemoError("no metric could be decoded; the reasons are above")


def _reports(
    metrics: MetricsFile, devices: int, today: date, rng: np.random.Generator
) -> Iterator[Report]:
    by_day = defaultdict[date, dict[str, Metric]](dict)
    for name, metric in metrics.metrics.items():
        by_day[report_day(metric, today)][name] = metric
    for day, some in by_day.items():
        yield from encode_fleet(readings(some, devices, rng), some, day, rng.bytes)


def _commands(metrics: MetricsFile, url: str, output: Path) -> Iterator[Sequence[str]]:
    for metric in metrics.declared:
        name, command = metric.base_name, decoder_of(metric.kind).command
        words = ["--metric", name] if command == "decode" else [name]
        listed = [] if _lists_itself(metric) else ["--candidates", _candidates(metric, output)]
        yield [command, *words, "--collector", url, *listed, "-o", str(output / name)]


def _lists_itself(metric: Metric) -> bool:
    return not has_candidates(metric.kind) or bool(metric.rules.all_values(metric))


def _candidates(metric: Metric, output: Path) -> str:
    values = list(map(str, held_values(metric)))
    path = output / f"{metric.base_name}-candidates.txt"
    write_whole(path, "\n".join([*values, *(f"nobody-{value}" for value in values)]) + "\n")
    return str(path)


def _run_shown(words: Sequence[str]) -> bool:
    """Print a command and run it. Print its error, if any, so that other metrics can follow."""
    print(f"\n$ rappor {shlex.join(words)}")
    try:
        load(words[0])(args=list(words[1:]), standalone_mode=False)
    except RapporError as error:
        print(f"rappor {words[0]}: {error}")
        return False
    return True
