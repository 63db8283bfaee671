"""The register of `rappor simulate`: each experiment with its settings and columns.

A function here declares one: it takes the settings as options and returns what is measured, and
how it is shown. The experiments themselves are in `simulations`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from decoder.formats.known_flows import read_known_flows
from decoder.options import DecodeOptions
from rappor_cli import options as shared
from rappor_cli.calibration import decoder_calibration
from rappor_cli.experiment_files import Advance, Declared, ExperimentOutcome, known_names, seed_of
from rappor_cli.numbers import read_day
from rappor_cli.text import print_note
from rappor_core.errors import ParameterError
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.flow_kind import FLOW
from rappor_core.metrics.metric import Metric
from simulations.experiments import homepages as home
from simulations.experiments import longitudinal as over_time
from simulations.experiments import paper
from simulations.experiments import poisoning as forging
from simulations.experiments import processes as machines
from simulations.fleets.draws import Fleet
from simulations.fleets.table import declared_metric, decode_rows, draw_fleet, listed_values
from simulations.flows.city import city_matrix, city_metric
from simulations.flows.coverage import FLOW_WORLDS, FlowWorld, in_world
from simulations.flows.coverage import flow_coverage as cover_flows
from simulations.location.coverage import GROUPS, has_map, map_coverage

MONDAY = date(2026, 11, 2)  # of the first week of a fleet, unless told
Rng = np.random.Generator
Columns = Sequence[tuple[str, str, str]]
Runs = Annotated[int, typer.Option(min=2, help="Draws of each setting.")]


@dataclass(frozen=True)
class RegisteredExperiment:
    """An experiment of the register. small: settings of `--small` and of `make simulate`."""

    declare: Callable[..., Declared]
    small: Mapping[str, Any] = field(default_factory=dict)


PAPER_COLUMNS: Columns = (
    ("experiment", "name", "s"), ("reports", "reports", ",d"), ("held", "values_held", "d"),
    ("found", "found_true", "d"), ("false", "found_false", "d"), ("missed", "found_missed", "d"),
    ("coverage", "interval_coverage", ".4g"), ("detectable share", "detectable_share", ".4g"),
    ("above 2 errors, held", "above_two_errors_true", "d"),
    ("false ", "above_two_errors_false", "d"), ("epsilon_one", "epsilon_one", ".4g"),
)  # fmt: skip
PROCESSES_COLUMNS: Columns = (
    ("machines report", "way", "s"), ("rho", "rho", ".2f"),
    ("reports are taken as", "handling", "s"), ("rho used", "used", ".2f"),
    ("stated error", "stated", ".3%"), ("real", "real", ".3%"), ("+-", "real_error", ".3%"),
    ("covered", "coverage", ".1%"), ("found of 10", "found", ".1f"),
    ("marked, found", "marked", ".0%"), ("estimate", "estimate", ".2%"),
    ("false", "false", ".2f"),
)  # fmt: skip
HOMEPAGES_COLUMNS: Columns = (
    ("distribution", "distribution", "s"), ("reports each", "reports_each", "d"),
    ("rule", "rule", "s"), ("held", "held", "d"), ("found", "found", ".1f"),
    ("expected", "expected", ".1f"), ("false", "false", ".1f"),
    ("smallest found, users", "smallest", ",.0f"), ("one error, users", "one_error", ",.0f"),
    ("half power, users", "half_power", ",.0f"),
)  # fmt: skip
LONGITUDINAL_COLUMNS: Columns = (
    ("mode", "mode", "s"), ("periods", "periods", "d"), ("reports", "reports", "d"),
    ("declared, nats", "declared", ".2f"), ("proven", "bound", ".2f"),
    ("advantage", "advantage", ".3f"), ("at most", "most_advantage", ".3f"),
    ("belief: median", "posterior_median", ".1%"), ("1 in 100", "posterior_99", ".1%"),
    ("largest", "posterior_largest", ".1%"), ("at most ", "posterior_bound", ".1%"),
    ("change, AUC", "change_auc", ".2f"),
)  # fmt: skip
POISONING_COLUMNS: Columns = (
    ("way to forge", "way", "s"), ("forged", "fraction", ".1%"), ("estimate", "shift", ".2%"),
    ("+-", "error", ".2%"), ("a report", "lever", ".2f"), ("found", "found", ".0%"),
    ("lower bound", "explained", ".2%"), ("bound holds", "kept", ".0%"),
    ("held, found", "true_found", ".1f"), ("warned", "warned", ".0%"),
    ("of", "warned_of", "s"), ("refused", "refused", ".0%"),
)  # fmt: skip
FLEET_COLUMNS: Columns = (
    ("weeks", "periods", "d"), ("reports", "reports", ",d"), ("devices", "devices", ",d"),
    ("repeats", "repeats", ".2f"), ("held", "held", ",d"), ("found", "found", ",d"),
    ("false", "false_found", ",d"), ("smallest found", "smallest", ".3%"),
)  # fmt: skip
FLOW_COLUMNS: Columns = tuple(
    (heading, "", "s" if heading in ("world", "intervals of") else "")
    for heading in ("world", "nats", "devices", "detected (wrong)", "off", "tau",
                    "intervals of", "a draw", "hold", "±", "worst draw")
)  # fmt: skip
COVERAGE_COLUMNS: Columns = tuple(
    (heading, "", "s" if heading == "metric" else "")
    for heading in ("metric", "devices", "all", "found", "n", "by map", "top 5", "top 10")
)


def normal(
    reports: Annotated[
        list[int], typer.Option(min=1, help="Number of reports; may be given several times.")
    ] = list(paper.NORMAL_REPORTS),  # noqa: B006 - typer copies it
    correction: shared.Correction = shared.CorrectionName.BONFERRONI,
    alpha: shared.Alpha = 0.05,
) -> Declared:
    """Basic one-time RAPPOR on a normal variable (mean 50, sd 10), p = .5, q = .75."""
    options = DecodeOptions(correction=correction.value, alpha=alpha)
    return Declared(("collections", len(reports)), partial(_paper, [
        partial(paper.normal, number, options=options) for number in reports
    ]))  # fmt: skip


def exponential(
    reports: Annotated[
        int, typer.Option(min=1, help="Number of reports.")
    ] = paper.EXPONENTIAL_REPORTS,
    method: shared.Method = shared.MethodName.CAVITY,
    correction: shared.Correction = shared.CorrectionName.BONFERRONI,
    alpha: shared.Alpha = 0.05,
) -> Declared:
    """100 exponentially falling shares among 200 candidates: k=128, h=2, m=16, f=p=.5, q=.75."""
    options = DecodeOptions(method=method.value, correction=correction.value, alpha=alpha)
    run = partial(paper.exponential, reports, options=options)
    return Declared(("collections", 1), partial(_paper, [run]))


def _paper(
    runs: Sequence[Callable[..., paper.Experiment]], rng: Rng, advance: Advance
) -> ExperimentOutcome:
    found = []
    for run in runs:
        found.append(run(rng=rng))
        advance(1)
    rows = [one.row() for one in found]
    return ExperimentOutcome(rows, PAPER_COLUMNS)


def processes(
    runs: Runs = 25,
    devices: Annotated[
        int, typer.Option(min=100, help="Machines, of more than 18 reports each.")
    ] = machines.DEVICES,
) -> Declared:
    """Ten processes among the reports of machines that report often; the variance it really has."""

    def measure(rng: Rng, advance: Advance) -> ExperimentOutcome:
        found = machines.processes(runs, devices, rng, advance=advance)
        return ExperimentOutcome(list(map(asdict, found.rows)), PROCESSES_COLUMNS)

    return Declared(("collections", runs * len(machines.WAYS)), measure)


def homepages(
    reports: Annotated[
        int, typer.Option(min=100_000, help="Devices, one report each where nothing else is said.")
    ] = home.REPORTS,
    runs: Annotated[int, typer.Option(min=1, help="Draws of each distribution.")] = 5,
    repeated: Annotated[
        int, typer.Option(min=2, help="Reports of each device where devices repeat.")
    ] = 30,
) -> Declared:
    """Which home pages honest rules name, beside the 31 of the paper: 8,616 candidates."""

    def measure(rng: Rng, advance: Advance) -> ExperimentOutcome:
        found = home.homepages(runs, reports, rng, repeated, advance)
        distance = home.PAPER_SMALLEST / home.first_order_error(reports, 1)
        note = f"{home.PAPER_SMALLEST:,} users: {distance:.2f} first-order standard errors."
        return ExperimentOutcome(list(map(asdict, found.rows)), HOMEPAGES_COLUMNS, notes=[note])

    return Declared(("draws", runs * (len(home.DISTRIBUTIONS) + 1)), measure)


def longitudinal(
    devices: Annotated[
        int, typer.Option(min=1_000, help="Attacked, for each mode and number of periods.")
    ] = 400_000,
) -> Declared:
    """What an adversary with all reports of a device learns over a year of days, by mode."""

    def measure(rng: Rng, advance: Advance) -> ExperimentOutcome:
        rows = over_time.longitudinal(devices, rng, over_time.PERIODS, advance)
        return ExperimentOutcome(list(map(asdict, rows)), LONGITUDINAL_COLUMNS)

    return Declared(("attacks", len(over_time.modes()) * len(over_time.PERIODS)), measure)


def poisoning(
    reports: Annotated[
        int, typer.Option(min=100_000, help="Of each draw, forged ones among them.")
    ] = forging.REPORTS,
    runs: Runs = 10,
) -> Declared:
    """How far forged reports move an estimate, and whether bound, warnings and checks see them."""

    def measure(rng: Rng, advance: Advance) -> ExperimentOutcome:
        rows = forging.poisoning(runs, reports, rng, forging.FRACTIONS, advance)
        named = [", ".join(w for w, part in row.warnings.items() if part >= 0.5) for row in rows]
        told = [asdict(row) | {"warned_of": of} for row, of in zip(rows, named, strict=True)]
        return ExperimentOutcome(told, POISONING_COLUMNS)

    return Declared(("ways and parts", 1 + len(forging.WAYS) * len(forging.FRACTIONS)), measure)


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
    first: Annotated[str | None, typer.Option("--from", help="Monday of the first week.")] = None,
) -> Declared:
    """Draw weeks of a fleet of any size, exactly in law, and decode 1, 2, 4, ... weeks of it.

    The counts of each week are written as an aggregate file.
    """
    start = _monday(first)
    if (metrics is None) != (metric is None):
        raise typer.BadParameter("--metrics and --metric go together")
    declared = declared_metric(metrics, metric)
    options = DecodeOptions(correction=correction.value, alpha=alpha)

    def measure(rng: Rng, advance: Advance) -> ExperimentOutcome:
        candidates, held = listed_values(declared, shares, zipf, values, absent)
        positions = candidates.positions(declared.params)[: len(held)]
        wanted = Fleet(declared.params, held, positions, devices, weeks, turnover, reports)
        drawn = draw_fleet(wanted, seed_of(rng), advance)
        rows = list(map(asdict, decode_rows(drawn, candidates, declared, options, start)))
        return ExperimentOutcome(rows, FLEET_COLUMNS, files=drawn.week_files(declared, start))

    return Declared(("cohorts", declared.params.num_cohorts), measure)


def _monday(first: str | None) -> date:
    start = read_day(first) or MONDAY
    if start.weekday():
        before = start - timedelta(days=start.weekday())
        raise typer.BadParameter(
            f"{start} is not a Monday, as weeks are; the one before is {before}",
            param_hint="--from",
        )
    return start


def location_coverage(
    metrics: shared.MetricsFile,
    metric: Annotated[
        list[str] | None, typer.Option(help="Only these metrics; may be repeated.")
    ] = None,
    devices: Annotated[
        list[int], typer.Option(min=1_000, help="Sizes of crowds; may be repeated.")
    ] = [20_000, 100_000, 1_000_000],  # noqa: B006 - typer copies it
    maps: Annotated[int, typer.Option(min=1, help="Maps of each metric and size.")] = 20,
) -> Declared:
    """How often intervals of single cells hold the truth, on drawn maps of a file's metrics."""
    declared = [one for one in load_metrics(metrics).declared if has_map(one)]
    chosen = [one for one in declared if not metric or one.base_name in metric]
    if not chosen:
        raise ParameterError(f"{metrics} has no metric of kind 'location' with a map so named")

    def measure(rng: Rng, advance: Advance) -> ExperimentOutcome:
        rows = []
        for one, size in product(chosen, devices):
            found = asdict(map_coverage(one, size, maps, rng, advance))
            rows.append({"metric": one.base_name, "devices": size} | found.pop("parts") | found)
        note = "by map: mean over the maps, those that find no cell counted as 1"
        return ExperimentOutcome(rows, COVERAGE_COLUMNS, list(map(_coverage_line, rows)), [note])

    return Declared(("maps", len(chosen) * len(devices) * maps), measure)


