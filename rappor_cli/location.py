"""`rappor simulate location-attacks`: what the reports of places tell of a device."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from typing import Annotated, Any

import numpy as np
import typer

from privacy_audit.findings import PERIODS
from privacy_audit.linkage_by_life import CROWD as LIFE_CROWD
from privacy_audit.linkage_by_life import (
    TARGETS,
    WATCHED,
    bound_of_fresh,
    can_be_watched,
    find_by_life,
)
from privacy_audit.lives import WORLDS
from privacy_audit.location_attacks import attack_file, attacks_on
from rappor_cli import options as shared
from rappor_cli.progress import progress_bar
from rappor_cli.text import print_columns
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.metric import Metric


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
    print(f"among {crowd:,} devices of one cohort, by chance {1 / crowd:.3%}:")
    columns = "metric", "periods", "reports", "change AUC", "re-linked", "all slots"
    figures = [
        (row["metric"], str(row["periods"]), str(row["reports"]), f"{row['change_auc']:.2f}",
         f"{row['relinked']:.1%}", f"{row['all_slots']:.1%}")
        for row in rows
    ]  # fmt: skip
    print_columns(columns, figures)
    for one in together:
        print(
            f"all metrics of {population:,} devices, {one['periods']} periods: "
            f"{one['relinked']:.1%} re-linked, {one['by_groups']:.1%} by cohort, level and turn"
        )
    _print_lives(by_life)


def _by_life(
    metrics: Sequence[Metric], crowd: int, streams: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Rows of each world after each number of periods: shares found, or the bound of fresh ones."""
    rows: list[dict[str, Any]] = []
    size = min(crowd, LIFE_CROWD)
    cohorts = max(1, round(streams / min(size, TARGETS)))
    with progress_bar("lives", len(metrics) * len(WORLDS)) as advance:
        for metric, world in product(metrics, WORLDS):
            told = {"metric": metric.base_name, "lives": world, "crowd": size}
            found: list[dict[str, Any]] = [{"periods": number} for number in WATCHED]
            if can_be_watched(metric):
                attacked = find_by_life(metric, world, rng, crowd=size, cohorts=cohorts,
                                        targets=-(-streams // cohorts))  # fmt: skip
                found = [asdict(one) for one in attacked]
            for row in found:
                bound = bound_of_fresh(metric, world, row["periods"], size)
                rows.append(told | {"by_times": None, "by_life": None, "bound": bound} | row)
            advance(1)
    return rows


def _print_lives(rows: Sequence[dict[str, Any]]) -> None:
    """Print what is known of everybody, and how often that finds a device."""
    crowd = rows[0]["crowd"] if rows else 0
    print(f"\nwhose reports these are, among {crowd:,} of one cohort: right at first guess")
    lines = []
    for row in rows:
        shares = ("" if (share := row[name]) is None else f"{share:.2%}"
                  for name in ("by_times", "by_life"))  # fmt: skip
        bound = "none" if row["bound"] == 1 else f"{row['bound']:.2%}"
        lines.append((row["metric"], row["lives"], str(row["periods"]), *shares, bound))
    print_columns(("metric", "lives", "periods", "times", "life", "bound"), lines)
    print(
        "What is known of everybody: when there was data and the last known cell changed (times), "
        "or the life. lives: sparse, data now and then and many cells; dense, always the same cell "
        "but for a fifth who move once; seldom, as sparse, of an app that runs only when there is "
        "data, so that answers come late, and times are those of their arrival. bound: of fresh "
        "answers and their dates, whatever is known."
    )
