"""Populations of values with known true shares, and fleets of devices that report them.

A fleet runs in one process, with the real encoder and transport, without state. Reports of many
devices share a batch here, as behind a relay that mixes them; a real device sends its own. What the
collector counts is the same.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib import import_module
from itertools import groupby, islice
from pathlib import Path
from typing import IO

import numpy as np

from client_sdk import Encoder, Transport
from client_sdk.randomization.key_derivation import Randomness, system_randomness
from decoder.typing import Floats
from rappor_core.errors import RapporError
from rappor_core.failures import failure_reason
from rappor_core.hashing import canonical
from rappor_core.metrics.metric import Metric
from rappor_core.wire.report import Report, make_batch

_WORD = re.compile(r"[a-z]{2,}")
SECRET_BYTES = 32
BATCH_ID_BYTES = 16


class PopulationError(RapporError, ValueError):
    """No population can be made from a file or a setting."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A row of the truth: a client holds a value once. Private on a real device."""

    client: str
    value: str


def topic_words() -> Counter[str]:
    """Words of a text that every machine has (Python's own help topics), with their counts."""
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    words: Counter[str] = Counter()
    for text in topics.values():
        words.update(_WORD.findall(text.lower()))
    return words


def absent_words(words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Make plausible strings that are not among `words`, as many: joined halves of two of them."""
    taken, absent = set(words), list[str]()
    for left_at, right_at in rng.integers(len(words), size=(len(words), 2)).tolist():
        left, right = words[left_at], words[right_at]
        joined = left[: (len(left) + 1) // 2] + right[len(right) // 2 :]
        while joined in taken:  # short values leave little choice: lengthen until it is new
            joined += words[int(rng.integers(len(words)))]
        taken.add(joined)
        absent.append(joined)
    return absent


def draw_words(counts: Counter[str], num_clients: int, rng: np.random.Generator) -> list[str]:
    """Draw one word for each client, with the frequencies of the words in the text."""
    words = list(counts)
    weights = np.array([counts[word] for word in words], dtype=float)
    chosen = rng.choice(len(words), size=num_clients, p=weights / weights.sum())
    return [words[i] for i in chosen]


def normal_shares(mean: float, deviation: float, highest: int) -> Floats:
    """Shares of the whole numbers 0..highest of a rounded normal variable. (highest + 1,)."""
    numbers = np.arange(highest + 1)
    weights = np.exp(-0.5 * ((numbers - mean) / deviation) ** 2)
    return np.asarray(weights / weights.sum())


def exponential_shares(num_values: int, rate: float) -> Floats:
    """Shares proportional to e^(-rate i), i = 0..num_values - 1. (num_values,)."""
    weights = np.exp(-rate * np.arange(num_values))
    return np.asarray(weights / weights.sum())


def read_holdings(path: Path, column: str, client_column: str | None = None) -> list[Holding]:
    """Read true values from a CSV file, gzip or not, one report for each row.

    Without `client_column` every row is a client of its own. Empty values are kept: "no value" is
    one. Raises PopulationError that names the file and the column.
    """
    try:
        with _opened(path) as stream:
            reader = csv.DictReader(stream)
            _check_columns(path, reader.fieldnames or [], column, client_column)
            return list(_rows(reader, column, client_column))
    except (OSError, UnicodeDecodeError, csv.Error, EOFError, zlib.error) as error:
        reason = failure_reason(error)
        raise PopulationError(f"{path}: cannot be read as CSV: {reason}") from error


def _opened(path: Path) -> IO[str]:
    with path.open("rb") as probe:
        zipped = probe.read(2) == b"\x1f\x8b"
    if zipped:
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _rows(reader: csv.DictReader[str], column: str, client_column: str | None) -> Iterator[Holding]:
    for number, row in enumerate(reader):
        client = row[client_column] if client_column else str(number)
        yield Holding(client or "", canonical(row[column] or ""))


def _check_columns(
    path: Path, present: Sequence[str], column: str, client_column: str | None
) -> None:
    for name in filter(None, (column, client_column)):
        if name not in present:
            raise PopulationError(
                f"{path}: there is no column {name!r}; it has {', '.join(present) or 'none'}"
            )


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
