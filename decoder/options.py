"""Options that an analyst chooses; frozen and validated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from decoder.candidates.weights import Weights
from decoder.errors import DecodeError
from decoder.inference.multiple_testing import CORRECTIONS, Correction, check_weighted
from rappor_core.aggregate import MAX_COUNT

Method = Literal["cavity", "lasso"]


@dataclass(frozen=True)
class DecodeOptions:
    """Options of a decoding.

    method: `cavity` or `lasso`; metrics with one bit a value need neither.
    correction: how many candidates are allowed for; alpha: its level, in (0, 1).
    level: of the intervals, in (0, 1).
    repeats: rho = sum r^2 / sum r over devices, where device i sent r_i of the reports; r when
        each sent r. None: the most that the metric's definition allows in the window.
    largest_p: never call a value found whose own p-value is above this.
    true_shares: value -> share, where known, to be shown beside the estimates.
    weights: how the level is divided among the candidates, declared before the counts were seen.
    without_cohorts: cohorts whose reports are not used, such as those that follow no model.
    full_fit: where it is affordable, let all candidates take part in the fit of method `cavity`.
        Without it only the probable ones do: much quicker where bits and candidates are many, with
        errors up to a tenth larger where many small shares fall on few bits.

    Raises DecodeError with the bad value.
    """

    method: Method = "cavity"
    correction: Correction = "fdr"
    alpha: float = 0.05
    level: float = 0.95
    repeats: float | None = None
    largest_p: float = 1.0
    true_shares: Mapping[str, float] | None = None
    full_fit: bool = True
    without_cohorts: tuple[int, ...] = ()
    weights: Weights | None = None

    def __post_init__(self) -> None:
        """Check each choice alone."""
        if self.method not in get_args(Method):
            raise DecodeError(f"method = {self.method!r} is not one of {get_args(Method)}")
        if self.correction not in CORRECTIONS:
            raise DecodeError(
                f"correction = {self.correction!r} is not one of {', '.join(CORRECTIONS)}"
            )
        check_weighted(self.correction, self.weights)
        for name in ("alpha", "level"):
            if not 0 < getattr(self, name) < 1:
                raise DecodeError(f"{name} = {getattr(self, name)!r} is not between 0 and 1")
        if not 0 < self.largest_p <= 1:
            raise DecodeError(f"largest_p = {self.largest_p!r} is not above 0 and at most 1")
        if self.repeats is not None and not (math.isfinite(self.repeats) and self.repeats >= 1):
            raise DecodeError(f"repeats = {self.repeats!r} is not a number of 1 or more")
        if self.repeats is not None and self.repeats > MAX_COUNT:
            raise DecodeError(
                f"repeats = {self.repeats!r} is above {MAX_COUNT:,}, all reports that an aggregate "
                "can count"
            )
