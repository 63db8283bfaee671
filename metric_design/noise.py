"""The mechanisms that a plan may declare: for an epsilon, in mode `memo` and in mode `once`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from metric_design.metric_plan import rounded_down
from metric_design.request import PlanRequest
from rappor_core.errors import ParameterError
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism

USUAL_RATIO = 0.5  # of epsilon_one to epsilon_infinity
LARGEST = 19.0  # of one pair of bits, that probabilities over 2**16 can hold


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
    """Yield the mechanisms of the modes asked for that keep within the epsilon.

    Args:
        request: with an epsilon.
        hashes: of a value, among which the epsilon is divided.
    """
    life = request.epsilon_life or math.inf
    if request.mode != "memo":
        yield from _of_one_report(life, hashes, single_bit=request.single_bit)
    if request.mode != "once":
        for name in ("rappor",) if request.single_bit else ("rappor", "l-osue"):
            noise = _memoised(request, life, hashes, name)
            if noise is not None:
                yield noise


def _of_one_report(life: float, hashes: int, *, single_bit: bool) -> Iterator[Noise]:
    """Unary encoding, symmetric and optimised (Wang et al. 2017), rounded towards privacy."""
    pair = min(life * (2 if single_bit else 1 / hashes), LARGEST)
    lies = {"one report, symmetric": 1 / (1 + math.exp(pair / 2))}
    if not single_bit:
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


def _memoised(request: PlanRequest, life: float, hashes: int, name: str) -> Noise | None:
    """Return RAPPOR's rounds, or those of L-OSUE; None if they would keep nothing."""
    part = 2.0 if request.single_bit else 1 / hashes
    most = LARGEST * (0.5 if request.single_bit else hashes)
    infinity = rounded_down(min(most, life / request.held))
    one = rounded_down(USUAL_RATIO * infinity)
    make = TwoRoundMechanism.optimised if name == "l-osue" else TwoRoundMechanism.symmetric
    lines = f"epsilon_infinity = {infinity:.10g}", f"epsilon_one = {one:.10g}"
    if name != "rappor":
        lines = (f'mechanism = "{name}"', *lines)  # type: ignore[assignment]
    try:
        return Noise("memo", name, make(infinity * part, one * part), lines)
    except ParameterError:
        return None
