"""`rappor simulate location`, `location-coverage` and `location-attacks`: what the modes give."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from decoder.files import probe_folder
from decoder.output.density_csv import write_density_files
from decoder.output.density_html import render_page
from decoder.output.density_png import write_picture
from privacy_audit.linkage_by_life import CROWD as LIFE_CROWD
from privacy_audit.linkage_by_life import TARGETS, find_by_life
from privacy_audit.lives import WORLDS
from privacy_audit.trackability import PERIODS, attack_file, attacks_on
from rappor_cli import options as shared
from rappor_cli.progress import progress_bar
from rappor_core.errors import ParameterError
from rappor_core.metrics.loading import load_metrics
from rappor_core.metrics.metric import Metric
from simulations.location.allocations import ways
from simulations.location.budgets import (
    BudgetResult,
    compare_budgets,
    median,
    with_attacks,
)
from simulations.location.coverage import GROUPS, has_map, map_coverage
from simulations.location.riders import RealResult, real_riders
from simulations.location.trips import read_trips


def location(
    trips: Annotated[Path, typer.Option(exists=True, help="CSV of trips, gzipped or not.")],
    people: Annotated[
        list[int], typer.Option(min=100, help="Sizes of resampled crowds; may be repeated.")
    ] = [100_000],  # noqa: B006 - typer copies it
    days: Annotated[
        list[int], typer.Option(min=2, help="Days that the crowds report; may be repeated.")
    ] = [30, 180],  # noqa: B006
    budget: Annotated[float, typer.Option(min=0.1, help="Lifetime budget, nats.")] = 4.0,
    level: Annotated[
        int, typer.Option("--cell-level", min=8, max=18, help="Quadkey level of the cells.")
    ] = 13,
    riders: Annotated[
        int | None, typer.Option(min=1, help="Only so many of the real riders.")
    ] = None,
    crowds: Annotated[
        int, typer.Option(min=1, help="Crowds of each size; medians are printed.")
    ] = 3,
    seed: shared.Seed = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the maps.")] = Path(
        "simulation-output"
    ),
    as_json: shared.Json = False,
) -> None:
    """Real trips through the SDK, and resampled crowds: accuracy, budget spent, trackability."""
    probe_folder(output)
    rng = np.random.default_rng(seed)
    everybody = read_trips(trips)
    some = dict(list(everybody.items())[:riders])
    real = []
    for way in ways(budget, 12):
        with progress_bar(f"real riders: {way.name}", len(some)) as advance:
            real.append(real_riders(some, way, level, advance))
    drawn = []
    with progress_bar("crowds", len(people) * len(days) * crowds) as advance:
        for size, number in product(people, days):
            several = []
            for _ in range(crowds):
                several.append(compare_budgets(everybody, budget, size, number, level, rng))
                advance(1)
            drawn += [median(same) for same in zip(*several, strict=True)]
    drawn = with_attacks(drawn, budget, level, rng)
    maps = [real[0].map]
    write_density_files(maps, output)
    write_picture(maps, output / "density.png")
    (output / "density.html").write_text(render_page(maps), encoding="utf-8")
    figures = json.dumps(
        {
            "real": [_plain(r) for r in real],
            "crowds": list(map(asdict, drawn)),
        }
    )
    (output / "figures.json").write_text(figures, encoding="utf-8")
    if as_json:
        print(figures)
        return
    console = Console()
    console.print(_real_table(real, len(some)))
    for size, number in product(people, days):
        same = [one for one in drawn if (one.people, one.days) == (size, number)]
        console.print(_crowd_table(same, size, number))
        console.print(_attack_table(same, number))
    console.print(f"{output}: figures.json, and the map as density.html, density.png and more")


def location_attacks(
    metrics: shared.MetricsFile,
    crowd: Annotated[int, typer.Option(min=2, max=5_000, help="Devices of one cohort.")] = 1_500,
    population: Annotated[
        int, typer.Option(min=2, help="Devices, for the attack on all metrics together.")
    ] = 100_000,
    streams: Annotated[
        int, typer.Option(min=1, help="Devices looked for by their lives, of each metric.")
    ] = 1_000,
    seed: shared.Seed = None,
    as_json: shared.Json = False,
) -> None:
    """Attack devices by cohort and permanent bits, and by what is known of their lives."""
    rng = np.random.default_rng(seed)
    declared = load_metrics(metrics).declared
    places = [one for one in declared if one.location and one.location.rules.every(one.location)]
    rows: list[dict[str, Any]] = []
    for metric in places:
        people = crowd * metric.params.num_cohorts
        for periods, found in zip(PERIODS, attacks_on(metric, PERIODS, crowd, rng), strict=True):
            whole = attack_file([metric], periods, people, rng, crowd)
            row = {"metric": metric.base_name, "periods": periods, **asdict(found)}
            rows.append(row | {"all_slots": whole.relinked})
    together = [asdict(attack_file(declared, one, population, rng, crowd)) for one in PERIODS]
    by_life = _by_life([one for one in declared if one.location], crowd, streams, rng)
    if as_json:
        found_by_all = {"metrics": rows, "population": population, "together": together}
        print(json.dumps(found_by_all | {"by_life": by_life}))
        return
    table = Table(title=f"among {crowd:,} devices of one cohort, by chance {1 / crowd:.3%}")
    for name in ("metric", "periods", "reports", "change AUC", "re-linked", "all slots"):
        table.add_column(name, justify="left" if name == "metric" else "right")
    for row in rows:
        figures = f"{row['change_auc']:.2f}", f"{row['relinked']:.1%}", f"{row['all_slots']:.1%}"
        table.add_row(row["metric"], str(row["periods"]), str(row["reports"]), *figures)
    console = Console()
    console.print(table)
    for one in together:
        console.print(
            f"all metrics of {population:,} devices, {one['periods']} periods: "
            f"{one['relinked']:.1%} re-linked, {one['by_groups']:.1%} by cohort, level and turn"
        )
    console.print(_life_table(by_life))


def _by_life(
    metrics: Sequence[Metric], crowd: int, streams: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Rows of the attack by lives, of each world, after each number of periods."""
    rows = []
    size = min(crowd, LIFE_CROWD)
    cohorts = max(1, round(streams / min(size, TARGETS)))
    with progress_bar("lives", len(metrics) * len(WORLDS)) as advance:
        for metric, world in product(metrics, WORLDS):
            found = find_by_life(metric, world, rng, crowd=size, cohorts=cohorts,
                                 targets=-(-streams // cohorts))  # fmt: skip
            told = {"metric": metric.base_name, "lives": world}
            rows += [told | asdict(one) for one in found]
            advance(1)
    return rows


def _life_table(rows: Sequence[dict[str, Any]]) -> Table:
    """What is known of everybody, and how often that finds a device."""
    crowd = rows[0]["crowd"] if rows else 0
    title = f"whose reports these are, among {crowd:,} of one cohort: right at first guess"
    columns = "lives", "periods", "presence", "changes", "life", "bound"
    table = _numbers(title, ("way", *columns))
    table.caption = (
        "What is known of everybody: in which periods there was data, in which the last known cell "
        "changed, or the life. lives: sparse, data now and then and many cells; dense, always "
        "the same cell but for a fifth who move once. bound: of what was sent, whatever is known."
    )
    for row in rows:
        shares = [row[name] for name in ("by_presence", "by_changes", "by_life")]
        bound = "none" if row["bound"] == 1 else f"{row['bound']:.2%}"
        figures = [f"{share:.2%}" for share in shares]
        table.add_row(row["metric"], row["lives"], str(row["periods"]), *figures, bound)
    return table


def location_coverage(
    metrics: shared.MetricsFile,
    metric: Annotated[
        list[str] | None, typer.Option(help="Only these metrics; may be repeated.")
    ] = None,
    devices: Annotated[
        list[int], typer.Option(min=1_000, help="Sizes of crowds; may be repeated.")
    ] = [20_000, 100_000, 1_000_000],  # noqa: B006 - typer copies it
    maps: Annotated[int, typer.Option(min=1, help="Maps of each metric and size.")] = 20,
    seed: shared.Seed = None,
    as_json: shared.Json = False,
) -> None:
    """How often intervals of single cells hold the truth, on drawn maps of a file's metrics."""
    rng = np.random.default_rng(seed)
    declared = [one for one in load_metrics(metrics).declared if has_map(one)]
    chosen = [one for one in declared if not metric or one.base_name in metric]
    if not chosen:
        raise ParameterError(f"{metrics} has no metric of kind 'location' with a map so named")
    rows = []
    with progress_bar("maps", len(chosen) * len(devices) * maps) as advance:
        for one, size in product(chosen, devices):
            found = map_coverage(one, size, maps, rng, advance)
            rows.append({"metric": one.base_name, "devices": size, **asdict(found)})
    if as_json:
        print(json.dumps(rows))
        return
    columns = "way", "devices", "all", "found", "n", "top 5", "top 10", "s"
    table = _numbers(f"coverage of intervals of 95 %, {maps} maps each", columns)
    for row in rows:
        every, told, five, ten = (_part(row, name) for name in GROUPS)
        told += f"\nby map {row['found_by_map']:.3f}"
        crowd, seconds = f"{row['devices']:,}", f"{row['seconds']:.2f}"
        numbers = crowd, every, told, str(row["num_found"]), five, ten, seconds
        table.add_row(row["metric"], *numbers)
    table.caption = "by map: mean over the maps, those that find no cell counted as 1"
    Console().print(table)


def _part(row: dict[str, Any], name: str) -> str:
    """Coverage of a group of cells, below it its Monte-Carlo error and that of the worst map."""
    part, error, worst = (row[name + what] for what in ("", "_error", "_worst"))
    lines = ["-" if part is None else f"{part:.3f}"]
    lines += [f"+-{error:.3f}"] if error is not None else []
    lines += [f"worst {worst:.2f}"] if worst is not None else []
    return "\n".join(lines)


def _plain(result: RealResult) -> dict[str, Any]:
    return {name: value for name, value in vars(result).items() if name != "map"}


def _real_table(results: Sequence[RealResult], riders: int) -> Table:
    table = _numbers(
        f"{riders:,} real riders through the SDK, a report a month, {results[0].lifetime:.2f} nats",
        ("way", "reports", "TV cells", "TV", "top 10", "cover", "found", "10", "spent", "most"),
    )
    table.caption = "cover: of the intervals of all cells, of those found, and of the ten busiest"
    for r in results:
        table.add_row(
            r.way, f"{r.reports:,}", f"{r.tv_cells:.3f}", f"{r.tv:.3f}",
            f"{r.busiest_found:.0%}", f"{r.coverage:.1%}",
            "-" if r.coverage_found is None else f"{r.coverage_found:.0%}",
            f"{r.coverage_busiest:.0%}", f"{r.spent_median:.2f}", f"{r.spent_most:.2f}",
        )  # fmt: skip
    return table


def _crowd_table(results: Sequence[BudgetResult], people: int, days: int) -> Table:
    table = _numbers(
        f"{people:,} people resampled from riders' active days, a report a day, {days} days",
        ("way", "TV cells", "least-most", "TV", "capping", "of cells", "noise"),
    )
    table.caption = (
        "TV: to each day's density, of the cells among those in one, and with `other`, of which by "
        "capping alone (of the cells), and by noise."
    )
    for r in results:
        low, high = r.spread or (r.errors.cells, r.errors.cells)
        table.add_row(
            r.way, f"{r.errors.cells:.3f}", f"{low:.3f}-{high:.3f}", f"{r.errors.all:.3f}",
            f"{r.errors.capping:.3f}", f"{r.errors.capping_cells:.3f}", f"{r.errors.noise:.3f}",
        )  # fmt: skip
    return table


def _attack_table(results: Sequence[BudgetResult], days: int) -> Table:
    table = _numbers(
        f"1,500 devices in a cohort, {days} days; after 1 / 7 / 30 days",
        ("way", "AUC of a change", "re-linked"),
    )
    for r in results:
        if r.attacks:
            table.add_row(
                r.way,
                " / ".join(f"{a.change_auc:.2f}" for a in r.attacks),
                " / ".join(f"{a.relinked:.1%}" for a in r.attacks),
            )
    return table


def _numbers(title: str, columns: Sequence[str]) -> Table:
    """A table whose figures are never cut, however narrow the terminal: names give way."""
    table = Table(title=title, padding=(0, 1, 0, 0), pad_edge=False)  # names need the room
    for name in columns:
        if name == "way":
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True)
    return table
