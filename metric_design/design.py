"""Choose a design (kind, k, h, m, f, p, q) for given numbers, and solve for the missing number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from decoder.errors import PlanError
from decoder.progress import Progress, silent
from metric_design.detection import (
    PlanSetting,
    can_be_found,
    clear,
    information,
    interference,
    visible_share,
    why_nothing,
)
from metric_design.population import Population
from metric_design.request import DEFAULTS, LIMITS, PERIODS_A_YEAR, PlanRequest, Unknown
from rappor_core.encodings.interface import encoding_named
from rappor_core.errors import ParameterError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.groups import CROWD, cohorts_affordable
from rappor_core.params import MAX_BITS, RapporParams

MOST_COHORTS = 64
MOST_HASHES = 4
USUAL_RATIO = 0.5  # of epsilon_one to epsilon_infinity, where nobody says
_LARGEST_INFINITY = 19.0  # of one pair of bits, that probabilities over 2**16 can hold
_STEPS = 36  # of a bisection
_COUNTED = 2_000  # values of a population that are looked at for interference
_SIGNIFICANT = 4  # digits of an epsilon of a design, rounded down


@dataclass(frozen=True)
class Design:
    """The parameters of a planned metric, and the smallest share that they can show.

    kind: of the metric.  setting: what is decoded at once.  infinity, one: epsilons of a value
    and of a report from which the mechanism was made, in nats.  unlisted: tau.
    share: the smallest found with the power asked for; None if none is.
    clear: probability that no other candidate looks like a given value.
    """

    kind: str
    setting: PlanSetting
    infinity: float
    one: float
    unlisted: float
    share: float | None
    clear: float = 1.0

    @property
    def params(self) -> RapporParams:
        """The metric's RapporParams."""
        return self.setting.params


