"""The mechanisms that a plan may declare: for given epsilons, in mode `memo` and in mode `once`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from decoder.errors import PlanError
from metric_design.request import PERIODS_A_YEAR, PlanRequest
from rappor_core.errors import ParameterError
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.params import RapporParams

USUAL_RATIO = 0.5  # of epsilon_one to epsilon_infinity, where nobody says
LARGEST = 19.0  # of one pair of bits, that probabilities over 2**16 can hold
_STEPS = 24  # of a bisection
_SIGNIFICANT = 4  # digits of an epsilon of a design, rounded down


@dataclass(frozen=True)
class Noise:
    """A mechanism that a metric may declare.

    mode: `memo`, a permanent response behind each report; `once`, one report for life.
    name: of the mechanism, for people.  lines: keys of `metrics.toml` that declare it.
    """

    mode: Literal["memo", "once"]
    name: str
    mechanism: TwoRoundMechanism
    lines: tuple[str, ...]


def noises(request: PlanRequest, hashes: int) -> Iterator[Noise]:
    """The mechanisms of the modes asked for that keep within the epsilons.

    Args:
        request: with an epsilon.
        hashes: of a value, among which an epsilon is divided.

    Raises:
        PlanError: where the epsilons contradict one another.
    """
    if request.mode != "memo":
        yield from _of_one_report(request, hashes)
    if request.mode != "once":
        for name in ("rappor",) if request.single_bit else ("rappor", "l-osue"):
            noise = _memoised(request, hashes, name)
            if noise is not None:
                yield noise


def _of_one_report(request: PlanRequest, hashes: int) -> Iterator[Noise]:
    """Unary encoding, symmetric and optimised (Wang et al. 2017), rounded towards privacy."""
    given = (request.epsilon_report, request.epsilon_year, request.epsilon_life)
    pair = min(value for value in given if value is not None)
    pair = min(pair * (2 if request.single_bit else 1 / hashes), LARGEST)
    lies = {"one report, symmetric": 1 / (1 + math.exp(pair / 2))}
    if not request.single_bit:
        lies["one report, optimised"] = 1 / (1 + math.exp(pair))
    for name, lie in lies.items():
        p = math.ceil(PROBABILITY_SCALE * lie)
        q = PROBABILITY_SCALE // 2 if name.endswith("optimised") else PROBABILITY_SCALE - p
        if p >= q:
            continue
        chances = p / PROBABILITY_SCALE, q / PROBABILITY_SCALE
        keys = "prob_f = 0.0", f"prob_p = {chances[0]:.6f}", f"prob_q = {chances[1]:.6f}"
        mechanism = TwoRoundMechanism.rappor(0, *chances)
        yield Noise("once", name, mechanism, (*keys, "max_reports = 1"))


def _memoised(request: PlanRequest, hashes: int, name: str) -> Noise | None:
    """RAPPOR's rounds, or those of L-OSUE, for the given epsilons; None where they would keep
    nothing."""
    single_bit, held = request.single_bit, request.held
    part = 2.0 if single_bit else 1 / hashes
    most = LARGEST * (0.5 if single_bit else hashes)
    if request.epsilon_life is not None:
        most = min(most, request.epsilon_life / held)
        if request.epsilon_report is not None and request.epsilon_report >= most:
            raise PlanError(
                f"epsilon_report = {request.epsilon_report:g} is not below the {most:.4g} that "
                f"epsilon_life = {request.epsilon_life:g} leaves each of {held} values: "
                "lower it or leave it out, allow fewer values, or a larger epsilon_life"
            )
    elif request.epsilon_year is None:
        most = min(most, (request.epsilon_report or math.inf) / USUAL_RATIO)
    make = TwoRoundMechanism.optimised if name == "l-osue" else TwoRoundMechanism.symmetric

    def made(infinity: float) -> Noise | None:
        infinity = rounded_down(infinity)
        one = rounded_down(min(request.epsilon_report or math.inf, USUAL_RATIO * infinity))
        if request.epsilon_report is not None and request.epsilon_report < infinity:
            one = rounded_down(min(request.epsilon_report, 0.9 * infinity))
        lines: tuple[str, ...] = (
            f"epsilon_infinity = {infinity:.10g}",
            f"epsilon_one = {one:.10g}",
        )
        if name != "rappor":
            lines = (f'mechanism = "{name}"', *lines)
        try:
            return Noise("memo", name, make(infinity * part, one * part), lines)
        except ParameterError:
            return None

    if request.epsilon_year is None:
        return made(most)
    return _within_year(request, hashes, most, made)


def _within_year(
    request: PlanRequest, hashes: int, most: float, made: Callable[[float], Noise | None]
) -> Noise | None:
    """The largest epsilon_infinity whose year of reports of one value costs no more than asked."""
    single_bit = request.single_bit
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
            params = RapporParams(1 if single_bit else 2, 1, 1, found.mechanism, encoding)
            cost = hashes * params.epsilon_n(reports)
        if cost <= request.epsilon_year:  # type: ignore[operator]
            low, kept = middle, found or kept
            if step == 0:
                break
        else:
            high = middle
    return kept


def rounded_down(value: float) -> float:
    """Round down to a few digits, so that the declared number is the one that counts."""
    scale = 10.0 ** (_SIGNIFICANT - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale + 1e-9) / scale
