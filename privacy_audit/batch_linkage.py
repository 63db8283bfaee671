"""How well an observer can tell, from batch bodies alone, which batches come from one device.

A body tells the cohort of each metric in it for certain, and some of the permanent bits through the
noise of its reports. The adversary has all bodies of two days, no address, no time, and pairs each
device's of the one day with the likeliest of the other. `location_attacks` does the pairing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from privacy_audit.location_attacks import attack
from rappor_core.params import RapporParams
from rappor_core.risk import linked_by_groups

METRICS = 4
COHORTS = (32, 8, 4, 1)
REPORTS = (1, 7)
MOST_GROUPS = 1 << 40  # so many fingerprints that nobody shares one


@dataclass(frozen=True)
class BatchLinkage:
    """How often a device's batches of two days were paired correctly.

    metrics: in one batch.  cohorts: of each metric.  reports: of each metric in a day's batch.
    linked: share of devices.  chance: the same by the cohorts alone.
    """

    metrics: int
    cohorts: int
    reports: int
    linked: float
    chance: float


def linkage(
    params: RapporParams,
    metrics: int,
    reports: int,
    devices: int,
    crowds: int,
    rng: np.random.Generator,
) -> BatchLinkage:
    """Attack several simulated crowds of devices, each device with a value of its own in every
    metric.

    params: of each metric. A batch of several metrics is one of a filter as long as all of them.
    """
    groups = min(params.num_cohorts**metrics, MOST_GROUPS)
    together = params.replace(
        num_bits=params.num_bits * metrics, num_hashes=params.num_hashes * metrics
    )
    with threadpool_limits(1):
        linked = [attack(together, reports, devices, rng, groups).relinked for _ in range(crowds)]
    chance = linked_by_groups(groups, devices)
    return BatchLinkage(metrics, params.num_cohorts, reports, float(np.mean(linked)), chance)


def linkages(
    params: RapporParams, devices: int, crowds: int, rng: np.random.Generator
) -> Iterator[BatchLinkage]:
    """Run the attack for a batch of four metrics, and for one metric with several numbers of
    cohorts and reports."""
    yield linkage(params, METRICS, 1, devices, crowds, rng)
    for cohorts in COHORTS:
        for reports in REPORTS:
            fewer = params.replace(num_cohorts=cohorts)
            yield linkage(fewer, 1, reports, devices, crowds, rng)