def solve(
    request: PlanRequest, population: Population, progress: Progress = silent
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
    unknown = request.unknown()
    for name, value in DEFAULTS.items():
        if name != unknown and getattr(request, name) is None:
            chosen = 2 if name == "candidates" and request.single_bit else value
            request = _with(request, name, chosen)
    if unknown == "share":
        design = best_design(request, population)
        if design is None or design.share is None:
            raise PlanError(why_nothing(request, None if design is None else design.setting))
        if request.share is not None and design.share > request.share:
            raise PlanError(
                f"share = {request.share:g} is below the smallest that these numbers show with "
                f"power {request.power:g}, {design.share:.3g}: leave out one number (devices, "
                "epsilon, candidates, periods or bytes) and it is solved for"
            )
        return replace(request, share=request.share or design.share), design, unknown
    found = _bisected(request, unknown, population, progress)
    done = best_design(found, population)
    assert done is not None  # noqa: S101 (the bisection has seen it)
    return found, done, unknown


def _bisected(
    request: PlanRequest, unknown: Unknown, population: Population, progress: Progress
) -> PlanRequest:
    """The least number (the most candidates) with which the share asked for is seen."""
    least, most = LIMITS["epsilon_life" if unknown == "epsilon" else unknown]
    if unknown == "epsilon":
        least, most = 1e-3, min(most, 2 * _LARGEST_INFINITY * request.held)

    def enough(value: float) -> bool:
        design = best_design(_with(request, unknown, value), population)
        return design is not None and design.share is not None and design.share <= request.share  # type: ignore[operator]

    fewer = unknown == "candidates"
    good, bad = (least, most) if fewer else (most, least)
    if enough(bad):
        return _with(request, unknown, bad)
    if not enough(good):
        raise PlanError(_why_impossible(request, unknown, population, good))
    for step in range(_STEPS):
        progress("solving", step, _STEPS)
        middle = math.sqrt(good * bad)
        if unknown != "epsilon":
            middle = math.floor(middle) if fewer else math.ceil(middle)
        if middle in (good, bad) or abs(good / bad - 1) < 1e-4:
            break
        good, bad = (middle, bad) if enough(middle) else (good, middle)
    progress("solving", _STEPS, _STEPS)
    return _with(request, unknown, good)


def _with(request: PlanRequest, name: str, value: float) -> PlanRequest:
    """The request with one number; that of `epsilon` is of a life."""
    changed: dict[str, Any] = {"epsilon_life" if name == "epsilon" else name: value}
    return replace(request, **changed)


def best_design(request: PlanRequest, population: Population) -> Design | None:
    """The design with the most information on a share; None where no mechanism keeps any."""
    made = list(_designs(request))
    if not made:
        return None
    made = [entry for entry in made if can_be_found(entry[0])] or made
    levels = [information(entry[0]) for entry in made]
    best = max(levels)
    near = [entry for entry, level in zip(made, levels, strict=True) if level >= 0.97 * best]
    setting, infinity, one, kind = min(near, key=_size)
    shares = population(setting.candidates)
    tail = float((shares[_COUNTED:] ** 2).sum())
    left = interference(setting, shares[:_COUNTED], tail)
    alone = clear(setting, shares[:_COUNTED], left)
    share = visible_share(setting, request.power, left, alone)
    return Design(kind, setting, infinity, one, left, share, alone)


def _size(entry: tuple[PlanSetting, float, float, str]) -> tuple[int, int]:
    setting = entry[0]
    return setting.params.num_bits, setting.params.num_hashes


def _designs(request: PlanRequest) -> Iterator[tuple[PlanSetting, float, float, str]]:
    devices, candidates = float(request.devices or 1), int(request.candidates or 1)
    for kind, encoding, bits, hashes in _shapes(request, candidates):
        made = mechanism_for(request, hashes, single_bit=request.single_bit)
        if made is None:
            continue
        mechanism, infinity, one = made
        cohorts = 1
        if encoding_named(encoding).hashed:
            cohorts = min(cohorts_affordable(CROWD, int(devices)), MOST_COHORTS)
        params = RapporParams(bits, hashes, cohorts, mechanism, encoding)
        each = int(request.periods or 1)
        yield PlanSetting(params, devices, each, candidates, request.alpha), infinity, one, kind


def _shapes(request: PlanRequest, candidates: int) -> Iterator[tuple[str, str, int, int]]:
    """Kind, encoding, bits and hashes that fit the bytes and the list."""
    most = min(int((request.bytes or DEFAULTS["bytes"]) * 8), MAX_BITS)
    if request.single_bit:
        yield "boolean", "boolean", 1, 1
    elif request.own_bits:
        if candidates < 2:
            raise PlanError(f"candidates = {candidates}: a category needs 2 or more; use a string")
        if candidates <= most:
            yield "category", "one_hot", candidates, 1
            return
        if not request.hashed:
            raise PlanError(
                f"candidates = {candidates:,}: a category has one bit for each, "
                f"{(candidates + 7) // 8:,} bytes; bytes = {most // 8:,} hold {most:,}. "
                "Allow more bytes, or use kind = 'string'"
            )
    if request.hashed:
        for bits in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
            if bits <= most:
                for hashes in range(1, min(MOST_HASHES, bits // 4) + 1):
                    yield "string", "bloom", bits, hashes


def mechanism_for(
    request: PlanRequest, hashes: int, *, single_bit: bool
) -> tuple[TwoRoundMechanism, float, float] | None:
    """RAPPOR's rounds for the given epsilons; None where they would keep nothing.

    Returns the mechanism, epsilon_infinity and epsilon_one as declared in `metrics.toml`.

    Raises:
        PlanError: where the epsilons contradict one another.
    """
    part = 2.0 if single_bit else 1 / hashes
    most = _LARGEST_INFINITY * (0.5 if single_bit else hashes)
    if request.epsilon_life is not None:
        most = min(most, request.epsilon_life / request.held)
        if request.epsilon_report is not None and request.epsilon_report >= most:
            raise PlanError(
                f"epsilon_report = {request.epsilon_report:g} is not below the {most:.4g} that "
                f"epsilon_life = {request.epsilon_life:g} leaves each of {request.held} values: "
                "lower it or leave it out, allow fewer values, or a larger epsilon_life"
            )
    elif request.epsilon_year is None:
        most = min(most, (request.epsilon_report or math.inf) / USUAL_RATIO)

    def made(infinity: float) -> tuple[TwoRoundMechanism, float, float] | None:
        infinity = _down(infinity)
        one = _down(min(request.epsilon_report or math.inf, USUAL_RATIO * infinity))
        if request.epsilon_report is not None and request.epsilon_report < infinity:
            one = _down(min(request.epsilon_report, 0.9 * infinity))
        try:
            return TwoRoundMechanism.symmetric(infinity * part, one * part), infinity, one
        except ParameterError:
            return None

    if request.epsilon_year is None:
        return made(most)
    return _within_year(request, hashes, single_bit, most, made)


def _within_year(
    request: PlanRequest,
    hashes: int,
    single_bit: bool,
    most: float,
    made: Callable[[float], tuple[TwoRoundMechanism, float, float] | None],
) -> tuple[TwoRoundMechanism, float, float] | None:
    """The largest epsilon_infinity whose year of reports of one value costs no more than asked."""
    reports, encoding = PERIODS_A_YEAR[request.period], "boolean" if single_bit else "one_hot"
    if request.epsilon_report is not None and request.epsilon_report > request.epsilon_year:  # type: ignore[operator]
        raise PlanError(
            f"epsilon_report = {request.epsilon_report:g} is above epsilon_year = "
            f"{request.epsilon_year:g}, which holds at least one report; lower it or leave it out"
        )
    low, high, kept = 0.0, most, None
    for step in range(_STEPS):
        middle = most if step == 0 else (low + high) / 2
        found = made(middle)
        cost = 0.0
        if found is not None:
            params = RapporParams(1 if single_bit else 2, 1, 1, found[0], encoding)
            cost = hashes * params.epsilon_n(reports)
        if cost <= request.epsilon_year:  # type: ignore[operator]
            low, kept = middle, found or kept
            if step == 0:
                break
        else:
            high = middle
    return kept


def _down(value: float) -> float:
    """Round down to a few digits, so that the declared number is the one that counts."""
    scale = 10.0 ** (_SIGNIFICANT - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale + 1e-9) / scale


def _why_impossible(
    request: PlanRequest, unknown: Unknown, population: Population, good: float
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
        "bytes": "the noise, which more bits do not lower",
        "share": "",
    }[unknown]
    name = {"epsilon": "epsilon_life"}.get(unknown, unknown)
    return (
        f"share = {request.share:g} cannot be seen with power {request.power:g} by any {name}: at "
        f"{name} = {good:,.4g} the smallest is {at_best}. It is bounded by {why}. Ask for a larger "
        "share, or change another number"
    )
