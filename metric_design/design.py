"""Choose a design (mode, mechanism, kind, k, h, m) for given numbers, and solve for the missing
number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from decoder.errors import PlanError
from decoder.progress import Progress, silent
from decoder.typing import Floats
from metric_design.detection import (
    COUNTED,
    PlanSetting,
    Theory,
    detectable_share,
    floor_rank,
    information,
    theory,
    why_nothing,
)
from metric_design.metric_plan import objection, reviewed, with_budget
from metric_design.metric_table import Labels, merged_periods, metric_table
from metric_design.noise import LARGEST, Noise, noises
from metric_design.population import ExpectedShares
from metric_design.request import DEFAULTS, LIMITS, MAX_BYTES, POWER, PlanRequest, Unknown
from rappor_core.encodings import encoding_named
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.kinds import kind_named
from rappor_core.params import RapporParams
from rappor_core.risk import CROWD, cohorts_affordable

MOST_COHORTS = 64
MOST_HASHES = 4
ALIKE = 0.97  # of the most information: designs that show as much; the smallest is taken
_STEPS = 36  # of a search
_CLOSE = 3e-3  # of the logarithm of the number that is solved for
_START = {"devices": 1e5, "epsilon": 4, "candidates": 1_000, "periods": 7}
_STRIDE = math.log(8)
_FAR = 2.0  # logarithm of a share over that asked for, beyond which it does not matter
_OLD = date(2000, 1, 1)
_LABELS = Labels("planned", "-", "-", _OLD + timedelta(days=1))


@dataclass(frozen=True)
class Design:
    """The parameters of a planned metric, and the smallest share that they can show.

    kind: of the metric.  setting: what is decoded at once.  noise: mode and mechanism.
    theory: what the other values do to each.  share: the smallest found with the power asked for;
    None if none is.
    """

    kind: str
    setting: PlanSetting
    noise: Noise
    theory: Theory
    share: float | None

    @property
    def params(self) -> RapporParams:
        """The metric's RapporParams."""
        return self.setting.params


def completed(request: PlanRequest) -> tuple[PlanRequest, Unknown]:
    """Return the request with the defaults of what is not given, and which number to solve for."""
    unknown = request.unknown()
    for name, value in DEFAULTS.items():
        if name != unknown and getattr(request, name) is None:
            chosen = 2 if name == "candidates" and request.single_bit else value
            request = _with(request, name, chosen)
    return request, unknown


def solve(
    request: PlanRequest, population: ExpectedShares, progress: Progress = silent
) -> tuple[PlanRequest, Design, Unknown]:
    """Solve for the missing number of a plan, and choose the best design with it.

    Args:
        request: with at most one number missing of those that decide.
        population: from a number of candidates to the shares that are expected, largest first.
        progress: called with how many designs were looked at.

    Returns:
        The request with every number, the design, and which number was solved for.

    Raises:
        PlanError: where no value of the missing number will do, with what bounds it.
    """
    request, unknown = completed(request)
    if unknown == "share":
        design = best_design(request, population)
        if design is None or design.share is None:
            raise PlanError(_why_none(request, design))
        if request.share is not None and design.share > request.share:
            raise PlanError(
                f"share = {request.share:.4g} is below the smallest that these numbers show with "
                f"power {POWER:g}, {design.share:.3g}: leave out one number (devices, "
                "epsilon, candidates or periods) and it is solved for"
            )
        return replace(request, share=request.share or design.share), design, unknown
    found = _solved(request, unknown, population, progress)
    done = best_design(found, population)
    assert done is not None  # noqa: S101 (the bisection has seen it)
    return found, done, unknown


def _why_none(request: PlanRequest, design: Design | None) -> str:
    """Why no share is found: what the review refuses, or the numbers."""
    if design is None:
        for kind, setting, noise in _designs(request):
            objection = _objection(metric_table(_LABELS, request, kind, setting, noise), request)
            if objection is not None:
                return f"no design passes `rappor metrics check`: {objection}"
    return why_nothing(request, None if design is None else design.setting)


def _solved(
    request: PlanRequest, unknown: Unknown, population: ExpectedShares, progress: Progress
) -> PlanRequest:
    """The least number (the most candidates) with which the share asked for is seen."""
    least, most = LIMITS["epsilon_life" if unknown == "epsilon" else unknown]
    if unknown == "epsilon":
        least, most = 1e-3, min(most, 2 * LARGEST * request.held)

    good, bad = (least, most) if unknown == "candidates" else (most, least)
    enough: list[float] = []

    @cache
    def gap(log_value: float) -> float:
        """Logarithm of the smallest share over that asked for, within bounds."""
        progress("solving", len(enough), _STEPS)
        value = math.exp(log_value)
        if unknown != "epsilon":
            value = float(round(value))
        design = best_design(_with(request, unknown, value), population)
        share = None if design is None else design.share
        found = _FAR if share is None else math.log(share / request.share)  # type: ignore[operator]
        if found <= 0:
            enough.append(value)
        return min(max(found, -_FAR), _FAR)

    here = last = math.log(_START[unknown])
    end = math.log(bad if gap(here) <= 0 else good)
    passed = bool(enough)
    while (gap(here) <= 0) == passed:
        if here == end and passed:
            return _with(request, unknown, bad)
        if here == end:
            raise PlanError(_why_impossible(request, unknown, population, good))
        last, here = here, here + math.copysign(min(_STRIDE, abs(end - here)), end - here)
    brentq(gap, last, here, xtol=_CLOSE, maxiter=_STEPS, disp=False)
    progress("solving", _STEPS, _STEPS)
    return _with(request, unknown, max(enough) if unknown == "candidates" else min(enough))


