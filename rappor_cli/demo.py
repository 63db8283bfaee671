"""`rappor demo`: the whole life of a report on this machine."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from client_sdk import Transport
from client_sdk.randomization.key_derivation import Randomness, system_randomness
from collector.server import running_collector
from decoder import Candidates, DecodeOptions, Decoding, decode, write_outputs
from decoder.candidates.lists import metric_candidates
from decoder.files import make_folder
from decoder.output.number_text import p_text
from decoder.results.warnings import percent
from decoder.sources.collector_client import ask, fetch_aggregate
from rappor_cli.demo_collector import demo_settings, filled_collector
from rappor_cli.demo_service import (
    check_port,
    prepared_service,
    serve_until_interrupted,
)
from rappor_cli.progress import progress_bar
from rappor_cli.text import plain
from rappor_core.errors import RapporError
from simulations.experiments.demo import DemoMetric, DemoPlan, plan_values, plan_words
from simulations.populations.fleet import FleetDelivery, deliver, encode_fleet

DEFAULT_CLIENTS = 100_000  # the first table within 20 s of processor
DEFAULT_OUTPUT = Path("demo-output")
DEFAULT_PORT = 8100  # of the decoder service
ROWS_SHOWN = 24


class DemoError(RapporError):
    """The demonstration cannot be carried out."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A metric that the demo decoded, and the path of its report."""

    question: DemoMetric
    decoding: Decoding
    report: Path


def demo(
    clients: Annotated[
        int | None,
        typer.Option(min=1, help=f"Devices in the fleet, {DEFAULT_CLIENTS:,} if not given."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Repeat a run exactly. Never for real devices.")
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the reports; made if missing.")
    ] = DEFAULT_OUTPUT,
    input_: Annotated[
        Path | None, typer.Option("--input", help="CSV file of true values, gzip or not.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column of --input with the values.")] = None,
    client_column: Annotated[
        str | None, typer.Option(help="Column of --input that names the client of a row.")
    ] = None,
    epsilon_infinity: Annotated[
        float, typer.Option(help="Nats for a memoised value, for life.")
    ] = 4.0,
    epsilon_one: Annotated[float, typer.Option(help="Nats for one report.")] = 2.0,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve", help="Then run the decoder service on two weeks of reports, until Ctrl-C."
        ),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the decoder service; 0 takes a free one.")
    ] = DEFAULT_PORT,
) -> None:
    """Run a fleet of devices, a collector and the decoder on this machine, and show the result."""
    if (input_ is None) != (column is None):
        raise typer.BadParameter("--input and --column go together", param_hint="--input")
    if input_ is None and client_column is not None:
        raise typer.BadParameter("it goes with --input", param_hint="--client-column")
    if input_ is not None and serve:
        raise typer.BadParameter("the service shows the words, not --input", param_hint="--serve")
    if input_ is not None and clients is not None:
        raise typer.BadParameter("with --input the file says how many", param_hint="--clients")
    if serve:
        check_port(port)  # before the minutes that all the rest takes
    console = Console(markup=False)
    rng, today = np.random.default_rng(seed), datetime.now(UTC).date()
    epsilons = (epsilon_infinity, epsilon_one)
    if input_ is not None and column is not None:
        plan = plan_values(input_, column, client_column, epsilons, today, rng)
    else:
        plan = plan_words(clients or DEFAULT_CLIENTS, epsilons, today, rng)
    randomness = system_randomness if seed is None else random.Random(seed).randbytes
    shown = run_demo(plan, today, output, randomness, console)
    console.print(f"\nWhat a device spends (nats): {plan.cost}", soft_wrap=True)
    for item in shown:
        console.print(f"report: {item.report}", soft_wrap=True)
    if serve:
        _serve(output, today, rng, randomness, console, port)


