"""`rappor simulate processes | homepages | parameters | longitudinal | poisoning`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from secrets import randbits
from typing import Annotated

import numpy as np
import typer

from decoder.files import probe_folder
from rappor_cli.experiment_files import Outcome, show
from rappor_cli.progress import progress_bar
from simulations.experiments import homepages as home
from simulations.experiments import longitudinal as over_time
from simulations.experiments import parameters as grid
from simulations.experiments import poisoning as forging
from simulations.experiments import processes as machines
from simulations.experiments.attack_figures import draw_longitudinal, draw_poisoning
from simulations.experiments.fleet_figures import draw_homepages, draw_parameters, draw_processes

Seed = Annotated[
    int | None, typer.Option(min=0, help="Repeat a run exactly; otherwise the draws are fresh.")
]
Output = Annotated[Path, typer.Option("-o", "--output", help="Folder for picture and manifest.")]
AsJson = Annotated[bool, typer.Option("--json", help="For machines.")]
Small = Annotated[bool, typer.Option(help="A quick look, with few runs; figures are rough.")]
DEFAULT_OUTPUT = Path("simulation-output")


def processes(
    runs: Annotated[int, typer.Option(min=2, help="Collections of each way to repeat.")] = 25,
    devices: Annotated[
        int, typer.Option(min=100, help="Machines, of more than 18 reports each.")
    ] = machines.DEVICES,
    small: Small = False,
    seed: Seed = None,
    output: Output = DEFAULT_OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Ten processes among the reports of machines that report often; the variance it really has."""
    probe_folder(output)
    runs, seed = 3 if small else runs, _seeded(seed)
    with progress_bar("collections", runs * len(machines.WAYS)) as advance:
        found = machines.processes(runs, devices, np.random.default_rng(seed), advance=advance)
    columns = [
        ("machines report", "way", "s"), ("rho", "rho", ".2f"),
        ("reports are taken as", "handling", "s"), ("rho used", "used", ".2f"),
        ("stated error", "stated", ".3%"), ("real", "real", ".3%"), ("+-", "real_error", ".3%"),
        ("covered", "coverage", ".1%"), ("found of 10", "found", ".1f"),
        ("marked, found", "marked", ".0%"), ("estimate", "estimate", ".2%"),
        ("false", "false", ".2f"),
    ]  # fmt: skip
    outcome = Outcome(
        "processes", f"processes, {runs} collections of each way", seed,
        {"runs": runs, "devices": devices, "correction": "bh"}, columns,
        [asdict(row) for row in found.rows], partial(draw_processes, found),
    )  # fmt: skip
    show(outcome, output, as_json)


