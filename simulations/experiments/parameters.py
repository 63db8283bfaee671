"""An experiment: how each parameter changes detection in the paper's exponential population.

k, h, m, f, p and q are varied around k = 128, h = 2, m = 16, f = .5, p = .5, q = .75, each with the
prediction of `rappor plan`; h also with the noise that keeps both epsilons. Against f: how many of
those found are false, by rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoder import Candidates, DecodeOptions, decode
from decoder.inference.multiple_testing import decide
from metric_design.detection import PlanSetting, expected_found
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.experiments.paper import (
    EXPONENTIAL_CANDIDATES,
    EXPONENTIAL_RATE,
    EXPONENTIAL_VALUES,
)
from simulations.populations.draws import draw_listed
from simulations.populations.populations import exponential_shares

Floats = NDArray[np.float64]

REPORTS, ALPHA, TWO_ERRORS = 1_000_000, 0.05, 2.0
BASE = {
    "num_bits": 128,
    "num_hashes": 2,
    "num_cohorts": 16,
    "prob_f": 0.5,
    "prob_p": 0.5,
    "prob_q": 0.75,
}
SWEEPS: dict[str, tuple[float, ...]] = {
    "num_hashes": (1, 2, 4, 8, 16),
    "num_bits": (16, 32, 64, 128, 256, 512),
    "num_cohorts": (1, 2, 4, 8, 16, 32, 64),
    "prob_f": (0.0, 0.25, 0.5, 0.75, 0.9),
    "prob_p": (0.05, 0.25, 0.4, 0.5, 0.6, 0.7),
    "prob_q": (0.55, 0.65, 0.75, 0.85, 0.95),
}
EQUAL = "num_hashes, equal epsilons"
RULES = ("bonferroni", "bh", "two errors")


@dataclass(frozen=True)
class Row:
    """The result for one setting, over runs.

    found, error: of 100 held values by Bonferroni, mean and its standard error; predicted: by
    `rappor plan`.  false_*: of 100 wrong candidates, mean by rule; proportion_*: mean part of what
    is found that is false.
    """

    parameter: str
    value: float
    epsilon_infinity: float
    epsilon_one: float
    runs: int
    found: float
    error: float
    predicted: float
    false_bonferroni: float
    false_bh: float
    false_two_errors: float
    proportion_bonferroni: float
    proportion_bh: float
    proportion_two_errors: float


def settings() -> Iterator[tuple[str, float, RapporParams]]:
    """Yield for each run the name of the changed parameter, its value, and all parameters."""
    for name, values in SWEEPS.items():
        for value in values:
            yield name, value, RapporParams.rappor(**{**BASE, name: value})  # type: ignore[arg-type]
    base = RapporParams.rappor(**BASE)  # type: ignore[arg-type]
    for value in SWEEPS["num_hashes"]:
        hashes = int(value)
        mechanism = TwoRoundMechanism.symmetric(
            base.epsilon_infinity / hashes, base.epsilon_one / hashes
        )
        yield EQUAL, value, base.replace(num_hashes=hashes, mechanism=mechanism)


def parameters(
    runs: int,
    reports: int,
    rng: np.random.Generator,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Row]:
    """Draw and decode every setting `runs` times; strings are new each time."""
    rows = []
    for name, value, params in settings():
        rows.append(_row(name, value, params, reports, runs, rng))
        advance(1)
    return rows


def held_shares() -> Floats:
    """True shares of the candidates, (200,), the held ones first."""
    shares = np.zeros(EXPONENTIAL_CANDIDATES)
    shares[:EXPONENTIAL_VALUES] = exponential_shares(EXPONENTIAL_VALUES, EXPONENTIAL_RATE)
    return shares


def _row(
    name: str, value: float, params: RapporParams, reports: int, runs: int, rng: np.random.Generator
) -> Row:
    shares = held_shares()
    counts = np.array([_run(params, shares, reports, rng) for _ in range(runs)])  # (runs, rules, 2)
    found, false = counts[:, :, 0], counts[:, :, 1]
    proportion = (false / np.maximum(found + false, 1)).mean(axis=0)
    wrong = false.mean(axis=0)
    error = float(found[:, 0].std(ddof=1)) / runs**0.5 if runs > 1 else float("nan")
    plan = PlanSetting(params, reports, 1, len(shares), ALPHA, "bonferroni")
    return Row(
        name,
        value,
        params.epsilon_infinity,
        params.epsilon_one,
        runs,
        float(found[:, 0].mean()),
        error,
        expected_found(plan, shares[shares > 0])[0],
        *map(float, wrong),
        *map(float, proportion),
    )


def _run(
    params: RapporParams, shares: Floats, reports: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """True and false ones among those that each rule finds."""
    tag = int(rng.integers(1 << 40))
    listed = Candidates.from_strings(f"v{tag}-{i}" for i in range(len(shares)))
    aggregate, _ = draw_listed(listed.positions(params), shares, reports, params, rng)
    table = decode(
        aggregate, listed, DecodeOptions(correction="bonferroni", alpha=ALPHA)
    ).candidates
    accepted = [
        decide(table.p_value, table.local_fdr, "bonferroni", ALPHA).detected,
        decide(table.p_value, table.local_fdr, "bh", ALPHA).detected,
        table.z > TWO_ERRORS,
    ]
    held = shares > 0
    return [(int((one & held).sum()), int((one & ~held).sum())) for one in accepted]