def _serve(
    output: Path,
    today: date,
    rng: np.random.Generator,
    randomness: Randomness,
    console: Console,
    port: int,
) -> None:
    """Serve two weeks of reports at a collector, and a decoder service that has decoded them."""

    def say(text: str) -> None:
        console.print(text, soft_wrap=True)

    console.print("\nThe decoder service, on two weeks of reports at a collector of its own:")
    with (
        filled_collector(output, today, rng, randomness, say) as collector,
        prepared_service(output, today, rng, collector, say, port=port) as prepared,
    ):
        serve_until_interrupted(prepared, say)


def run_demo(
    plan: DemoPlan,
    today: date,
    output: Path,
    randomness: Randomness,
    console: Console,
) -> list[Shown]:
    """Collector up, fleet through HTTP, day closed, aggregates fetched, each decoded and printed;
    collector down."""
    if set(str(output)) & set("?#%"):
        raise DemoError(f"the folder {str(output)!r} has ?, # or % in its name; choose another")
    make_folder(output)
    metrics_path = output / "metrics.toml"
    metrics_path.write_text(plan.toml, encoding="utf-8")
    database = output / "collector.sqlite"
    with running_collector(demo_settings(metrics_path, database)) as url:
        console.print(f"collector: {url}, counters in {database}")
        delivery = _send(plan, today, url, randomness)
        console.print(
            f"fleet: {plan.num_clients:,} devices sent {len(plan.readings):,} reports in "
            f"{delivery.batches:,} batches; {delivery.accepted:,} accepted"
        )
        ask(url, f"/v1/days/{today}/close", method="POST")
        return [_show(_decode(question, url, output), console) for question in plan.questions]


def _send(plan: DemoPlan, today: date, url: str, randomness: Randomness) -> FleetDelivery:
    reports = encode_fleet(plan.readings, plan.file.metrics, today, randomness)
    with (
        Transport(url) as transport,
        progress_bar("reports", len(plan.readings)) as advance,
    ):
        delivery = deliver(reports, transport, randomness=randomness, progress=advance)
    if delivery.refused:
        raise DemoError(f"the collector refused reports: {dict(delivery.refused)}")
    return delivery


def _decode(question: DemoMetric, url: str, output: Path) -> Shown:
    aggregate = fetch_aggregate(url, question.metric.name)
    candidates = (
        metric_candidates(aggregate)
        if question.candidates is None
        else Candidates.from_strings(question.candidates)
    )
    options = DecodeOptions(
        correction="bonferroni", repeats=question.repeats, true_shares=question.true_shares
    )
    decoding = decode(aggregate, candidates, options)
    folder = output / question.metric.name
    write_outputs(decoding, folder)
    return Shown(question, decoding, folder / "report.html")


def _show(item: Shown, console: Console) -> Shown:
    console.print(_table(item))
    for warning in item.decoding.warnings:
        console.print(f"  note: {warning}", soft_wrap=True)
    return item


def _table(item: Shown) -> Table:
    """The most frequent true values, and whatever was found that nobody holds."""
    name, truth = item.question.metric.name, item.question.true_shares
    found = {row.value: row for row in item.decoding.detected}
    ranked = sorted(truth, key=lambda value: -truth[value])
    rows = ranked[:ROWS_SHOWN] + [value for value in found if value not in truth]
    summary = item.decoding.summary
    table = Table(
        title=f"{name}: {summary.num_detected} found of {len(truth):,} held, "
        f"{summary.num_candidates:,} candidates, {summary.num_reports:,} reports; shares of about "
        f"{percent(summary.detectable_share)} and more are detectable",
        title_justify="left",
    )
    for heading in ("value", "true %", "estimate %", "95 % interval", "corrected p", "found"):
        table.add_column(heading, justify="left" if heading == "value" else "right")
    for value in rows:
        row = found.get(value)
        cells = [value, f"{100 * truth.get(value, 0):.2f}"]
        if row is None:
            cells += ["", "", "", "no"]
        else:
            interval = f"{100 * row.low:.2f} to {100 * row.high:.2f}"
            cells += [f"{100 * row.share:.2f}", interval, p_text(row.p_adjusted)]
            cells += ["yes" if value in truth else "yes, wrongly"]
        table.add_row(*map(plain, cells))
    return table
