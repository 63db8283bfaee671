"""The options that say how many reports each device sent."""

from __future__ import annotations

from typing import Annotated

import typer

from rappor_core.aggregate import MAX_COUNT


def _bounded(repeats: float | None) -> float | None:
    """Wrong usage for more reports of a device than an aggregate can count."""
    if repeats is not None and repeats > MAX_COUNT:
        raise typer.BadParameter(
            f"{repeats:g} reports of a device are more than the {MAX_COUNT:,} that an aggregate "
            "can count; give sum r^2 / sum r, where device i sent r_i of them"
        )
    return repeats


Repeats = Annotated[
    float | None,
    typer.Option(min=1, callback=_bounded, help="Reports of a device: sum r^2 / sum r, 1 for one."),
]
