"""Compare mechanisms for the same devices, values and lifetime epsilon."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from decoder.progress import Progress, silent
from metric_design.design import Design
from metric_design.detection import PlanSetting, clear, interference, visible_share
from metric_design.population import Population
from metric_design.request import PlanRequest
from rappor_core.errors import ParameterError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import MAX_BITS, RapporParams

_COUNTED = 2_000
_SLACK = 1e-3  # of a lifetime epsilon, for the rounding of probabilities


@dataclass(frozen=True)
class Alternative:
    """A mechanism in the comparison. share: the smallest found with the power asked for; None:
    none, or not possible.

    epsilon_one, epsilon_life: nats.  fits: whether it costs a device no more than the plan.
    bytes: of a report.  note: what it takes.
    """

    name: str
    share: float | None
    epsilon_one: float
    epsilon_life: float
    bytes: int
    fits: bool
    note: str


def compare(
    request: PlanRequest, design: Design, population: Population, progress: Progress = silent
) -> list[Alternative]:
    """The plan first, then basic RAPPOR, symbols, one report for life, and Chrome's presets."""
    life = design.params.epsilon_infinity * request.held
    rows = [_row("recommended", design.setting, request, life, population, _shape(design.params))]
    others = (_basic, _symbols, _one_time)
    for done, mechanism in enumerate(others, 1):
        progress("comparing", done, len(others) + 1)
        rows.extend(mechanism(request, design, life, population))
    for name, f in (("Chrome NORMAL", 0.5), ("Chrome SPARSE", 0.25)):
        params = _chrome(f)
        rows.append(_row(name, _like(design, params), request, life, population, _shape(params)))
    raised = _raised(0.25, life / request.held)
    if raised is not None:  # the presets differ in f alone
        setting = _like(design, _chrome(raised))
        note = f"f = {raised:.3f}, so that it costs no more"
        rows.append(_row("Chrome, f raised", setting, request, life, population, note))
    progress("comparing", len(others) + 1, len(others) + 1)
    return rows


def _row(
    name: str,
    setting: PlanSetting,
    request: PlanRequest,
    life: float,
    population: Population,
    note: str,
    cost: float | None = None,
) -> Alternative:
    shares = population(setting.candidates)
    left = interference(setting, shares[:_COUNTED], float((shares[_COUNTED:] ** 2).sum()))
    params = setting.params
    spent = params.epsilon_infinity * request.held if cost is None else cost
    return Alternative(
        name=name,
        share=visible_share(setting, request.power, left, clear(setting, shares[:_COUNTED], left)),
        epsilon_one=params.epsilon_one,
        epsilon_life=spent,
        bytes=params.report_bytes,
        fits=spent <= life * (1 + _SLACK),
        note=note,
    )


def _like(design: Design, params: RapporParams) -> PlanSetting:
    return replace(design.setting, params=params)


def _shape(params: RapporParams) -> str:
    return f"k = {params.num_bits}, h = {params.num_hashes}, m = {params.num_cohorts}"


def _basic(
    request: PlanRequest, design: Design, life: float, population: Population
) -> list[Alternative]:
    """One bit a value, with RAPPOR's symmetric rounds and with those of L-OSUE."""
    number = design.setting.candidates
    name, needs = "basic RAPPOR", "needs the whole list of values beforehand"
    if not 2 <= number <= MAX_BITS or request.single_bit:
        return []
    rows = []
    for title, make in (
        (name, TwoRoundMechanism.symmetric),
        ("L-OSUE", TwoRoundMechanism.optimised),
    ):
        try:
            params = RapporParams(number, 1, 1, make(design.infinity, design.one), "one_hot")
        except ParameterError:
            continue
        rows.append(_row(title, _like(design, params), request, life, population, needs))
    return rows


def _symbols(
    request: PlanRequest, design: Design, life: float, population: Population
) -> list[Alternative]:
    """LOLOHA: the best number of symbols; a device holds at most one response for each."""
    best: Alternative | None = None
    for symbols in (2, 3, 4, 8, 16):
        held = min(request.held, symbols)
        infinity = life / held
        try:
            mechanism = TwoRoundMechanism.symbols(
                symbols, infinity, design.one / design.infinity * infinity
            )
            params = RapporParams(
                symbols, 1, max(design.params.num_cohorts, 2), mechanism, "symbol"
            )
        except ParameterError:
            continue
        note = f"{symbols} symbols; declared for location metrics only"
        row = _row(
            "symbols (LOLOHA)", _like(design, params), request, life, population, note,
            held * params.epsilon_infinity,
        )  # fmt: skip
        if best is None or (row.share or 2) < (best.share or 2):
            best = row
    none = Alternative("symbols (LOLOHA)", None, 0, 0, 1, False, "not with these epsilons")
    return [best or none]


def _one_time(
    request: PlanRequest, design: Design, life: float, population: Population
) -> list[Alternative]:
    """All of the lifetime epsilon in a single report, which is the last."""
    found: Alternative | None = None
    for hashes in range(1, 5):
        try:
            part = 2.0 if design.params.scheme.single_bit else 1 / hashes
            mechanism = TwoRoundMechanism.rappor(0, *_p_and_q(min(life * part, 20.0)))
        except ParameterError:
            continue
        base = design.params
        params = (
            base.replace(mechanism=mechanism)
            if base.scheme.own_bits
            else base.replace(mechanism=mechanism, num_hashes=hashes)
        )
        if params.epsilon_one > life * (1 + _SLACK):
            continue
        setting = replace(design.setting, params=params, reports_each=1)
        note = "f = 0: one report in a device's life, then none: no second window"
        row = _row("one-time RAPPOR", setting, request, life, population, note, params.epsilon_one)
        if found is None or (row.share or 2) < (found.share or 2):
            found = row
    none = Alternative("one-time RAPPOR", None, 0, 0, 1, False, "not with this epsilon")
    return [found or none]


def _p_and_q(epsilon: float) -> tuple[float, float]:
    shown = float(1 / (1 + np.exp(-epsilon / 2)))
    return 1 - shown, shown


def _chrome(f: float) -> RapporParams:
    """`components/rappor/public/rappor_parameters.h`, 2016: UMA's 4 bytes."""
    return RapporParams.rappor(
        num_bits=32, num_hashes=2, num_cohorts=128, prob_f=f, prob_p=0.25, prob_q=0.75
    )


def _raised(f: float, infinity: float) -> float | None:
    """The f at which Chrome's two hashes cost `infinity` a value, if that is above f."""
    raised = float(2 / (1 + np.exp(infinity / 4)))
    return None if not f < raised < 0.99998 else np.ceil(raised * 32768) / 32768
