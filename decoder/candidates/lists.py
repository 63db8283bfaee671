"""Lists of candidate values and the bits that each candidate would set.

The bits are those of `rappor_core.hashing`, as on the device, computed for many values at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from hashlib import md5
from pathlib import Path
from typing import Any

import mmh3
import numpy as np

from decoder.candidates.files import read_values
from decoder.errors import CandidatesError
from decoder.files import naming
from decoder.numerics.bit_tensor import (
    Positions,
    compiled,
    mark_repeated,
    position_type,
    run_in_chunks,
)
from decoder.progress import Progress, silent
from rappor_core.aggregate import Aggregate
from rappor_core.errors import ParameterError, ValueRefusedError, shown
from rappor_core.hashing import MIX_1, MIX_2, normalize
from rappor_core.metrics.kinds import Kind, kind_named
from rappor_core.params import RapporParams

_SHIFT_30, _SHIFT_27, _SHIFT_31, _SHIFT_32 = (np.uint64(shift) for shift in (30, 27, 31, 32))
_LOW_HALF = np.uint64(0xFFFFFFFF)
_MIX_1, _MIX_2 = np.uint64(MIX_1), np.uint64(MIX_2)
_ONE = np.uint64(1)
_BLOCK = 1 << 16  # values hashed between two progress reports
STAGE = "hashing candidates"


def bit_positions(
    values: Sequence[bytes], params: RapporParams, progress: Progress = silent
) -> Positions:
    """Compute the bits of normalized values in each cohort, (M, m, h); a repeated bit is k."""
    shape = (len(values), params.num_cohorts, params.num_hashes)
    positions = np.empty(shape, dtype=position_type(params.num_bits))
    for start in range(0, len(values), _BLOCK):
        some, block = values[start : start + _BLOCK], positions[start : start + _BLOCK]
        if params.hash == "mmh3":
            digests = b"".join(map(mmh3.mmh3_x64_128_digest, some))
            halves = np.frombuffer(digests, dtype="<u8").reshape(len(some), 2)
            run_in_chunks(_derive, len(some), halves, params.num_bits, block)
        else:  # `rappor_core.hashing.md5_positions`
            for cohort in range(params.num_cohorts):
                word = cohort.to_bytes(4, "big")
                hashes = [md5(word + value, usedforsecurity=False).digest() for value in some]
                first = np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(len(some), -1)
                first = first[:, : params.num_hashes].astype(np.int16)
                block[:, cohort] = first % params.num_bits
        mark_repeated(block, params.num_bits)
        progress(STAGE, min(start + _BLOCK, len(values)), len(values))
    return positions


@compiled
def _derive(low: int, high: int, halves: Any, num_bits: int, positions: Any) -> None:
    """Compute `rappor_core.hashing.mmh3_positions` for candidates [low, high) and every cohort."""
    num_cohorts, num_hashes = positions.shape[1], positions.shape[2]
    words = (num_hashes + 1) // 2
    size = np.uint64(num_bits)
    for i in range(low, high):
        start, step = halves[i, 0], halves[i, 1] | _ONE
        for j in range(num_cohorts):
            for w in range(words):
                word = start + np.uint64(j * words + w + 1) * step
                word = (word ^ (word >> _SHIFT_30)) * _MIX_1
                word = (word ^ (word >> _SHIFT_27)) * _MIX_2
                word = word ^ (word >> _SHIFT_31)
                positions[i, j, 2 * w] = ((word >> _SHIFT_32) * size) >> _SHIFT_32
                if 2 * w + 1 < num_hashes:
                    positions[i, j, 2 * w + 1] = ((word & _LOW_HALF) * size) >> _SHIFT_32


MAX_GENERATED = 10_000_000


@dataclass(frozen=True)
class ReadNotes:
    """Counts of all entries in a list, and of the entries that were skipped, by reason."""

    read: int = 0
    empty: int = 0
    duplicates: int = 0
    not_text: int = 0

    def __str__(self) -> str:
        counts = {"empty": self.empty, "duplicate": self.duplicates, "not UTF-8": self.not_text}
        left_out = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        return f"{self.read:,} entries read" + f"; left out: {left_out}" * bool(left_out)


@dataclass(frozen=True)
class Candidates:
    """A list of candidates: distinct values (normalized bytes), in the given order."""

    values: Sequence[bytes]
    notes: ReadNotes = field(default_factory=ReadNotes)
    tensor: Positions | None = None  # The bit positions (M, m, h) of a map file; None to hash
    complete: bool = False  # Whether no other value can occur, as with the cells of a grid
    own_bits: bool = False  # Each value sets one bit that no other value sets (a map file)
    reserved: int = 0  # The number of values at the end that are tested separately (`other`)

    def __post_init__(self) -> None:
        if not len(self.values):
            raise CandidatesError("no candidates; give a list with one value per line")
        if not 0 <= self.reserved < len(self.values):
            raise CandidatesError(
                f"reserved = {self.reserved!r} of {len(self.values):,} candidates: it counts those "
                "at the end that are not part of the list, 0 or more, and leaves one at least"
            )

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def from_strings(cls, strings: Iterable[str | bytes]) -> Candidates:
        """Normalize the entries; drop and count empty, repeated or undecodable entries.

        Raises CandidatesError if no entry remains, or if an entry is not text."""
        if isinstance(strings, str | bytes):
            raise CandidatesError(f"{shown(strings)} is one value; give a list of them")
        distinct: dict[bytes, None] = {}
        read = empty = not_text = 0
        for read, text in enumerate(strings, start=1):  # noqa: B007
            if not isinstance(text, str | bytes):
                raise CandidatesError(
                    f"candidate {shown(text)} is not text; give strings, such as str(...)"
                )
            try:
                if not text.isascii():
                    value = normalize(text.decode("utf-8") if isinstance(text, bytes) else text)
                else:
                    value = text if isinstance(text, bytes) else text.encode()
            except (UnicodeDecodeError, ValueRefusedError):
                not_text += 1
                continue
            if value:
                distinct[value] = None
            else:
                empty += 1
        notes = ReadNotes(read, empty, read - empty - not_text - len(distinct), not_text)
        if not distinct:
            raise CandidatesError(f"no candidates: {notes}; give a list with one value per line")
        return cls(list(distinct), notes)

    @classmethod
    def from_file(cls, path: str | Path, column: str | None = None) -> Candidates:
        """Read candidates from a file: text with one value per line, CSV or Parquet (or gzipped).

        Args:
            path: The file.
            column: The name of the column in a table; None for its only column.

        Raises:
            CandidatesError: The file cannot be read. The message names the line if it is known.
        """
        hint = "give UTF-8 text with a value a line, csv or Parquet, gzipped or not"
        with naming(Path(path), CandidatesError, hint):
            return cls.from_strings(read_values(Path(path), column))

    @classmethod
    def numbers(cls, first: int, last: int, step: int = 1) -> Candidates:
        """List whole numbers as decimal text.

        Args:
            first: The first number.
            last: The last number, inclusive.
            step: The distance between two numbers, 1 or more.

        Returns:
            The candidates in ascending order.

        Raises:
            CandidatesError: The range is empty, or contains more than `MAX_GENERATED` numbers.
        """
        empty = step < 1 or last < first
        if empty or (last - first) // step >= MAX_GENERATED:
            why = "nothing to count" if empty else f"more than {MAX_GENERATED:,} candidates"
            raise CandidatesError(f"numbers from {first} to {last} by {step}: {why}")
        return cls.from_strings(str(number) for number in range(first, last + 1, step))

    @classmethod
    def dates(cls, first: date, last: date) -> Candidates:
        """List the days between two dates (inclusive) as YYYY-MM-DD.

        Args:
            first: The first day.
            last: The last day.

        Returns:
            The candidates in ascending order.

        Raises:
            CandidatesError: `last` is before `first`.
        """
        if last < first:
            raise CandidatesError(f"dates from {first} to {last}: the window runs backwards")
        days = range((last - first).days + 1)
        return cls.from_strings((first + timedelta(days=day)).isoformat() for day in days)

    def direct(self, params: RapporParams) -> bool:
        """Return whether each value has a separate bit, so that no regression is needed."""
        return params.scheme.own_bits or self.own_bits

    def positions(self, params: RapporParams, progress: Progress = silent) -> Positions:
        """Compute the bits that each candidate sets in each cohort.

        Args:
            params: The parameters of the metric.
            progress: A callback, called while candidates are hashed.

        Returns:
            The index tensor (M, m, h); entries are k where a candidate sets fewer bits.

        Raises:
            CandidatesError: The number of values does not match the metric's bits.
        """
        if self.tensor is not None:
            return self.tensor
        scheme, k = params.scheme, params.num_bits
        if scheme.hashed:
            return bit_positions(self.values, params, progress)
        _check_fit(len(self.values), params)
        shape = (len(self.values), params.num_cohorts, params.num_hashes)
        positions = np.full(shape, k, dtype=position_type(k))  # k if fewer bits are set
        for cohort in range(1 if scheme.own_bits else params.num_cohorts):
            for index in range(len(self.values)):
                bits = sorted(set(scheme.index_positions(params, index, cohort)))
                positions[index, cohort, : len(bits)] = bits
        if scheme.own_bits:
            positions[:] = positions[:, :1]
        return positions


def _check_fit(num_values: int, params: RapporParams) -> None:
    try:
        params.scheme.check_num_values(params, num_values)
    except ParameterError as error:
        raise CandidatesError(str(error)) from error


def metric_candidates(aggregate: Aggregate) -> Candidates:
    """Return the values that a metric's definition lists: categories, true and false, or cells.

    Raises CandidatesError for a metric of strings, whose definition lists no values."""
    params, definition = aggregate.params, aggregate.definition
    names = own_names(params, definition)
    if names:
        reserved = _kind_of(definition).reserved if definition else ()
        count = sum(name in reserved for name in names)
        return Candidates(list(map(normalize, names)), ReadNotes(read=len(names)), reserved=count)
    if not params.scheme.hashed:
        _check_fit(0, params)
        raise CandidatesError(
            f"metric {aggregate.metric!r} has no list of values: use rappor decode without "
            "candidates, or the decoder of its kind"
        )
    raise CandidatesError(
        f"metric {aggregate.metric!r} holds strings, which must be guessed to be found: "
        "give a list of candidates"
    )


def own_names(params: RapporParams, definition: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of the values that a definition lists; empty if it lists none.

    The definition is from `Metric.to_dict`, or empty. Raises RapporError if it is invalid."""
    names: Sequence[str] = params.scheme.value_names
    if not names and definition:
        names = _kind_of(definition).names(definition)
    return names or params.scheme.names_of_bits(params)


def _kind_of(definition: Mapping[str, Any]) -> Kind:
    return kind_named(definition["kind"]) if "kind" in definition else Kind()


def in_bit_order(candidates: Candidates, aggregate: Aggregate) -> Candidates:
    """Replace a list with the metric's own values in bit order, so that names match the bits.

    The list is returned unchanged if the metric does not name its values. Raises CandidatesError if
    a candidate is not a value of the metric."""
    scheme = aggregate.params.scheme
    named = bool(scheme.value_names) or "categories" in aggregate.definition
    if scheme.hashed or not named or candidates.tensor is not None:
        return candidates
    listed = metric_candidates(aggregate)
    values = set(listed.values)
    for value in candidates.values:
        if value not in values:
            names = ", ".join(name.decode() for name in listed.values[:10])
            raise CandidatesError(
                f"candidate {shown(value.decode(errors='replace'))} is not a value of metric "
                f"{aggregate.metric!r}, which has {names}"
            )
    return listed
