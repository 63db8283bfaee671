"""Batches of version 2: reports of two metrics of one device and day, linked, under one cohort.

A batch that links nothing is of version 1, byte for byte as before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import groupby

from rappor_core.calendar import EPOCH
from rappor_core.errors import WireFormatError
from rappor_core.wire.binary import (
    BINARY_MAGIC,
    HEADER,
    byte_at,
    day_from_number,
    unpack,
    utf8,
)
from rappor_core.wire.report import (
    LINKED_VERSION,
    MAX_REPORT_BYTES,
    MAX_REPORTS,
    GroupedBatch,
    Report,
    ReportGroup,
    check_count,
    check_metric,
)

Pair = tuple[Report, Report]
Side = tuple[str, str, int]  # metric, params_id, bytes of bits
WHAT = f"batch of version {LINKED_VERSION}"
_PART = struct.Struct(">16sH")  # params_id, bytes of bits
_GROUP = struct.Struct(">II")  # day, number of linked reports
_COHORT = struct.Struct(">H")


def linked_cohort(pair: Pair) -> int:
    """The cohort under which two reports travel: a metric with one cohort has cohort 0.

    Raises WireFormatError for reports that cannot be linked.
    """
    first, second = pair
    if first.day != second.day or 0 != first.cohort != second.cohort != 0:
        raise WireFormatError("linked reports have one day and one cohort")
    return max(first.cohort, second.cohort)


def encode_linked_binary(batch_id: bytes, pairs: Sequence[Pair]) -> bytes:
    """Write a batch of linked reports; a run alike in all but cohort and bits is one group.

    Raises WireFormatError for a batch that no decoder would take.
    """
    groups = [(key, list(run)) for key, run in groupby(pairs, _group_key)]
    try:
        parts = [HEADER.pack(BINARY_MAGIC, LINKED_VERSION, batch_id, len(groups))]
        for (day, *sides), run in groups:
            for metric, params_id, num_bytes in sides:
                name = metric.encode()
                parts.append(bytes([len(name)]) + name)
                parts.append(_PART.pack(bytes.fromhex(params_id), num_bytes))
            parts.append(_GROUP.pack((day - EPOCH).days, len(run)))
            for pair in run:
                parts += [_COHORT.pack(linked_cohort(pair)), pair[0].bits, pair[1].bits]
    except (struct.error, ValueError, OverflowError) as error:
        raise WireFormatError(f"the batch does not fit the binary form: {error}") from error
    return b"".join(parts)


def decode_linked_binary(body: bytes, *, max_reports: int = MAX_REPORTS) -> GroupedBatch:
    """Read a batch: two groups for each linked report, the second one `linked`.

    Raises WireFormatError for anything that is not exactly one.
    """
    try:
        return _read_binary(body, max_reports)
    except WireFormatError as error:
        raise WireFormatError(f"{WHAT}: {error}") from None


def _read_binary(body: bytes, max_reports: int) -> GroupedBatch:
    magic, version, batch_id, num_groups = unpack(HEADER, body, 0)
    if magic != BINARY_MAGIC or version != LINKED_VERSION:
        raise WireFormatError(f"the body starts with {magic!r} and {version}")
    groups: list[ReportGroup] = []
    offset, total = HEADER.size, 0
    for _ in range(num_groups):
        run, offset = _read_run(body, offset, max_reports - total)
        groups += run
        total += len(run)
    if offset != len(body):
        raise WireFormatError(f"{len(body) - offset} bytes follow the last group")
    check_count(total, max_reports)
    return GroupedBatch(batch_id.hex(), tuple(groups), total)


def _read_run(body: bytes, offset: int, max_reports: int) -> tuple[list[ReportGroup], int]:
    """The groups of a run at `offset`, and where the next one starts."""
    sides = []
    for _ in range(2):
        name_end = offset + 1 + byte_at(body, offset)
        metric = check_metric(utf8(body[offset + 1 : name_end]))
        params_id, num_bytes = unpack(_PART, body, name_end)
        if not 1 <= num_bytes <= MAX_REPORT_BYTES:
            raise WireFormatError(f"linked reports of {num_bytes} bytes of bits")
        sides.append((metric, params_id.hex(), num_bytes))
        offset = name_end + _PART.size
    days, count = unpack(_GROUP, body, offset)
    start = offset + _GROUP.size
    end = start + (_COHORT.size + sides[0][2] + sides[1][2]) * count
    check_count(2 * count, max_reports)
    if end > len(body):
        raise WireFormatError(f"the body ends {end - len(body)} bytes early")
    day = day_from_number(days)
    rows = struct.iter_unpack(f">H{sides[0][2]}s{sides[1][2]}s", body[start:end])
    return [group for cohort, *bits in rows for group in both(sides, day, cohort, bits)], end


def both(
    sides: Sequence[Side], day: date, cohort: int, bits: Sequence[bytes]
) -> Iterator[ReportGroup]:
    """The two groups of a linked report."""
    for side, (metric, params_id, num_bytes) in enumerate(sides):
        rows = [(cohort, bits[side])]
        yield ReportGroup(metric, params_id, day, num_bytes, rows, linked=side == 1)


def _group_key(pair: Pair) -> tuple[date, Side, Side]:
    first, second = ((part.metric, part.params_id, len(part.bits)) for part in pair)
    return pair[0].day, first, second
