"""The JSON form of batches of version 2."""

from __future__ import annotations

import binascii
import json
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

from rappor_core.errors import WireFormatError, shown
from rappor_core.wire.json import bits_from_text, check_fields, check_hex_128, day_from_text
from rappor_core.wire.linked import WHAT, Pair, Side, both, linked_cohort
from rappor_core.wire.report import (
    LINKED_VERSION,
    MAX_REPORTS,
    GroupedBatch,
    check_count,
    check_metric,
)

_BATCH_FIELDS = {"version", "batch_id", "reports"}
_LINKED_FIELDS = {"cohort", "day", "linked"}
_PART_FIELDS = {"metric", "params_id", "bits"}


def encode_linked_json(batch_id: bytes, pairs: Sequence[Pair]) -> bytes:
    """Write a batch of linked reports as compact JSON, UTF-8. Raises WireFormatError."""
    reports = [
        {
            "cohort": linked_cohort(pair),
            "day": pair[0].day.isoformat(),
            "linked": [
                {
                    "metric": part.metric,
                    "params_id": part.params_id,
                    "bits": binascii.b2a_base64(part.bits, newline=False).decode("ascii"),
                }
                for part in pair
            ],
        }
        for pair in pairs
    ]
    document = {"version": LINKED_VERSION, "batch_id": batch_id.hex(), "reports": reports}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def read_linked_json(document: Any, *, max_reports: int = MAX_REPORTS) -> GroupedBatch:
    """Read a parsed body, as `decode_linked_binary` does. Raises WireFormatError."""
    try:
        return _read_document(document, max_reports)
    except WireFormatError as error:
        raise WireFormatError(f"{WHAT}: {error}") from None


def _read_document(document: Any, max_reports: int) -> GroupedBatch:
    check_fields("the batch", document, _BATCH_FIELDS)
    if type(document["version"]) is not int:
        raise WireFormatError(f"version {shown(document['version'])} is not known")
    batch_id = check_hex_128("batch_id", document["batch_id"])
    reports = document["reports"]
    if type(reports) is not list:
        raise WireFormatError("reports is not a list")
    check_count(2 * len(reports), max_reports)
    groups = [group for row in _linked_rows(reports) for group in both(*row)]
    return GroupedBatch(batch_id, tuple(groups), 2 * len(reports))


def _linked_rows(reports: list[Any]) -> Iterator[tuple[list[Side], date, int, list[bytes]]]:
    """Both sides, day, cohort and both bits of each linked report."""
    for index, fields in enumerate(reports):
        where = f"report {index}"
        check_fields(where, fields, _LINKED_FIELDS)
        cohort, parts = fields["cohort"], fields["linked"]
        if type(cohort) is not int or not 0 <= cohort < 1 << 16:
            raise WireFormatError(
                f"{where}: cohort {shown(cohort)} is not an integer in [0, 65535]"
            )
        if type(parts) is not list or len(parts) != 2:
            raise WireFormatError(f"{where}: linked is not a list of two")
        for part in parts:
            check_fields(f"{where}: linked", part, _PART_FIELDS)
        bits = [bits_from_text(index, part["bits"]) for part in parts]
        sides = [
            (
                check_metric(p["metric"]),
                check_hex_128(f"{where}: params_id", p["params_id"]),
                len(b),
            )
            for p, b in zip(parts, bits, strict=True)
        ]
        yield sides, day_from_text(where, fields["day"]), cohort, bits
