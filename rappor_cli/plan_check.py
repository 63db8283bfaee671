"""`rappor simulate plan`: are the predictions of `rappor plan` true?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from secrets import randbits
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from rappor_cli import options as shared
from rappor_cli.plan import CorrectionOption, PlannedCorrectionName
from rappor_cli.plan_tables import refuse_given
from rappor_cli.progress import progress_bar
from rappor_cli.text import wide_console
from simulations.experiments.plan_check import (
    BAR,
    PlanCheck,
    cases,
    check,
    drawn_cases,
    runs_for,
    summary,
)
from simulations.experiments.plan_kinds import check_kind, kind_cases
from simulations.experiments.plan_lists import SeenCheck, check_list, list_cases


class PredictedName(StrEnum):
    """What is predicted and seen (`--of`)."""

    DETECTION = "detection"
    LISTS = "lists"
    KINDS = "kinds"


_CHECKED: dict[PredictedName, tuple[Callable[[], list[Any]], Callable[..., Iterator[SeenCheck]]]]
_CHECKED = {
    PredictedName.LISTS: (list_cases, check_list),
    PredictedName.KINDS: (kind_cases, check_kind),
}


def plan_check(
    context: typer.Context,
    of: Annotated[
        PredictedName,
        typer.Option(
            help="detection: of placed values; lists: values found in whole lists; kinds: errors "
            "of numbers, maps, flows and discovery."
        ),
    ] = PredictedName.DETECTION,
    runs: Annotated[int, typer.Option(min=1, help="Windows of each setting, at most.")] = 100,
    error: Annotated[
        float | None,
        typer.Option(min=1e-4, max=0.5, help="As many windows as this standard error takes."),
    ] = None,
    first: Annotated[int, typer.Option(min=1, help="Setting to begin with.")] = 1,
    last: Annotated[int, typer.Option(min=1, help="Setting to end with.")] = 60,
    drawn: Annotated[
        int, typer.Option(min=0, help="So many settings drawn at random, in place of the grid.")
    ] = 0,
    settings_seed: Annotated[int, typer.Option(min=0, help="Of the settings drawn.")] = 1,
    correction: CorrectionOption = PlannedCorrectionName.FDR,
    seed: shared.Seed = None,
    as_json: shared.Json = False,
) -> None:
    """What `rappor plan` predicts, and what is seen of it in simulated windows."""
    seed = randbits(32) if seed is None else seed
    if first > last:
        raise typer.BadParameter(f"--first {first} is above --last {last}")
    if of is not PredictedName.DETECTION:
        refuse_given(context, ("error", "drawn", "settings_seed", "correction"), f"--of {of.value}")
        _print_seen(list(_seen(of, runs, seed, first, last)), seed, as_json=as_json)
        return
    settings = drawn_cases(drawn, settings_seed) if drawn else cases()
    settings = [
        replace(case, setting=replace(case.setting, correction=correction.value))
        for case in settings
    ]
    wanted, rows = settings[first - 1 : last], list[PlanCheck]()
    with progress_bar("settings", len(wanted)) as advance:
        for number, case in enumerate(wanted, first):
            windows = runs if error is None else min(runs, runs_for(case, error))
            rows.append(check(case, windows, np.random.default_rng((seed, number))))
            advance(1)
    told = summary(rows)
    if as_json:
        print(json.dumps({"seed": seed} | told | {"rows": [asdict(row) for row in rows]}))
        return
    _print(seed, rows, told)


def _seen(of: PredictedName, runs: int, seed: int, first: int, last: int) -> Iterator[SeenCheck]:
    """What is predicted and seen of lists or of kinds."""
    made, checked = _CHECKED[of]
    wanted = made()[first - 1 : last]
    with progress_bar("settings", len(wanted)) as advance:
        for number, case in enumerate(wanted, first):
            yield from checked(case, runs, np.random.default_rng((seed, number)))
            advance(1)


def _print_seen(rows: Sequence[SeenCheck], seed: int, *, as_json: bool) -> None:
    """Predicted, seen, their ratio."""
    if as_json:
        listed = [asdict(row) | {"ratio": row.ratio} for row in rows]
        print(json.dumps({"seed": seed, "rows": listed}))
        return
    table = Table(title=f"Predicted and seen, seed {seed}")
    for heading in ("setting", "what", "predicted", "seen", "ratio", "windows"):
        table.add_column(heading)
    for row in rows:
        seen = f"{row.seen:.3g} +- {row.error:.2g}"
        table.add_row(row.name, row.quantity, f"{row.predicted:.3g}", seen, f"{row.ratio:.2f}",
                      str(row.draws))  # fmt: skip
    wide_console().print(table)


def _print(seed: int, rows: list[PlanCheck], told: dict[str, float]) -> None:
    table = Table(title=f"Detection of placed values, seed {seed}")
    headings = (
        "setting",
        "share",
        "predicted",
        "simulated",
        "noise",
        "found / predicted",
        "inside",
    )
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(
            row.name, f"{row.share:.4f}", f"{row.predicted:.3f}", f"{row.simulated:.3f}",
            f"{row.noise:.3f}", f"{row.found:.1f} / {row.expected:.1f}", f"{row.inside:.2f}",
        )  # fmt: skip
    console = wide_console()
    console.print(table)
    console.print(
        f"{told['settings']} settings: predicted and simulated differ by {told['mean']:.3f} on "
        f"average ({told['signed_mean']:+.3f} with its sign), {told['worst']:.3f} at worst; root "
        f"mean square {told['root_mean_square']:.3f}, of which the simulation alone gives "
        f"{told['noise']:.3f}. {told['within']} are within {BAR:.2f}, "
        f"{told['within_and_two_errors']} within {BAR:.2f} and two standard errors. The number "
        f"found is in the range predicted in {told['coverage']:.0%} of windows.",
        highlight=False,
    )
