"""`rappor simulate batch-linkage`: how well batches of one device can be linked."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from privacy_audit.batch_linkage import BatchLinkage, linkages
from privacy_audit.linkage_over_time import Gathered, gathered_over_time
from rappor_cli import options as shared
from rappor_core.params import RapporParams

Probability = Annotated[float, typer.Option(min=0, max=1, help="Of the metric's mechanism.")]


def batch_linkage(
    devices: Annotated[int, typer.Option(min=2, max=5_000, help="Of the population.")] = 150,
    crowds: Annotated[int, typer.Option(min=1, help="Populations to average over.")] = 40,
    num_bits: Annotated[int, typer.Option(min=4, max=1_024, help="Of each filter.")] = 128,
    num_hashes: Annotated[int, typer.Option(min=1, max=8, help="Of each filter.")] = 2,
    num_cohorts: Annotated[int, typer.Option(min=1, help="Of the batch of four metrics.")] = 32,
    prob_f: Probability = 0.75,
    prob_p: Probability = 0.5,
    prob_q: Probability = 0.75,
    days: Annotated[
        list[int] | None,
        typer.Option(
            "--days", min=2, max=400, help="Gather the reports of so many days, one a day; repeat."
        ),
    ] = None,
    seed: shared.Seed = None,
    as_json: shared.Json = False,
) -> None:
    """Link the batches of two days by their bodies alone: four metrics together, and each apart.

    With --days: sort the reports of one metric over so many days into devices.
    """
    params = RapporParams.rappor(
        num_bits=num_bits, num_hashes=num_hashes, num_cohorts=num_cohorts,
        prob_f=prob_f, prob_p=prob_p, prob_q=prob_q,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    if days:
        gathered = gathered_over_time(params, days, devices, num_cohorts, rng, devices * crowds)
        _print_gathered(list(gathered), devices, as_json=as_json)
        return
    found = list(linkages(params, devices, crowds, rng))
    if as_json:
        print(json.dumps([asdict(row) for row in found]))
    else:
        Console().print(_table(found, devices))


def _print_gathered(found: list[Gathered], devices: int, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(row) for row in found]))
        return
    table = Table(title=f"{devices:,} devices: nine tenths of their reports gathered, by bodies")
    for name in ("days", "devices"):
        table.add_column(name, justify="right")
    for row in found:
        table.add_row(str(row.reports), f"{row.gathered:.1%}")
    Console().print(table)


def _table(found: list[BatchLinkage], devices: int) -> Table:
    table = Table(title=f"{devices:,} devices: batches of two days that are linked")
    for name in ("metrics in a batch", "cohorts", "reports a batch", "linked", "by cohort alone"):
        table.add_column(name, justify="right")
    for row in found:
        shares = f"{row.linked:.1%}", f"{row.chance:.1%}"
        table.add_row(str(row.metrics), str(row.cohorts), str(row.reports), *shares)
    return table
