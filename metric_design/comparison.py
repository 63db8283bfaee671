"""Compare mechanisms for the same devices, values and lifetime epsilon."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from decoder.progress import Progress, silent
from metric_design.design import Design, best_design
from metric_design.detection import PlanSetting, detectable_share, theory
from metric_design.noise import USUAL_RATIO
from metric_design.population import ExpectedShares
from metric_design.request import Mode, PlanRequest
from rappor_core.errors import ParameterError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import MAX_BITS, RapporParams

_MODES = {"once": "one report for life", "memo": "a report each period"}
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
    request: PlanRequest,
    design: Design,
    life: float,
    population: ExpectedShares,
    known: Design | None = None,
    progress: Progress = silent,
) -> list[Alternative]:
    """The plan first, then the other mode, basic RAPPOR, symbols, and Chrome's presets.

    life: epsilon of a device's life, in nats.  known: the design of the other mode, if it is.
    """
    rows = [_designed("recommended", design, life, life)]
    other: Mode = "memo" if design.noise.mode == "once" else "once"
    asked = replace(
        request, mode=other, epsilon_report=None, epsilon_year=None, epsilon_life=life, share=None
    )
    progress("comparing", 1, 4)
    found = known or best_design(asked, population)
    if found is not None:
        rows.append(_designed(_MODES[other], found, life, life))
    progress("comparing", 2, 4)
    epsilons = life / asked.values, USUAL_RATIO * life / asked.values
    setting = replace(design.setting, reports_each=int(request.periods or 1))
    for mechanism in (_basic, _symbols):
        rows.extend(mechanism(request, setting, epsilons, life, population))
    progress("comparing", 3, 4)
    for name, f in (("Chrome NORMAL", 0.5), ("Chrome SPARSE", 0.25)):
        params = _chrome(f)
        shaped = replace(setting, params=params)
        rows.append(_row(name, shaped, request, life, population, _shape(params)))
    raised = _raised(0.25, epsilons[0])
    if raised is not None:  # the presets differ in f alone
        note = f"f = {raised:.3f}, so that it costs no more"
        shaped = replace(setting, params=_chrome(raised))
        rows.append(_row("Chrome, f raised", shaped, request, life, population, note))
    progress("comparing", 4, 4)
    return rows


def _designed(name: str, design: Design, spent: float, life: float) -> Alternative:
    """The row of a design that the planner chose."""
    params = design.params
    note = f"{design.noise.name}, {_shape(params)}"
    return Alternative(
        name, design.share, params.epsilon_one, spent, params.report_bytes,
        spent <= life * (1 + _SLACK), note,
    )  # fmt: skip


def _row(
    name: str,
    setting: PlanSetting,
    request: PlanRequest,
    life: float,
    population: ExpectedShares,
    note: str,
    cost: float | None = None,
) -> Alternative:
    params = setting.params
    spent = params.epsilon_infinity * request.values if cost is None else cost
    given = theory(setting, population(setting.candidates))
    return Alternative(
        name=name,
        share=detectable_share(setting, request.power, given),
        epsilon_one=params.epsilon_one,
        epsilon_life=spent,
        bytes=params.report_bytes,
        fits=spent <= life * (1 + _SLACK),
        note=note,
    )


def _shape(params: RapporParams) -> str:
    return f"k = {params.num_bits}, h = {params.num_hashes}, m = {params.num_cohorts}"


def _basic(
    request: PlanRequest,
    setting: PlanSetting,
    epsilons: tuple[float, float],
    life: float,
    population: ExpectedShares,
) -> list[Alternative]:
    """One bit a value, with RAPPOR's symmetric rounds and with those of L-OSUE."""
    number = setting.candidates
    if not 2 <= number <= MAX_BITS or request.single_bit or setting.params.scheme.own_bits:
        return []
    rows = []
    for title, make in (
        ("basic RAPPOR", TwoRoundMechanism.symmetric),
        ("L-OSUE, basic", TwoRoundMechanism.optimised),
    ):
        try:
            params = RapporParams(number, 1, 1, make(*epsilons), "one_hot")
        except ParameterError:
            continue
        needs = "needs the whole list of values beforehand"
        rows.append(_row(title, replace(setting, params=params), request, life, population, needs))
    return rows


def _symbols(
    request: PlanRequest,
    setting: PlanSetting,
    epsilons: tuple[float, float],
    life: float,
    population: ExpectedShares,
) -> list[Alternative]:
    """LOLOHA: the best number of symbols; a device holds at most one response for each."""
    best: Alternative | None = None
    ratio, cohorts = epsilons[1] / epsilons[0], max(setting.params.num_cohorts, 2)
    for symbols in (2, 3, 4, 8, 16):
        held = min(request.values, symbols)
        try:
            mechanism = TwoRoundMechanism.symbols(symbols, life / held, ratio * life / held)
            params = RapporParams(symbols, 1, cohorts, mechanism, "symbol")
        except ParameterError:
            continue
        note = f"{symbols} symbols; declared for location metrics only"
        row = _row(
            "symbols (LOLOHA)", replace(setting, params=params), request, life, population, note,
            held * params.epsilon_infinity,
        )  # fmt: skip
        if best is None or (row.share or 2) < (best.share or 2):
            best = row
    none = Alternative("symbols (LOLOHA)", None, 0, 0, 1, False, "not with these epsilons")
    return [best or none]


def _chrome(f: float) -> RapporParams:
    """`components/rappor/public/rappor_parameters.h`, 2016: UMA's 4 bytes."""
    return RapporParams.rappor(
        num_bits=32, num_hashes=2, num_cohorts=128, prob_f=f, prob_p=0.25, prob_q=0.75
    )


def _raised(f: float, infinity: float) -> float | None:
    """The f at which Chrome's two hashes cost `infinity` a value, if that is above f."""
    raised = float(2 / (1 + np.exp(infinity / 4)))
    return None if not f < raised < 0.99998 else np.ceil(raised * 32768) / 32768
