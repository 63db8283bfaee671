"""`rappor simulate batch-linkage`: how well batches of one device can be linked."""

from __future__ import annotations

import json
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from privacy_audit.batch_linkage import (
    DAYS,
    MEAN_DELAY,
    Arrivals,
    followed_by_address,
    gathered,
    joined_by_time,
)
from rappor_cli import options as shared
from rappor_cli.progress import progress_bar
from rappor_core.params import RapporParams

HEADINGS = "days", "by bodies", "by bodies and times", "by the address"


def batch_linkage(
    devices: Annotated[int, typer.Option(min=2, max=100_000, help="Of the population.")] = 150,
    days: Annotated[
        list[int] | None, typer.Option("--days", min=2, max=400, help="One report a day; repeat.")
    ] = None,
    num_cohorts: Annotated[int, typer.Option(min=1, help="Of the metric.")] = 32,
    mean_delay: Annotated[
        float, typer.Option(min=0, max=7 * 86_400, help="Seconds from use to sending, on average.")
    ] = MEAN_DELAY,
    habit: Annotated[
        float, typer.Option(min=1, help="Seconds, spread of a device's time of use.")
    ] = 1_800.0,
    drawn: Annotated[
        int, typer.Option(min=1, help="Devices whose batches are linked for each figure.")
    ] = 600,
    seed: shared.Seed = None,
    as_json: shared.Json = False,
) -> None:
    """Link the batches of devices over some days, with and without a relay.

    k = 128, h = 2, f = .75, p = .5, q = .75. Shares of devices of which nine tenths of the batches
    of one metric are gathered.
    """
    params = RapporParams.rappor(
        num_bits=128, num_hashes=2, num_cohorts=num_cohorts, prob_f=0.75, prob_p=0.5, prob_q=0.75
    )
    rng, rows, over = np.random.default_rng(seed), list[dict[str, float]](), days or list(DAYS)
    with progress_bar("days", len(over)) as advance:
        for number in over:
            bodies, times = (
                gathered(params, number, devices, num_cohorts, rng, drawn, seen)
                for seen in (None, Arrivals(mean_delay, habit))
            )
            (address,) = followed_by_address([number], rng)
            rows.append({"days": number, "bodies": bodies, "times": times, "address": address})
            advance(1)
    joined = joined_by_time(devices, mean_delay)
    if as_json:
        print(json.dumps({"days": rows, "joined": joined}))
        return
    table = Table(title=f"{devices:,} devices: nine tenths of their batches gathered")
    for name in HEADINGS:
        table.add_column(name, justify="right")
    for row in rows:
        shares = (f"{row[name]:.1%}" for name in ("bodies", "times", "address"))
        table.add_row(f"{row['days']:.0f}", *shares)
    console = Console()
    console.print(table)
    console.print(
        f"Batches of two metrics recorded in one moment are joined by time: {joined:.2%}."
    )
