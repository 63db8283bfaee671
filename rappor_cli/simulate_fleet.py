"""`rappor simulate fleet`: draw the counts of a very large fleet over weeks, and decode them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from secrets import randbits
from time import perf_counter
from typing import Annotated

import typer
from rich.table import Table

from decoder import Candidates, DecodeOptions
from decoder.candidates.lists import metric_candidates
from decoder.files import probe_folder
from decoder.typing import Floats
from metric_design.population import read_shares, zipf_shares
from rappor_cli import options as shared
from rappor_cli.days import read_day
from rappor_cli.progress import progress_bar
from rappor_cli.task_pools import Workers, pool_of
from rappor_cli.text import wide_console
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.loading import load_metrics
from rappor_core.params import RapporParams
from simulations.fleets.draws import Fleet, FleetError, draw_cohorts
from simulations.fleets.table import Drawn, FleetMetric, Row, decode_rows, draw_fleet

MONDAY = date(2026, 11, 2)  # of the files' first week, unless told
HEADINGS = ("weeks", "reports", "devices", "repeats", "held", "found", "false", "smallest found",
            "detectable (plan)", "CPU s")  # fmt: skip


@dataclass(frozen=True)
class Listed:
    """The candidate list of the simulation; its first V values are held, with these shares,
    (V,)."""

    candidates: Candidates
    shares: Floats


def fleet(
    devices: Annotated[int, typer.Option(min=1, help="Devices in each week.")] = 100_000_000,
    weeks: Annotated[int, typer.Option(min=1, max=104, help="Weeks, each with reports.")] = 12,
    turnover: Annotated[
        float, typer.Option(min=0, max=1, help="Share of devices that a week replaces.")
    ] = 0.02,
    reports: Annotated[int, typer.Option(min=1, help="Reports of a device in a week.")] = 1,
    values: Annotated[int, typer.Option(min=1, help="Values that are held.")] = 200,
    zipf: Annotated[float, typer.Option(help="Exponent of their shares.")] = 1.0,
    shares: Annotated[
        Path | None, typer.Option(help="Shares instead, largest first.", exists=True)
    ] = None,
    absent: Annotated[int, typer.Option(min=0, help="Listed values that nobody holds.")] = 200,
    metrics: Annotated[Path | None, typer.Option(help="metrics.toml of --metric.")] = None,
    metric: Annotated[str | None, typer.Option(help="Its metric; else strings, k=128.")] = None,
    correction: shared.Correction = shared.CorrectionName.BONFERRONI,
    alpha: shared.Alpha = 0.05,
    workers: Workers = None,
    first: Annotated[str | None, typer.Option("--from", help="Monday of the first week.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder: an aggregate file a week.")
    ] = None,
    seed: shared.Seed = None,
    as_json: shared.Json = False,
) -> None:
    """Draw weeks of a fleet of any size, exactly in law, and decode 1, 2, 4, ... weeks of it."""
    seed = randbits(63) if seed is None else seed
    start = _monday(first)
    options = DecodeOptions(correction=correction.value, alpha=alpha)
    declared = _declared(metrics, metric)
    listed, params = _listed(declared, shares, zipf, values, absent), declared.params
    positions = listed.candidates.positions(params)[: len(listed.shares)]
    wanted = Fleet(params, listed.shares, positions, devices, weeks, turnover, reports)
    if output:
        probe_folder(output)
    run = pool_of(draw_cohorts, workers, ["simulations.fleets.draws"]).run
    began = perf_counter()
    with progress_bar("cohorts", params.num_cohorts) as advance:
        drawn = draw_fleet(wanted, seed, run, max(1, params.num_cohorts // 16), advance)
    seconds = perf_counter() - began
    if output:
        _write(drawn, declared, start, output)
    rows = list(decode_rows(drawn, listed.candidates, declared, options, start))
    if as_json:
        print(json.dumps({"seed": seed, "draw_seconds": seconds, "rows": [*map(asdict, rows)]}))
        return
    _print(rows, f"{devices:,} devices, {weeks} weeks, seed {seed}; drawn in {seconds:.1f} s")
    if output:
        typer.echo(f"{output}: {weeks} aggregate files", err=True)


def _monday(first: str | None) -> date:
    start = read_day(first) or MONDAY
    if start.weekday():
        before = start - timedelta(days=start.weekday())
        raise typer.BadParameter(
            f"{start} is not a Monday, as weeks are; the one before is {before}",
            param_hint="--from",
        )
    return start


def _listed(
    declared: FleetMetric, file: Path | None, zipf: float, num_values: int, absent: int
) -> Listed:
    """Strings that are made up, or the values that the metric has by its definition."""
    if declared.params.scheme.hashed:
        shares = read_shares(file) if file else zipf_shares(zipf, num_values)
        names = [f"value-{number:06}" for number in range(len(shares) + absent)]
        return Listed(Candidates.from_strings(names), shares / shares.sum())
    own = metric_candidates(_empty(declared))
    shares = read_shares(file)[: len(own)] if file else zipf_shares(zipf, len(own))
    return Listed(own, shares / shares.sum())


def _empty(declared: FleetMetric) -> Aggregate:
    params, metric = declared.params, declared.metric
    row = (0,) * params.num_bits
    return Aggregate(
        metric="simulated" if metric is None else metric.name,
        params=params,
        reports_per_cohort=(0,) * params.num_cohorts,
        bit_counts=(row,) * params.num_cohorts,
        definition={} if metric is None else metric.to_dict(),
    )


def _declared(file: Path | None, name: str | None) -> FleetMetric:
    """The metric of a file, or strings in 128 bits and 64 cohorts at epsilons 4.4 and 1.1."""
    if (file is None) != (name is None):
        raise typer.BadParameter("--metrics and --metric go together")
    if file is None or name is None:
        return FleetMetric(
            RapporParams.rappor(
                num_bits=128, num_hashes=2, num_cohorts=64, prob_f=0.5, prob_p=0.5, prob_q=0.75
            )
        )
    known = load_metrics(file).metrics
    if name not in known:
        raise FleetError(f"{file}: no metric {name!a}; it has {', '.join(known)}")
    return FleetMetric(known[name].params, known[name])


def _write(drawn: Drawn, declared: FleetMetric, start: date, folder: Path) -> None:
    for week in range(drawn.fleet.periods):
        text = drawn.aggregate(week, week + 1, declared, start).to_json()
        day = start + timedelta(weeks=week)
        (folder / f"{day}.json").write_text(text, encoding="utf-8")


def _print(rows: list[Row], title: str) -> None:
    table = Table(title=title)
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            str(row.periods), f"{row.reports:,}", f"{row.devices:,}", f"{row.repeats:.2f}",
            f"{row.held:,}", f"{row.found:,}", f"{row.false_found:,}", _share(row.smallest),
            _share(row.detectable_share), f"{row.seconds:.2f}",
        )  # fmt: skip
    wide_console().print(table)


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.3g} %"