def _coverage_line(row: Mapping[str, Any]) -> list[str]:
    every, found, five, ten = (_part(row, name) for name in GROUPS)
    numbers = str(row["num_found"]), f"{row['found_by_map']:.3f}"
    return [row["metric"], f"{row['devices']:,}", every, found, *numbers, five, ten]


def _part(row: Mapping[str, Any], name: str) -> str:
    """Coverage of a group of cells, its Monte-Carlo error, and that of the worst map."""
    part, error, worst = (row[name + what] for what in ("", "_error", "_worst"))
    text = "-" if part is None else f"{part:.3f}"
    text += f" ± {error:.3f}" if error is not None else ""
    return text + (f" ({worst:.2f})" if worst is not None else "")


def flow_coverage(
    epsilon: Annotated[
        list[float] | None,
        typer.Option(min=0.5, max=6, help="Nats of a device, for life; may repeat."),
    ] = None,
    devices: Annotated[
        list[int], typer.Option(min=1_000, help="Number of devices; may repeat.")
    ] = [100_000],  # noqa: B006
    world: Annotated[
        list[str] | None, typer.Option(help=f"Of {', '.join(FLOW_WORLDS)}; may be repeated.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws of each setting.")] = 10,
    cohorts: Annotated[
        int | None, typer.Option(min=10, help="Of the made-up city, a multiple of 10.")
    ] = None,
    side: Annotated[
        int, typer.Option(min=2, max=7, help="Zones along a side, two cells each.")
    ] = 5,
    metrics: Annotated[
        Path | None,
        typer.Option(help="metrics.toml with your metric of kind flow, in place of the city's."),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Which one of that file.")] = None,
    flows: Annotated[
        Path | None,
        typer.Option(help="CSV of the true matrix: origin,destination,count by names of cells."),
    ] = None,
) -> Declared:
    """How often intervals of flows, zones, cells and bands hold, on drawn counts."""
    known_names(world, FLOW_WORLDS, "--world")
    if metrics and (epsilon or cohorts):
        raise typer.BadParameter("--epsilon and --cohorts are of the city; yours has its own")
    settings = list(product(epsilon or [2.0], devices, world or ["as is"]))
    more = {} if cohorts is None else {"num_cohorts": cohorts}

    def measure(rng: Rng, advance: Advance) -> ExperimentOutcome:
        rows = []
        for nats, number, one in settings:
            if metrics:
                chosen = _flow_metric(metrics, metric)
            else:
                chosen = city_metric(nats, number, rows=side, columns=side, **more)
            if flows is None:
                matrix = city_matrix(chosen.details, rng)
            else:
                known = read_known_flows(flows, chosen.details, print_note)
                matrix = np.asarray(known / known.sum())
            matrix = in_world(matrix, chosen.details, _world(one), rng)
            found = cover_flows(chosen, matrix, number, draws, rng, advance)
            nats = chosen.params.epsilon_one
            rows.append({"world": one, "epsilon": nats, "devices": number} | asdict(found))
        return ExperimentOutcome(
            rows, FLOW_COLUMNS, [line for row in rows for line in _flow_lines(row)]
        )

    return Declared(("draws", len(settings) * draws), measure)


def _world(name: str) -> FlowWorld:
    return next(one for one in FLOW_WORLDS if one == name)


def _flow_metric(path: Path, name: str | None) -> Metric:
    """The metric of flows of a file. Raises ParameterError where there is none, or several."""
    found = [one for one in load_metrics(path).declared if one.kind == FLOW.name]
    found = [one for one in found if name in (None, one.name)]
    if len(found) != 1:
        raise ParameterError(
            f"{path} has {len(found)} metrics of kind {FLOW.name!r}"
            + (f" named {name!r}" if name else ": name one with --metric")
        )
    return found[0]


def _flow_lines(row: Mapping[str, Any]) -> list[list[str]]:
    """A line for each quantity; what is of the setting appears in the first."""
    setting = [row["world"], f"{row['epsilon']:.3g}", f"{row['devices']:,}",
               f"{row['detected'] / row['draws']:.1f} ({row['wrong']})", f"{row['error']:.3f}",
               f"{row['tau']:.2g}"]  # fmt: skip
    lines = []
    for name, one in row["held"].items():
        numbers = ["-"] * 4
        if one is not None:
            numbers = [f"{one[3]:.0f}", f"{one[0]:.3f}", f"{one[1]:.3f}", f"{one[2]:.2f}"]
        lines.append([*setting, name, *numbers])
        setting = [""] * len(setting)
    return lines


EXPERIMENTS = {
    "normal": RegisteredExperiment(normal),
    "exponential": RegisteredExperiment(exponential),
    "processes": RegisteredExperiment(processes, {"runs": 3}),
    "homepages": RegisteredExperiment(homepages, {"runs": 1}),
    "longitudinal": RegisteredExperiment(longitudinal, {"devices": 20_000}),
    "poisoning": RegisteredExperiment(poisoning, {"runs": 2}),
    "fleet": RegisteredExperiment(fleet, {"devices": 1_000_000, "weeks": 4}),
    "decoder-calibration": RegisteredExperiment(decoder_calibration, {"runs": 1, "medium_runs": 0}),
    "location-coverage": RegisteredExperiment(location_coverage, {"devices": [20_000], "maps": 2}),
    "flow-coverage": RegisteredExperiment(
        flow_coverage,
        {"devices": [20_000], "world": ["as is", "shuffled"], "draws": 1, "side": 2},
    ),
}
