"""`Decoding`: all results of a decoding, with what is needed to judge them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoder.decoded_window import DecodedWindow
from decoder.files import to_frame
from decoder.options import DecodeOptions
from decoder.typing import Flags, Floats, Indices

NOTES = (
    "",
    "the estimate is below 0, as that of a value that few or none hold often is by chance",
    "the share is above 1, by chance or because counts and parameters do not belong together",
    "the interval reaches 0: alone the value is not distinguishable from 0 at this level; the rule "
    "accepts so large a p-value because much of the list is there, or because it corrects nothing",
    "the interval reaches 0: the estimate, made with the other values, is weaker than the test, "
    "which was made without the value",
    "the interval reaches 0: the test distinguishes the value from 0, but given the other shares a "
    "value that nobody holds is the likelier cause of such an estimate",
)  # of a row, by number

MAX_PRINTED = 5  # of what was found, by `print`
MAX_JOINED = 5  # values of a group that cannot be distinguished, that are named


@dataclass(frozen=True)
class CandidateTable:
    """The results for all candidates, (M,) each, in the order of the list; the columns of
    candidates.csv (docs/results-columns.md), not cut at 0 or 1.

    group: index of the first candidate that sets the same bits in every cohort.  selected_low,
    selected_high: within 0 and 1; they and the forged columns are NaN if not detected.  note:
    number of one of `NOTES`.  weight: of mean 1 over the groups; None where all are 1.
    """

    values: Sequence[str]
    group: Indices
    estimate: Floats
    std_error: Floats
    low: Floats
    high: Floats
    shrunken: Floats
    z: Floats
    p_value: Floats
    p_adjusted: Floats
    local_fdr: Floats
    detected: Flags
    selected_low: Floats
    selected_high: Floats
    forged: Floats
    forged_low: Floats
    forged_shift: Floats
    note: NDArray[np.uint8]
    weight: Floats | None = None

    @property
    def found(self) -> Indices:
        """Indices of the first of each detected group of same bits, largest share first, (D,)."""
        leaders = np.flatnonzero(self.detected & (self.group == np.arange(len(self.group))))
        return leaders[np.argsort(-self.shrunken[leaders], kind="stable")]


@dataclass(frozen=True)
class Detected:
    """A value that was found: shares in [0, 1], interval after selection, corrected p-value. value:
    the candidates that set the same bits, joined by " | "."""

    value: str
    share: float
    std_error: float
    low: float
    high: float
    p_value: float
    p_adjusted: float
    local_fdr: float
    true_share: float | None
    forged: float
    forged_low: float
    forged_shift: float
    note: str

    @property
    def found(self) -> str:
        """How sure it is that somebody holds the value: "possible" if the interval reaches 0."""
        return "yes" if self.low > 0 else "possible"


@dataclass(frozen=True)
class Summary:
    """The decoding in numbers. Shares and variances are fractions of 1.

    explained, missing, noise: parts of the variance of the bit shares over rows.  signal_explained:
    what the fit explains of all but the noise; None where nothing is distinguishable from 0.
    detectable_share: the smallest share that is found 8 times in 10.  repetition: rho, as used.
    """

    num_candidates: int
    num_groups: int
    num_detected: int
    num_reports: int
    num_cohorts: int
    empty_cohorts: int
    allocated_share: float
    explained: float
    missing: float
    noise: float
    signal_explained: float | None
    detectable_share: float
    epsilon_infinity: float
    epsilon_one: float
    repetition: float


@dataclass(frozen=True)
class Diagnostics:
    """Figures that tell whether the model fits the data.

    method: `cavity`, `lasso` or `direct` (one bit a value).  shrunk: whether a prior was learnt.
    cohort_z: standardized size of each cohort's residual, about normal when the cohort follows the
    model, NaN for an empty one, (m,).  unlisted_squared: tau, the sum of squared shares of values
    that are not on the list.  excess: kappa, 1 when the variance is as modeled.  freedom: of the t
    distribution of the scores.  left_out: cohorts whose counts were plainly not made as the others
    were; nothing but their cohort_z is of a fit that saw them.
    """

    method: str
    shrunk: bool
    cohort_z: Floats
    unlisted_squared: float
    unlisted_error: float
    excess: float
    freedom: float
    iterations: int
    converged: bool
    full_fit: bool
    penalty: float | None
    left_out: tuple[int, ...] = ()


@dataclass(frozen=True)
class Decoding(DecodedWindow):
    """The result of `decode`. warnings: most important first.  reason: why nothing was found, or
    None.  notes: what was met while the candidates were read."""

    options: DecodeOptions
    candidates: CandidateTable
    summary: Summary
    diagnostics: Diagnostics
    warnings: tuple[str, ...]
    reason: str | None
    notes: str

    def __str__(self) -> str:
        """In short: metric, days, the largest shares; `detected` holds all that was found."""
        days = "" if self.first_day is None else f", {self.first_day} to {self.last_day}"
        texts = [f"{row.value} {row.share:.1%}" for row in self.detected]
        more = ", ..." if len(texts) > MAX_PRINTED else ""
        listed = ", ".join(texts[:MAX_PRINTED]) or "none"
        return f"{self.metric}{days}: {len(texts):,} found: {listed}{more}"

    @property
    def detected(self) -> tuple[Detected, ...]:
        """The values found, largest share first; candidates with the same bits are one entry."""
        table, truth, rows = self.candidates, self.options.true_shares, []
        columns = {"share": "shrunken", "low": "selected_low", "high": "selected_high"}
        names = [column for column in Detected.__annotations__
                 if column not in ("value", "true_share", "note")]  # fmt: skip
        for i in table.found.tolist():
            members = [i]
            if self.summary.num_groups < self.summary.num_candidates:
                members = np.flatnonzero(table.group == i).tolist()
            values = [table.values[j] for j in members]
            numbers = {name: float(getattr(table, columns.get(name, name))[i]) for name in names}
            true = None if truth is None else float(sum(truth.get(value, 0.0) for value in values))
            note = NOTES[table.note[i]]
            row = Detected(value=join_group(values), true_share=true, note=note, **numbers)
            rows.append(row)
        return tuple(rows)

    def to_frame(self) -> Any:
        """`detected` as a pandas.DataFrame. Raises OutputError where pandas is not installed."""
        names = [field.name for field in fields(Detected)]
        return to_frame([asdict(row) for row in self.detected], names)


def join_group(members: Sequence[str]) -> str:
    """Name a group of candidates that cannot be distinguished."""
    if len(members) <= MAX_JOINED:
        return " | ".join(members)
    return " | ".join(members[:MAX_JOINED]) + f" | ... ({len(members)} values)"
