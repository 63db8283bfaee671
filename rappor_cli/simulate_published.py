"""`rappor simulate processes | homepages | parameters | longitudinal | poisoning`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rappor_cli import options as shared
from rappor_cli.experiment_files import ExperimentOptions, ExperimentRun, run_experiment
from rappor_core.risk import PRIOR
from simulations.experiments import homepages as home
from simulations.experiments import longitudinal as over_time
from simulations.experiments import parameters as grid
from simulations.experiments import poisoning as forging
from simulations.experiments import processes as machines

Small = Annotated[bool, typer.Option(help="A quick look, with few runs; figures are rough.")]
DEFAULT_OUTPUT = Path("simulation-output")


PROCESSES_COLUMNS = [
    ("machines report", "way", "s"), ("rho", "rho", ".2f"),
    ("reports are taken as", "handling", "s"), ("rho used", "used", ".2f"),
    ("stated error", "stated", ".3%"), ("real", "real", ".3%"), ("+-", "real_error", ".3%"),
    ("covered", "coverage", ".1%"), ("found of 10", "found", ".1f"),
    ("marked, found", "marked", ".0%"), ("estimate", "estimate", ".2%"),
    ("false", "false", ".2f"),
]  # fmt: skip
HOMEPAGES_COLUMNS = [
    ("distribution", "distribution", "s"), ("reports each", "reports_each", "d"),
    ("rule", "rule", "s"), ("held", "held", "d"), ("found", "found", ".1f"),
    ("expected", "expected", ".1f"), ("false", "false", ".1f"),
    ("smallest found, users", "smallest", ",.0f"), ("one error, users", "one_error", ",.0f"),
    ("half power, users", "half_power", ",.0f"),
]  # fmt: skip
PARAMETERS_COLUMNS = [
    ("parameter", "parameter", "s"), ("value", "value", "g"),
    ("eps for life", "epsilon_infinity", ".2f"), ("of a report", "epsilon_one", ".2f"),
    ("found of 100", "found", ".1f"), ("+-", "error", ".1f"), ("predicted", "predicted", ".1f"),
    ("false: Bonferroni", "false_bonferroni", ".2f"), ("FDR 5 %", "false_bh", ".2f"),
    ("two errors", "false_two_errors", ".2f"),
]  # fmt: skip
LONGITUDINAL_COLUMNS = [
    ("mode", "mode", "s"), ("periods", "periods", "d"), ("reports", "reports", "d"),
    ("declared, nats", "declared", ".2f"), ("proven", "bound", ".2f"),
    ("advantage", "advantage", ".3f"), ("at most", "most_advantage", ".3f"),
    ("belief: median", "posterior_median", ".1%"), ("1 in 100", "posterior_99", ".1%"),
    ("largest", "posterior_largest", ".1%"), ("at most ", "posterior_bound", ".1%"),
    ("change, AUC", "change_auc", ".2f"),
]  # fmt: skip
POISONING_COLUMNS = [
    ("way to forge", "way", "s"), ("forged", "fraction", ".1%"), ("estimate", "shift", ".2%"),
    ("+-", "error", ".2%"), ("a report", "lever", ".2f"), ("found", "found", ".0%"),
    ("lower bound", "explained", ".2%"), ("bound holds", "kept", ".0%"),
    ("held, found", "true_found", ".1f"), ("warned", "warned", ".0%"),
    ("of", "warned_of", "s"), ("refused", "refused", ".0%"),
]  # fmt: skip


def processes(
    runs: Annotated[int, typer.Option(min=2, help="Collections of each way to repeat.")] = 25,
    devices: Annotated[
        int, typer.Option(min=100, help="Machines, of more than 18 reports each.")
    ] = machines.DEVICES,
    small: Small = False,
    seed: shared.Seed = None,
    output: shared.ExperimentFolder = DEFAULT_OUTPUT,
    as_json: shared.Json = False,
) -> None:
    """Ten processes among the reports of machines that report often; the variance it really has."""
    runs = 3 if small else runs
    run_experiment(
        ExperimentOptions(seed, output, as_json),
        ("collections", runs * len(machines.WAYS)),
        lambda rng, advance: machines.processes(runs, devices, rng, advance=advance),
        lambda found: ExperimentRun(
            "processes", f"processes, {runs} collections of each way",
            {"runs": runs, "devices": devices, "correction": "bh"}, PROCESSES_COLUMNS,
            [asdict(row) for row in found.rows],
        ),
    )  # fmt: skip


def homepages(
    reports: Annotated[
        int, typer.Option(min=100_000, help="Devices, one report each where nothing else is said.")
    ] = home.REPORTS,
    runs: Annotated[int, typer.Option(min=1, help="Draws of each distribution.")] = 5,
    repeated: Annotated[
        int, typer.Option(min=2, help="Reports of each device where devices repeat.")
    ] = 30,
    small: Small = False,
    seed: shared.Seed = None,
    output: shared.ExperimentFolder = DEFAULT_OUTPUT,
    as_json: shared.Json = False,
) -> None:
    """Which home pages honest rules name, beside the 31 of the paper: 8,616 candidates."""
    runs = 1 if small else runs
    distance = home.PAPER_SMALLEST / home.first_order_error(reports, 1)
    run_experiment(
        ExperimentOptions(seed, output, as_json),
        ("draws", runs * (len(home.DISTRIBUTIONS) + 1)),
        lambda rng, advance: home.homepages(runs, reports, rng, repeated, advance),
        lambda found: ExperimentRun(
            "homepages", f"homepages, {reports:,} devices, {runs} draws",
            {"runs": runs, "reports": reports, "repeated": repeated, "alpha": home.ALPHA},
            HOMEPAGES_COLUMNS, [asdict(row) for row in found.rows],
            [f"{home.PAPER_SMALLEST:,} users: {distance:.2f} first-order standard errors."],
        ),
    )  # fmt: skip


def parameters(
    reports: Annotated[int, typer.Option(min=10_000, help="Of each draw.")] = grid.REPORTS,
    runs: Annotated[int, typer.Option(min=2, help="Draws of each setting.")] = 10,
    small: Small = False,
    seed: shared.Seed = None,
    output: shared.ExperimentFolder = DEFAULT_OUTPUT,
    as_json: shared.Json = False,
) -> None:
    """Detection against h, k, m, f, p and q; false discoveries against f."""
    runs = 2 if small else runs
    run_experiment(
        ExperimentOptions(seed, output, as_json),
        ("settings", len(list(grid.settings()))),
        lambda rng, advance: grid.parameters(runs, reports, rng, advance),
        lambda rows: ExperimentRun(
            "parameters", f"parameters, {reports:,} reports, {runs} draws",
            {"runs": runs, "reports": reports, "alpha": grid.ALPHA}, PARAMETERS_COLUMNS,
            [asdict(row) for row in rows],
        ),
    )  # fmt: skip


def longitudinal(
    devices: Annotated[
        int, typer.Option(min=1_000, help="Attacked, for each mode and number of periods.")
    ] = 400_000,
    small: Small = False,
    seed: shared.Seed = None,
    output: shared.ExperimentFolder = DEFAULT_OUTPUT,
    as_json: shared.Json = False,
) -> None:
    """What an adversary with all reports of a device learns over a year of days, by mode."""
    devices = min(devices, 20_000) if small else devices
    run_experiment(
        ExperimentOptions(seed, output, as_json),
        ("attacks", len(over_time.modes()) * len(over_time.PERIODS)),
        lambda rng, advance: over_time.longitudinal(devices, rng, over_time.PERIODS, advance),
        lambda rows: ExperimentRun(
            "longitudinal", f"longitudinal, {devices:,} devices attacked in each row",
            {"devices": devices, "prior": PRIOR, "level": over_time.LEVEL},
            LONGITUDINAL_COLUMNS, [asdict(row) for row in rows],
        ),
    )  # fmt: skip


def poisoning(
    reports: Annotated[
        int, typer.Option(min=100_000, help="Of each draw, forged ones among them.")
    ] = forging.REPORTS,
    runs: Annotated[int, typer.Option(min=2, help="Draws of each way and part.")] = 10,
    small: Small = False,
    seed: shared.Seed = None,
    output: shared.ExperimentFolder = DEFAULT_OUTPUT,
    as_json: shared.Json = False,
) -> None:
    """How far forged reports move an estimate, and whether bound, warnings and checks see them."""
    runs = 2 if small else runs
    run_experiment(
        ExperimentOptions(seed, output, as_json),
        ("ways and parts", 1 + len(forging.WAYS) * len(forging.FRACTIONS)),
        lambda rng, advance: forging.poisoning(runs, reports, rng, forging.FRACTIONS, advance),
        lambda rows: ExperimentRun(
            "poisoning", f"poisoning, {reports:,} reports, {runs} draws",
            {"runs": runs, "reports": reports}, POISONING_COLUMNS, list(map(_forged_row, rows)),
        ),
    )  # fmt: skip


def _forged_row(row: forging.Row) -> dict[str, Any]:
    """Plain values, with the warnings that at least half of the runs have."""
    named = ", ".join(name for name, part in row.warnings.items() if part >= 0.5)
    return asdict(row) | {"warned_of": named}
