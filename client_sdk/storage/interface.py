"""The record types of a client state.

Everything in them is private, except reports, whose bits have been through both rounds.
"""

from typing import Literal, NamedTuple

VISITS = "visits:"  # the prefix of a note's name, before the declared name of a location metric
NUMBERS = "numbers:"  # the same, before the name of a number metric
HISTORY = "history:"  # the same, before the name of a returning metric or a funnel
STOP = "stop:"  # prefix of a name in the table `meta`, before the name of a metric
RETIRED, PAUSED = "metric_retired", "metric_paused"
STOP_REASONS = frozenset({RETIRED, PAUSED})

Stored = Literal["queued", "full", "not_memoized"]


class Identity(NamedTuple):
    """The secret of a state, and the number of times that a secret was created or wiped."""

    secret: bytes | None  # 32 bytes, or None while there is no consent
    generation: int  # 0 in a state that never had a secret; it never decreases

    def __repr__(self) -> str:
        """Format without the secret, which must not end up in a log."""
        return f"Identity({'a secret' if self.secret else 'no secret'}, {self.generation})"


class Line(NamedTuple):
    """One line of the ledger: a metric by its base name, across parameters, slots and levels."""

    name: str
    agreed: str  # the promise when the metric was first used (`ledger.Promise` as JSON)
    # past_values, past_cost, past_spent, past_reports: The numbers from secrets that were wiped on
    # withdrawal of consent: memoized values, their maximum epsilon, the epsilon actually spent, and
    # the number of reports.
    past_values: int = 0
    past_cost: float = 0.0
    past_spent: float = 0.0
    past_reports: int = 0


class Entry(NamedTuple):
    """A memoized permanent response in the ledger: a keyed digest, never the value."""

    line: str
    digest: bytes
    params: str  # `RapporParams.to_dict` as JSON
    cost: float  # epsilon_infinity in nats, charged once
    reports: int = 0  # the number of reports made from it


class Limits(NamedTuple):
    """The limits on the number of reports, checked in the transaction that queues a report.

    At most `most` reports may be counted under `name` in the period `period`, and at most
    `most_ever` (None: no limit) over the lifetime under `line`. If `alone_in` is given, no report
    may be counted yet under `name` in the periods from its first to its last.
    """

    name: str
    period: int
    most: int
    line: str
    most_ever: int | None
    alone_in: tuple[int, int] | None = None


class Stop(NamedTuple):
    """A metric that the collector has stopped in its answer to a report.

    An answer can only reduce what a device sends. With `metric_retired`, the metric is not recorded
    until its `params_id` changes. With `metric_paused`, nothing is recorded for a day. Then one
    report is recorded and sent; if the answer is the same, the device waits another day.
    """

    reason: str  # RETIRED or PAUSED
    params_id: str  # of the rejected version of the metric
    until: float  # for a pause: seconds since 1970 from which one report may be sent
