"""Populations of values with known true shares, and fleets of devices that report them.

A fleet runs in one process, with the real encoder and transport, without state. Reports of many
devices share a batch here, as behind a relay that mixes them; a real device sends its own. What the
collector counts is the same.
"""

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
    """Words of a text that every machine has (Python's own help topics), with their counts."""
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    words: Counter[str] = Counter()
    for text in topics.values():
        words.update(_WORD.findall(text.lower()))
    return words


def absent_words(words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Make plausible strings that are not among `words`, as many: joined halves of two of them."""
    present, absent = set(words), list[str]()
    for left_at, right_at in rng.integers(len(words), size=(len(words), 2)).tolist():
        left, right = words[left_at], words[right_at]
        joined = left[: (len(left) + 1) // 2] + right[len(right) // 2 :]
        while joined in present:  # short values leave little choice: lengthen until it is new
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
    """Return the shares of the whole numbers 0..highest of a rounded normal variable. (highest +
    1,)."""
    numbers = np.arange(highest + 1)
    weights = np.exp(-0.5 * ((numbers - mean) / deviation) ** 2)
    return np.asarray(weights / weights.sum())


def exponential_shares(num_values: int, rate: float) -> Floats:
    """Shares proportional to e^(-rate i), i = 0..num_values - 1. (num_values,)."""
    weights = np.exp(-rate * np.arange(num_values))
    return np.asarray(weights / weights.sum())


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

    Each client has its own secret, so that its permanent responses repeat.
    """
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
        transport: What sends a batch and returns the answer.
        batch_size: Reports of a batch; the last one has fewer.
        randomness: Source of the ids of batches.
        progress: Called with the number of reports of each batch that was sent.

    Returns:
        How many batches were sent, and how many reports were accepted or refused.
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