def homepages(
    reports: Annotated[
        int, typer.Option(min=100_000, help="Devices, one report each where nothing else is said.")
    ] = home.REPORTS,
    runs: Annotated[int, typer.Option(min=1, help="Draws of each distribution.")] = 5,
    repeated: Annotated[
        int, typer.Option(min=2, help="Reports of each device where devices repeat.")
    ] = 30,
    small: Small = False,
    seed: Seed = None,
    output: Output = DEFAULT_OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Which home pages honest rules name, beside the 31 of the paper: 8,616 candidates."""
    probe_folder(output)
    runs, seed = 1 if small else runs, _seeded(seed)
    rng = np.random.default_rng(seed)
    with progress_bar("draws", runs * (len(home.DISTRIBUTIONS) + 1)) as advance:
        found = home.homepages(runs, reports, rng, repeated, advance)
    columns = [
        ("distribution", "distribution", "s"), ("reports each", "reports_each", "d"),
        ("rule", "rule", "s"), ("held", "held", "d"), ("found", "found", ".1f"),
        ("expected", "expected", ".1f"), ("false", "false", ".1f"),
        ("smallest found, users", "smallest", ",.0f"), ("one error, users", "one_error", ",.0f"),
        ("half power, users", "half_power", ",.0f"),
    ]  # fmt: skip
    distance = home.PAPER_SMALLEST / home.first_order_error(reports, 1)
    outcome = Outcome(
        "homepages", f"homepages, {reports:,} devices, {runs} draws", seed,
        {"runs": runs, "reports": reports, "repeated": repeated, "alpha": home.ALPHA}, columns,
        [asdict(row) for row in found.rows], partial(draw_homepages, found),
        [f"{home.PAPER_SMALLEST:,} users: {distance:.2f} standard errors of first-order theory."],
    )  # fmt: skip
    show(outcome, output, as_json)


def parameters(
    reports: Annotated[int, typer.Option(min=10_000, help="Of each draw.")] = grid.REPORTS,
    runs: Annotated[int, typer.Option(min=2, help="Draws of each setting.")] = 10,
    small: Small = False,
    seed: Seed = None,
    output: Output = DEFAULT_OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Detection against h, k, m, f, p and q; false discoveries against f."""
    probe_folder(output)
    runs, seed = 2 if small else runs, _seeded(seed)
    with progress_bar("settings", len(list(grid.settings()))) as advance:
        rows = grid.parameters(runs, reports, np.random.default_rng(seed), advance)
    columns = [
        ("parameter", "parameter", "s"), ("value", "value", "g"),
        ("eps for life", "epsilon_infinity", ".2f"), ("of a report", "epsilon_one", ".2f"),
        ("found of 100", "found", ".1f"), ("+-", "error", ".1f"), ("predicted", "predicted", ".1f"),
        ("false: Bonferroni", "false_bonferroni", ".2f"), ("FDR 5 %", "false_bh", ".2f"),
        ("two errors", "false_two_errors", ".2f"),
    ]  # fmt: skip
    outcome = Outcome(
        "parameters", f"parameters, {reports:,} reports, {runs} draws", seed,
        {"runs": runs, "reports": reports, "alpha": grid.ALPHA}, columns,
        [asdict(row) for row in rows], partial(draw_parameters, rows),
    )  # fmt: skip
    show(outcome, output, as_json)


def longitudinal(
    devices: Annotated[
        int, typer.Option(min=1_000, help="Attacked, for each mode and number of periods.")
    ] = 400_000,
    small: Small = False,
    seed: Seed = None,
    output: Output = DEFAULT_OUTPUT,
    as_json: AsJson = False,
) -> None:
    """What an adversary with all reports of a device learns over a year of days, by mode."""
    probe_folder(output)
    devices, seed = min(devices, 20_000) if small else devices, _seeded(seed)
    with progress_bar("attacks", len(over_time.modes()) * len(over_time.PERIODS)) as advance:
        rows = over_time.longitudinal(
            devices, np.random.default_rng(seed), over_time.PERIODS, advance
        )
    columns = [
        ("mode", "mode", "s"), ("periods", "periods", "d"), ("reports", "reports", "d"),
        ("declared, nats", "declared", ".2f"), ("proven", "bound", ".2f"),
        ("advantage", "advantage", ".3f"), ("at most", "most_advantage", ".3f"),
        ("belief: median", "posterior_median", ".1%"), ("1 in 100", "posterior_99", ".1%"),
        ("largest", "posterior_largest", ".1%"), ("at most ", "posterior_bound", ".1%"),
        ("change, AUC", "change_auc", ".2f"),
    ]  # fmt: skip
    outcome = Outcome(
        "longitudinal", f"longitudinal, {devices:,} devices attacked in each row", seed,
        {"devices": devices, "prior": over_time.PRIOR, "level": over_time.LEVEL}, columns,
        [asdict(row) for row in rows], partial(draw_longitudinal, rows),
    )  # fmt: skip
    show(outcome, output, as_json)


def poisoning(
    reports: Annotated[
        int, typer.Option(min=100_000, help="Of each draw, forged ones among them.")
    ] = forging.REPORTS,
    runs: Annotated[int, typer.Option(min=2, help="Draws of each way and part.")] = 10,
    small: Small = False,
    seed: Seed = None,
    output: Output = DEFAULT_OUTPUT,
    as_json: AsJson = False,
) -> None:
    """How far forged reports move an estimate, and whether bound, warnings and checks see them."""
    probe_folder(output)
    runs, seed = 2 if small else runs, _seeded(seed)
    number = 1 + len(forging.WAYS) * len(forging.FRACTIONS)
    with progress_bar("ways and parts", number) as advance:
        rng = np.random.default_rng(seed)
        rows = forging.poisoning(runs, reports, rng, forging.FRACTIONS, advance)
    columns = [
        ("way to forge", "way", "s"), ("forged", "fraction", ".1%"), ("estimate", "shift", ".2%"),
        ("+-", "error", ".2%"), ("a report", "lever", ".2f"), ("found", "found", ".0%"),
        ("lower bound", "explained", ".2%"), ("bound holds", "kept", ".0%"),
        ("held, found", "true_found", ".1f"), ("warned", "warned", ".0%"),
        ("of", "warned_of", "s"), ("refused", "refused", ".0%"),
    ]  # fmt: skip
    plain = [asdict(row) for row in rows]
    for row in plain:
        row["warned_of"] = ", ".join(name for name, part in row["warnings"].items() if part >= 0.5)
    outcome = Outcome(
        "poisoning", f"poisoning, {reports:,} reports, {runs} draws", seed,
        {"runs": runs, "reports": reports}, columns, plain, partial(draw_poisoning, rows),
    )  # fmt: skip
    show(outcome, output, as_json)


def _seeded(seed: int | None) -> int:
    return randbits(32) if seed is None else seed
