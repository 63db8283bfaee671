"""`rappor simulate relay`: what relay, collector and listeners link of a fleet."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from privacy_audit.arrivals import Arrivals
from privacy_audit.relay_attackers import Attacker, attackers
from rappor_cli import options as shared
from rappor_cli.progress import progress_bar
from rappor_cli.text import wide_console
from rappor_core.params import RapporParams

HEADINGS = (
    "who", "reads reports", "gathers of one metric", "joins two metrics of a day",
    "knows the address of",
)  # fmt: skip
Seconds = typer.Option(min=0, max=7 * 86_400, help="From use to sending, on average.")


def relay(
    devices: Annotated[int, typer.Option(min=2, max=100_000, help="Of the fleet.")] = 2_000,
    days: Annotated[int, typer.Option(min=2, max=400, help="One report a day.")] = 30,
    num_cohorts: Annotated[int, typer.Option(min=1, help="Of each metric.")] = 32,
    mean_delay: Annotated[float, Seconds] = 600.0,
    habit: Annotated[
        float, typer.Option(min=1, help="Seconds, spread of a device's time of use.")
    ] = 1_800.0,
    drawn: Annotated[
        int | None, typer.Option(min=1, help="Devices whose bodies are attacked; all if left out.")
    ] = None,
    seed: shared.Seed = None,
    markdown: shared.Markdown = False,
    as_json: shared.Json = False,
) -> None:
    """What relay, collector and listeners link: k = 128, h = 2, f = .75, p = .5, q = .75."""
    params = RapporParams.rappor(
        num_bits=128, num_hashes=2, num_cohorts=num_cohorts, prob_f=0.75, prob_p=0.5, prob_q=0.75
    )
    rng, found = np.random.default_rng(seed), list[Attacker]()
    with progress_bar("attackers", 6) as advance:
        arrivals = Arrivals(mean_delay, habit)
        for one in attackers(params, devices, days, rng, arrivals=arrivals, enough=drawn):
            found.append(one)
            advance(1)
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
    elif markdown:
        print("| " + " | ".join(HEADINGS) + " |\n" + "|---" * len(HEADINGS) + "|")
        for one in found:
            print("| " + " | ".join(_cells(one)) + " |")
    else:
        table = Table(*HEADINGS, title=f"{devices:,} devices over {days} days behind a relay")
        for one in found:
            table.add_row(*_cells(one))
        wide_console().print(table)


def _cells(one: Attacker) -> tuple[str, ...]:
    shares = (one.over_days, one.in_a_day, one.to_address)
    return one.who, "yes" if one.reads else "no", *(f"{100 * share:.3g} %" for share in shares)
