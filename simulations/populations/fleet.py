"""A fleet of devices in one process: the real encoder and the real transport, without state.

Reports of many devices share a batch here, as behind a relay that mixes them; a real device sends
its own. What the collector counts is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby, islice

from client_sdk import Encoder, Transport
from client_sdk.randomization.key_derivation import Randomness, system_randomness
from rappor_core.metrics.metric import Metric
from rappor_core.wire.report import Report, make_batch

SECRET_BYTES = 32
BATCH_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class RecordedValue:
    """A value that one device records once. Private on a real device."""

    client: str
    metric: str
    value: Hashable


@dataclass(slots=True)
class FleetDelivery:
    """The collector's answers to a fleet, added up."""

    batches: int = 0
    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def encode_fleet(
    readings: Iterable[RecordedValue],
    metrics: Mapping[str, Metric],
    day: date,
    randomness: Randomness = system_randomness,
) -> Iterator[Report]:
    """Encode one report for each reading. Readings of a client must follow one another.

    Each client has a secret of its own, so that its permanent responses repeat.
    """
    for _, own in groupby(readings, key=lambda reading: reading.client):
        encoder = Encoder(metrics, randomness(SECRET_BYTES), randomness)
        for reading in own:
            yield encoder.encode(reading.metric, reading.value, day)


def deliver(
    reports: Iterable[Report],
    transport: Transport,
    *,
    batch_size: int = 200,
    randomness: Randomness = system_randomness,
    progress: Callable[[int], None] = lambda _: None,
) -> FleetDelivery:
    """Send reports in batches; `progress` hears how many went with each."""
    delivery = FleetDelivery()
    remaining = iter(reports)
    while group := tuple(islice(remaining, batch_size)):
        answer = transport.send(make_batch(randomness(BATCH_ID_BYTES), group))
        delivery.batches += 1
        for result in answer.results:
            if result.accepted:
                delivery.accepted += 1
            else:
                delivery.refused[result.reason] += 1
        progress(len(group))
    return delivery


def repetition(readings: Sequence[RecordedValue]) -> float:
    """rho = sum r^2 / sum r, where r counts how often one client reports one value; 1 if never.

    What repeated permanent bits add to the variance of a sum: N * within + N * rho * between.
    """
    repeats = Counter((reading.client, reading.value) for reading in readings)
    return sum(r * r for r in repeats.values()) / max(1, len(readings))
