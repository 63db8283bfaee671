"""Is the number of values found that `rappor plan` predicts of whole lists true?

The default correction finds a value the more easily the more others it finds, so whole lists are
drawn and decoded. On none of these settings was a formula chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from decoder import Candidates, DecodeOptions, decode
from decoder.typing import Floats
from metric_design.detection import PlanSetting, expected_found
from metric_design.population import zipf_shares
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate

P, Q = 0.5, 0.75


@dataclass(frozen=True, slots=True)
class ListCase:
    """A list that is decoded. shares: of the values that are held; nobody holds the others."""

    name: str
    setting: PlanSetting
    shares: Floats


@dataclass(frozen=True, slots=True)
class SeenCheck:
    """A quantity, predicted and seen. error: standard error of what is seen.

    Of standard errors `seen` is the root mean square of the errors.
    """

    name: str
    quantity: str
    predicted: float
    seen: float
    error: float
    draws: int

    @property
    def ratio(self) -> float:
        """Predicted over seen."""
        return self.predicted / self.seen if self.seen else math.inf


def list_cases() -> list[ListCase]:
    """Ten lists: strings in many cohorts and in few, and categories."""
    bloom, own = _rappor, _category
    return [
        _case("200 of 200 held, 16 cohorts", bloom(32, 2, 16, 0.5), 1e5, 200, zipf_shares(1, 200)),
        _case("40 of 300 held, 16 cohorts", bloom(32, 2, 16, 0.0), 1e5, 300, zipf_shares(1, 40)),
        _case("300 of 600 held, exponent 2, L-OSUE, 64 cohorts", _osue(32, 64), 1e6, 600,
              zipf_shares(2, 300)),
        _case("30 alike of 500, L-OSUE, 64 cohorts", _osue(16, 64), 1e5, 500, np.full(30, 1 / 30)),
        _case("category of 12", own(12, 0.0), 2_000, 12, zipf_shares(1, 12)),
        _case("category of 60, exponent 1.5, 7 reports each", own(60, 0.25), 2e4, 60,
              zipf_shares(1.5, 60), each=7),
        _case("100 of 100 held, exponent .8, 4 cohorts", bloom(64, 2, 4, 0.25), 3e4, 100,
              zipf_shares(0.8, 100)),
        _case("30 alike of 100, one report for life, 2 cohorts", _once(64, 1, 2), 3_000, 100,
              np.full(30, 1 / 30)),
        _case("50 of 200 held, 2 cohorts", bloom(64, 2, 2, 0.25), 5e4, 200, zipf_shares(1, 50)),
        _case("15 of 40 held, one report for life, a single cohort", _once(64, 2, 1), 2_000, 40,
              zipf_shares(1, 15)),
    ]  # fmt: skip


def _case(
    name: str, params: RapporParams, devices: float, listed: int, shares: Floats, each: int = 1
) -> ListCase:
    return ListCase(name, PlanSetting(params, devices, each, listed), shares)


def _rappor(bits: int, hashes: int, cohorts: int, f: float) -> RapporParams:
    return RapporParams.rappor(
        num_bits=bits, num_hashes=hashes, num_cohorts=cohorts, prob_f=f, prob_p=P, prob_q=Q
    )


def _category(values: int, f: float) -> RapporParams:
    return RapporParams.rappor(
        num_bits=values, num_hashes=1, num_cohorts=1, prob_f=f, prob_p=P, prob_q=Q,
        encoding="one_hot",
    )  # fmt: skip


def _osue(bits: int, cohorts: int) -> RapporParams:
    return RapporParams(bits, 1, cohorts, TwoRoundMechanism.optimised(2.0, 1.0))


def _once(bits: int, hashes: int, cohorts: int) -> RapporParams:
    return RapporParams(bits, hashes, cohorts, TwoRoundMechanism.one_shot(4.0 / hashes))


def check_list(case: ListCase, runs: int, rng: np.random.Generator) -> Iterator[SeenCheck]:
    """Draw and decode a list so many times; each run has a stream of its own."""
    found = [_found(case, one) for one in rng.spawn(runs)]
    predicted, _ = expected_found(case.setting, case.shares)
    error = float(np.std(found, ddof=1)) / math.sqrt(runs) if runs > 1 else math.nan
    yield SeenCheck(case.name, "values found", predicted, float(np.mean(found)), error, runs)


def _found(case: ListCase, rng: np.random.Generator) -> int:
    """How many of the values that are held are found in one window."""
    setting = case.setting
    tag = str(rng.integers(1 << 40)) if setting.params.scheme.hashed else ""
    names = [f"v{tag}-{number}" for number in range(setting.candidates)]
    held = np.zeros(len(names))
    held[: len(case.shares)] = case.shares / case.shares.sum()
    aggregate, _ = draw_aggregate(
        names, held, int(setting.devices), setting.params, rng, reports_each=setting.reports_each
    )
    options = DecodeOptions(
        correction=setting.correction, alpha=setting.alpha, repeats=float(setting.reports_each)
    )
    table = decode(aggregate, Candidates.from_strings(names), options).candidates
    detected = dict(zip(table.values, table.detected, strict=True))
    return sum(bool(detected.get(name, False)) for name in names[: len(case.shares)])
