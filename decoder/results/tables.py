"""`Decoding`: all results of a decoding, with the information needed to evaluate them."""

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
    "value that no one has is the likelier cause of such an estimate",
)  # the notes of a row, by number

MAX_PRINTED = 5  # the maximum number of detected values in `print`
MAX_JOINED = 5  # the maximum number of named values in an indistinguishable group


@dataclass(frozen=True)
class CandidateTable:
    """The results for all candidates, (M,) each, in list order.

    These are the columns of candidates.csv (docs/results-columns.md), not clipped to [0, 1]."""

    values: Sequence[str]
    group: Indices  # Index of the first candidate that sets the same bits in every cohort
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
    selected_low: Floats  # In [0, 1]; NaN if not detected, like the next four columns
    selected_high: Floats
    forged: Floats
    forged_low: Floats
    forged_shift: Floats
    note: NDArray[np.uint8]  # Index into `NOTES`
    weight: Floats | None = None  # With mean 1 over the groups; None if all are 1

    @property
    def found(self) -> Indices:
        """Indices (D,) of the first member of each detected group, largest share first."""
        leaders = np.flatnonzero(self.detected & (self.group == np.arange(len(self.group))))
        return leaders[np.argsort(-self.shrunken[leaders], kind="stable")]


@dataclass(frozen=True)
class Detected:
    """A detected value: shares in [0, 1], interval after selection, corrected p-value."""

    value: str  # The candidates that set the same bits, joined by " | "
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
        """The certainty that the value is present; "possible" if the interval includes 0."""
        return "yes" if self.low > 0 else "possible"


@dataclass(frozen=True)
class Summary:
    """The decoding in numbers. Shares and variances are fractions of 1.

    `explained`, `missing` and `noise` are fractions of the variance of the bit shares over rows."""

    num_candidates: int
    num_groups: int
    num_detected: int
    num_reports: int
    num_cohorts: int
    empty_cohorts: int
    allocated_share: float  # The sum of the detected values' shares
    explained: float
    missing: float
    noise: float
    signal_explained: float | None  # The explained part of all but noise; None without signal
    detectable_share: float  # The smallest share that is detected 8 times in 10
    epsilon_infinity: float
    epsilon_one: float
    repetition: float  # rho, as used


@dataclass(frozen=True)
class Diagnostics:
    """Figures that show whether the model fits the data."""

    method: str  # `cavity`, `lasso` or `direct` (one bit per value)
    shrunk: bool  # Whether a prior was learned
    cohort_z: Floats  # Standardized residual of each cohort, (m,), about normal; NaN if empty
    unlisted_squared: float  # tau, the sum of squared shares of unlisted values
    unlisted_error: float
    excess: float  # kappa, 1 if the variance is as modeled
    freedom: float  # The degrees of freedom of the scores' t distribution
    iterations: int
    converged: bool
    full_fit: bool
    penalty: float | None
    left_out: tuple[int, ...] = ()  # Excluded cohorts; only their cohort_z is from a fit with them


@dataclass(frozen=True)
class Decoding(DecodedWindow):
    """The result of `decode`."""

    options: DecodeOptions
    candidates: CandidateTable
    summary: Summary
    diagnostics: Diagnostics
    warnings: tuple[str, ...]  # Most important first
    reason: str | None  # Why nothing was detected, or None
    notes: str  # Remarks from reading the candidates

    def __str__(self) -> str:
        days = "" if self.first_day is None else f", {self.first_day} to {self.last_day}"
        texts = [f"{row.value} {row.share:.1%}" for row in self.detected]
        more = ", ..." if len(texts) > MAX_PRINTED else ""
        listed = ", ".join(texts[:MAX_PRINTED]) or "none"
        return f"{self.metric}{days}: {len(texts):,} found: {listed}{more}"

    @property
    def detected(self) -> tuple[Detected, ...]:
        """The detected values, largest share first; candidates with the same bits are one entry."""
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
        """Return `detected` as a pandas.DataFrame. Raises OutputError if pandas is missing."""
        names = [field.name for field in fields(Detected)]
        return to_frame([asdict(row) for row in self.detected], names)


def join_group(members: Sequence[str]) -> str:
    """Return a name for a group of indistinguishable candidates."""
    if len(members) <= MAX_JOINED:
        return " | ".join(members)
    return " | ".join(members[:MAX_JOINED]) + f" | ... ({len(members)} values)"
