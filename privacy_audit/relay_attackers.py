"""What each party around a relay can link of a fleet, by simulation.

Devices send batches of some metrics a day, each recorded in the one moment of use and sent after a
delay of its own; addresses change by chance. Bodies are attacked by `linkage_over_time`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from privacy_audit.arrivals import DAY_SECONDS, Arrivals, followed_by_address, joined_by_time
from privacy_audit.linkage_over_time import GATHERED, gathered_over_time
from rappor_core.params import RapporParams

RELAY_SECONDS = 0.05  # that a relay takes to pass a request on, on average


@dataclass(frozen=True)
class Attacker:
    """What a party links. Shares of devices, or of requests.

    who: the party.  reads: whether it reads reports.  over_days: devices of which it gathers nine
    tenths of what one metric sends in all days.  in_a_day: devices whose batches of two metrics of
    a day it joins.  to_address: requests of which it knows the device's address.
    """

    who: str
    reads: bool
    over_days: float
    in_a_day: float
    to_address: float


def attackers(
    params: RapporParams,
    devices: int,
    days: int,
    rng: np.random.Generator,
    *,
    metrics: int = 2,
    arrivals: Arrivals | None = None,
    enough: int | None = None,
) -> Iterator[Attacker]:
    """Simulate what relay, collector and listeners link of devices that report once a day.

    Args:
        params: of each metric.
        devices: of the fleet.
        days: over which reports are gathered, 2 or more.
        rng: of all draws.
        metrics: batches of each device in a day.
        arrivals: times of use and sending.
        enough: devices to draw for the attacks on bodies; None: as many as the fleet has.
    """
    arrivals = arrivals or Arrivals()
    (by_address,) = followed_by_address((days,), GATHERED, rng)
    in_a_day = joined_by_time(devices, arrivals.mean_delay)

    def gathered(seen: Arrivals | None) -> float:
        cohorts = params.num_cohorts
        (one,) = gathered_over_time(params, [days], devices, cohorts, rng, enough or devices, seen)
        return one.gathered

    passed = passed_on(devices * metrics, rng)
    alone = 1 / devices
    yield Attacker("collector without a relay", True, by_address, 1.0, 1.0)
    yield Attacker("collector, by what it stores", True, gathered(None), alone, 0.0)
    yield Attacker("collector that watches times", True, gathered(arrivals), in_a_day, 0.0)
    yield Attacker("relay, or who listens before it", False, by_address, 1.0, 1.0)
    yield Attacker("who listens on both sides", False, by_address, 1.0, passed)
    yield Attacker("relay and collector together", True, by_address, 1.0, 1.0)


def passed_on(requests: int, rng: np.random.Generator, seconds: float = RELAY_SECONDS) -> float:
    """Share of a day's requests that a listener on both sides of a relay takes for what they are.

    All have one size. What leaves the relay is taken for the last request that came in.

    Args:
        requests: of a day, uniform over it.
        rng: of times.
        seconds: until one is passed on, exponential with this mean.
    """
    came = np.sort(rng.uniform(0, DAY_SECONDS, requests))
    left = came + rng.exponential(seconds, requests)
    return float((np.searchsorted(came, left) - 1 == np.arange(requests)).mean())