def _with(request: PlanRequest, name: str, value: float) -> PlanRequest:
    """The request with one number; that of `epsilon` is of a life."""
    changed: dict[str, Any] = {"epsilon_life" if name == "epsilon" else name: value}
    return replace(request, **changed)


def best_design(request: PlanRequest, population: ExpectedShares) -> Design | None:
    """The design with the most information on a share of which `rappor metrics check` warns not;
    None where there is none.

    Of designs that tell nearly as much, the smallest report.
    """
    shares = population(int(request.candidates or 1))
    told = [
        (_told(setting, shares), kind, setting, noise) for kind, setting, noise in _designs(request)
    ]
    told.sort(key=lambda entry: (floor_rank(entry[2]), -entry[0]))
    passing: list[tuple[float, str, PlanSetting, Noise]] = []
    for entry in told:
        if passing and (
            entry[0] < ALIKE * passing[0][0] or floor_rank(entry[2]) > floor_rank(passing[0][2])
        ):
            break
        table = metric_table(_LABELS, request, *entry[1:])
        if floor_rank(entry[2]) < 2 and _objection(table, request) is None:
            passing.append(entry)
    passing = passing or told[:1]
    if not passing or _objection(metric_table(_LABELS, request, *passing[0][1:]), request):
        return None
    _, kind, setting, noise = min(passing, key=lambda entry: _size(entry[2]))
    given = theory(setting, shares)
    return Design(kind, setting, noise, given, detectable_share(setting, POWER, given))


def _objection(table: str, request: PlanRequest) -> str | None:
    """What `rappor metrics check` warns of; None for nothing."""
    file = with_budget(parse_metrics(table))
    return objection(file, _LABELS.name, int(request.devices or 1), reviewed)


def _told(setting: PlanSetting, shares: Floats) -> float:
    """Information on a share beside values of which each is removed to about its own error."""
    squares = shares[:COUNTED] ** 2
    left = rest = float((shares[COUNTED:] ** 2).sum())
    told = information(setting, left)
    for _ in range(4):
        left = rest + float(np.minimum(squares, 1 / told).sum())
        told = information(setting, left)
    return told


def _size(setting: PlanSetting) -> tuple[int, int, int]:
    params = setting.params
    return params.num_bits, params.num_hashes, -params.num_cohorts


def _designs(request: PlanRequest) -> Iterator[tuple[str, PlanSetting, Noise]]:
    devices, candidates = float(request.devices or 1), int(request.candidates or 1)
    most = min(cohorts_affordable(CROWD, int(devices)), MOST_COHORTS)
    for kind, encoding, bits, hashes in _shapes(request, candidates):
        hashed = encoding_named(encoding).hashed
        for noise in noises(request, hashes):
            for cohorts in _cohorts(most) if hashed else (1,):
                each = 1
                if noise.mode == "memo":
                    each = max(int(request.periods or 1), merged_periods(devices, cohorts))
                params = RapporParams(bits, hashes, cohorts, noise.mechanism, encoding)
                yield kind, PlanSetting(params, devices, each, candidates), noise


def _cohorts(most: int) -> Iterator[int]:
    """Numbers of cohorts to choose from: a power of two, and quarters of it."""
    while most >= 1:
        yield most
        most //= 4


def _shapes(request: PlanRequest, candidates: int) -> Iterator[tuple[str, str, int, int]]:
    """Kind, encoding, bits and hashes that fit a report and the list."""
    most, name = MAX_BYTES * 8, kind_named(request.kind).encodings[0]
    if request.single_bit:
        yield request.kind, name, 1, 1
    elif request.encoding.hashed:
        for bits in (8, 16, 32, 64, 128):
            for hashes in range(1, min(MOST_HASHES, bits // 4) + 1):
                yield request.kind, name, bits, hashes
    elif candidates < 2:
        raise PlanError(f"candidates = {candidates}: a category needs 2 or more; use a string")
    elif candidates > most:
        raise PlanError(
            f"candidates = {candidates:,}: a category has one bit for each, "
            f"{(candidates + 7) // 8:,} bytes; {MAX_BYTES} hold {most:,}. Use kind = 'string'"
        )
    else:
        yield request.kind, name, candidates, 1


def _why_impossible(
    request: PlanRequest, unknown: Unknown, population: ExpectedShares, good: float
) -> str:
    """What bounds the missing number."""
    design = best_design(_with(request, unknown, good), population)
    at_best = "no share at all" if design is None or design.share is None else f"{design.share:.3g}"
    why = {
        "devices": "the noise that values beside it leave",
        "epsilon": "the sampling of devices, and what other values leave: noise is not the limit",
        "candidates": "the devices and epsilon, even with a single candidate",
        "periods": "the permanent response, which is drawn once: more periods average only the "
        "other noise",
        "share": "",
    }[unknown]
    name = {"epsilon": "epsilon_life"}.get(unknown, unknown)
    return (
        f"share = {request.share:g} cannot be seen with power {POWER:g} by any {name}: at "
        f"{name} = {good:,.4g} the smallest is {at_best}. It is bounded by {why}. Ask for a larger "
        "share, or change another number"
    )
