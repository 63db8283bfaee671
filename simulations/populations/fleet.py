"""Populations of values with known true shares, and fleets of devices that report them.

A fleet runs in one process, with the real encoder and transport, but without state. Reports from
many devices share a batch, as behind a mixing relay; a real device sends its own batches. The
collector's counts are the same."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib import import_module
from itertools import groupby, islice

import numpy as np

from client_sdk import Encoder, Transport
from client_sdk.randomization.key_derivation import Randomness, system_randomness
from decoder.typing import Floats
from rappor_core.metrics.metric import Metric
from rappor_core.wire.report import Report, make_batch

_WORD = re.compile(r"[a-z]{2,}")
SECRET_BYTES = 32
BATCH_ID_BYTES = 16


def topic_words() -> Counter[str]:
    """Return the words of Python's own help topics, with their counts."""
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    words: Counter[str] = Counter()
    for text in topics.values():
        words.update(_WORD.findall(text.lower()))
    return words


def absent_words(words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Create the same number of plausible strings that are not in `words`, from halves of words."""
    present, absent = set(words), list[str]()
    for left_at, right_at in rng.integers(len(words), size=(len(words), 2)).tolist():
        left, right = words[left_at], words[right_at]
        joined = left[: (len(left) + 1) // 2] + right[len(right) // 2 :]
        while joined in present:  # Short words often collide: lengthen until it is new
            joined += words[int(rng.integers(len(words)))]
        present.add(joined)
        absent.append(joined)
    return absent


def draw_words(counts: Counter[str], num_clients: int, rng: np.random.Generator) -> list[str]:
    """Draw one word for each client, with the frequencies of the words in the text."""
    words = list(counts)
    weights = np.array([counts[word] for word in words], dtype=float)
    chosen = rng.choice(len(words), size=num_clients, p=weights / weights.sum())
    return [words[i] for i in chosen]


def normal_shares(mean: float, deviation: float, highest: int) -> Floats:
    """Return the shares of 0..highest for a rounded normal variable, (highest + 1,)."""
    numbers = np.arange(highest + 1)
    weights = np.exp(-0.5 * ((numbers - mean) / deviation) ** 2)
    return np.asarray(weights / weights.sum())


def exponential_shares(num_values: int, rate: float) -> Floats:
    """Return shares proportional to e^(-rate i), i = 0..num_values - 1, (num_values,)."""
    weights = np.exp(-rate * np.arange(num_values))
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, slots=True)
class RecordedValue:
    """A value that one device records once; private on a real device."""

    client: str
    metric: str
    value: Hashable


@dataclass(slots=True)
class FleetDelivery:
    """The totals of a collector's answers to a fleet's batches."""

    batches: int = 0  # Sent
    accepted: int = 0  # Reports
    refused: Counter[str] = field(default_factory=Counter)  # Rejected reports by reason


def encode_fleet(
    readings: Iterable[RecordedValue],
    metrics: Mapping[str, Metric],
    day: date,
    randomness: Randomness = system_randomness,
) -> Iterator[Report]:
    """Encode one report for each reading; readings of a client must be consecutive.

    Each client has its own secret, so that its permanent responses repeat."""
    for _, group in groupby(readings, key=lambda reading: reading.client):
        encoder = Encoder(metrics, randomness(SECRET_BYTES), randomness)
        for reading in group:
            yield encoder.encode(reading.metric, reading.value, day)


def deliver(
    reports: Iterable[Report],
    transport: Transport,
    *,
    batch_size: int = 200,
    randomness: Randomness = system_randomness,
    progress: Callable[[int], None] = lambda _: None,
) -> FleetDelivery:
    """Send reports in batches.

    Args:
        reports: The reports, in the order of their batches.
        transport: The transport, which sends a batch and returns the answer.
        batch_size: The number of reports per batch; the last batch has fewer.
        randomness: The source of batch ids.
        progress: A callback, called with the number of reports of each sent batch.

    Returns:
        The number of sent batches, and the numbers of accepted and rejected reports.
    """
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
