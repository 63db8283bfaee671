"""The records that a state is made of.

Everything in them is private, except reports, whose bits have been through both rounds.
"""

from typing import Literal, NamedTuple

VISITS = "visits:"  # name of a note: then the declared name of a metric of places
NUMBERS = "numbers:"  # likewise: then the name of a metric of numbers
STOP = "stop:"  # of a value in the table `meta`: then the name of a metric
RETIRED, PAUSED = "metric_retired", "metric_paused"
STOP_REASONS = frozenset({RETIRED, PAUSED})

Stored = Literal["queued", "full", "not_memoized"]


class Identity(NamedTuple):
    """The secret of a state, and how often one was made or wiped.

    secret: 32 bytes, or None while the person does not consent.
    generation: 0 in a state that never had a secret; never falls.
    """

    secret: bytes | None
    generation: int

    def __repr__(self) -> str:
        """Without the secret, which must not end up in a log."""
        return f"Identity({'a secret' if self.secret else 'no secret'}, {self.generation})"


class Line(NamedTuple):
    """One line of the ledger: a metric by its base name, over parameters, slots and levels.

    agreed: what was promised when the metric was first used (`ledger.Promise` as JSON).
    past_values, past_cost, past_spent, past_reports: numbers kept from secrets that were wiped when
        consent was withdrawn: values memoized, epsilon they cost at most, epsilon really spent, and
        reports made.
    """

    name: str
    agreed: str
    past_values: int = 0
    past_cost: float = 0.0
    past_spent: float = 0.0
    past_reports: int = 0


class Entry(NamedTuple):
    """A memoized permanent response in the ledger: a keyed digest, never the value.

    params: `RapporParams.to_dict` as JSON.  cost: epsilon_infinity, nats, charged once.
    reports: how many reports were made from it.
    """

    line: str
    digest: bytes
    params: str
    cost: float
    reports: int = 0


class Limits(NamedTuple):
    """Limits on the number of reports, to be checked in the transaction that queues a report.

    At most `most` counted under `name` in the period of this number; at most `most_ever` (None: any
    number) counted for life under `line`; none yet under `name` in the periods from the first to
    the last of `alone_in`, where there is one.
    """

    name: str
    period: int
    most: int
    line: str
    most_ever: int | None
    alone_in: tuple[int, int] | None = None


class Stop(NamedTuple):
    """A metric that the collector has stopped, by its answer to a report.

    An answer can only narrow what a device sends. `metric_retired`: nothing of the metric is
    recorded until its `params_id` changes. `metric_paused`: nothing for a day; then one report is
    recorded and sent, and where it is answered so again the device waits another day.

    reason: RETIRED or PAUSED.  params_id: of the version that was refused.
    until: seconds since 1970 from which one report may be sent; of a pause.
    """

    reason: str
    params_id: str
    until: float
