"""The experiments of the RAPPOR paper (arXiv:1407.6981, section 5.1), repeated with fresh draws.

`normal` is basic one-time RAPPOR on a rounded normal variable, at three numbers of reports.
`exponential` has 200 candidate strings, of which 100 have exponentially falling shares."""

from dataclasses import dataclass

import numpy as np

from decoder import Candidates, DecodeOptions, Decoding, decode
from decoder.typing import Floats
from rappor_core.params import RapporParams
from simulations.outcome import Columns
from simulations.populations.draws import draw_aggregate
from simulations.populations.fleet import exponential_shares, normal_shares

COLUMNS: Columns = (
    ("experiment", "name", "s"), ("reports", "reports", ",d"), ("held", "values_held", "d"),
    ("found", "found_true", "d"), ("false", "found_false", "d"), ("missed", "found_missed", "d"),
    ("coverage", "interval_coverage", ".4g"), ("detectable share", "detectable_share", ".4g"),
    ("above 2 errors, held", "above_two_errors_true", "d"),
    ("false ", "above_two_errors_false", "d"), ("epsilon_one", "epsilon_one", ".4g"),
)  # fmt: skip

NORMAL_MEAN, NORMAL_DEVIATION, NORMAL_HIGHEST = 50.0, 10.0, 100
NORMAL_REPORTS = (10_000, 100_000, 1_000_000)
EXPONENTIAL_REPORTS = 1_000_000
EXPONENTIAL_PARAMS = RapporParams.rappor(
    num_bits=128, num_hashes=2, num_cohorts=16, prob_f=0.5, prob_p=0.5, prob_q=0.75
)
EXPONENTIAL_VALUES, EXPONENTIAL_CANDIDATES, EXPONENTIAL_RATE = 100, 200, 0.05


@dataclass(frozen=True, slots=True)
class Experiment:
    """A decoding together with the true shares."""

    name: str
    values: list[str]  # The listed values, (M,)
    true_shares: Floats  # Realized shares of the reports, (M,); 0 if not held
    decoding: Decoding

    def row(self) -> dict[str, str | int | float]:
        """Return the counts and rates of the experiment by the names of the table's columns."""
        summary, (above, false_above) = self.decoding.summary, self.above_two_errors
        return {
            "name": self.name,
            "reports": summary.num_reports,
            "values_held": int((self.true_shares > 0).sum()),
            "found_true": self.true_positives,
            "found_false": self.false_positives,
            "found_missed": self.missed,
            "interval_coverage": self.coverage,
            "detectable_share": summary.detectable_share,
            "above_two_errors_true": above,
            "above_two_errors_false": false_above,
            "epsilon_one": summary.epsilon_one,
        }

    @property
    def true_positives(self) -> int:
        """Return the number of detected values that devices hold."""
        return int((self.decoding.candidates.detected & (self.true_shares > 0)).sum())

    @property
    def false_positives(self) -> int:
        """Return the number of detected values that no device holds."""
        return int((self.decoding.candidates.detected & (self.true_shares == 0)).sum())

    @property
    def above_two_errors(self) -> tuple[int, int]:
        """Return the numbers of held and of unheld values with scores above 2.

        This rule, which ignores the length of the list, reproduces the paper's own numbers (47 and
        2 in the exponential experiment). About one wrong candidate in 44 scores above 2."""
        above, present = self.decoding.candidates.z > 2, self.true_shares > 0
        return int((above & present).sum()), int((above & ~present).sum())

    @property
    def missed(self) -> int:
        """Return the number of detected values whose selected interval misses the true share."""
        table = self.decoding.candidates
        inside = (table.selected_low <= self.true_shares) & (
            self.true_shares <= table.selected_high
        )
        return int((table.detected & ~inside).sum())

    @property
    def coverage(self) -> float:
        """Return the share of all candidates whose interval contains the realized share."""
        table = self.decoding.candidates
        return float(((table.low <= self.true_shares) & (self.true_shares <= table.high)).mean())


def normal(num_reports: int, rng: np.random.Generator, options: DecodeOptions) -> Experiment:
    """Draw and decode basic one-time RAPPOR, p = .5, q = .75, one bit for each number 0 to 100."""
    shares = normal_shares(NORMAL_MEAN, NORMAL_DEVIATION, NORMAL_HIGHEST)
    params = RapporParams.rappor(
        num_bits=len(shares),
        num_hashes=1,
        num_cohorts=1,
        prob_f=0,
        prob_p=0.5,
        prob_q=0.75,
        encoding="one_hot",
    )
    values = [str(number) for number in range(len(shares))]
    name = f"normal, {num_reports:,} reports"
    return _run(name, values, shares, num_reports, params, rng, options)


def exponential(num_reports: int, rng: np.random.Generator, options: DecodeOptions) -> Experiment:
    """Draw and decode: k = 128, h = 2, m = 16, f = p = .5, q = .75, half the candidates wrong."""
    values, shares = exponential_population()
    return _run("exponential", values, shares, num_reports, EXPONENTIAL_PARAMS, rng, options)


def exponential_population() -> tuple[list[str], Floats]:
    """Return the candidates (devices hold the first half) and their shares, (200,)."""
    shares = np.zeros(EXPONENTIAL_CANDIDATES)
    shares[:EXPONENTIAL_VALUES] = exponential_shares(EXPONENTIAL_VALUES, EXPONENTIAL_RATE)
    return [f"v{number}" for number in range(1, EXPONENTIAL_CANDIDATES + 1)], shares


def _run(
    name: str,
    values: list[str],
    shares: Floats,
    num_reports: int,
    params: RapporParams,
    rng: np.random.Generator,
    options: DecodeOptions,
) -> Experiment:
    aggregate, holders = draw_aggregate(values, shares, num_reports, params, rng)
    decoding = decode(aggregate, Candidates.from_strings(values), options)
    return Experiment(name, values, holders / num_reports, decoding)
