"""Metrics that the collector has stopped, by its answer to a report.

An answer can only narrow what a device sends. `metric_retired`: nothing of the metric is recorded
until its `params_id` changes. `metric_paused`: nothing for a day; then one report is recorded and
sent, and where it is answered so again the device waits another day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from client_sdk.storage.interface import State

RETIRED, PAUSED = "metric_retired", "metric_paused"
REASONS = frozenset({RETIRED, PAUSED})
PREFIX = "stop:"  # of a name in the state's table `meta`


class Stop(NamedTuple):
    """A metric that is stopped.

    reason: RETIRED or PAUSED.  params_id: of the version that was refused.
    until: seconds since 1970 from which one report may be sent; of a pause.
    """

    reason: str
    params_id: str
    until: float


def load_stop(state: State, metric: str) -> Stop | None:
    """Read the stop of a metric; None where there is none."""
    text = state.get(PREFIX + metric)
    if text is None:
        return None
    reason, params_id, until = text.split(" ")
    return Stop(reason, params_id, float(until))


def put_stop(state: State, metric: str, stop: Stop | None) -> None:
    """Store the stop of a metric, or remove it."""
    text = None if stop is None else f"{stop.reason} {stop.params_id} {stop.until}"
    state.put(PREFIX + metric, text)
