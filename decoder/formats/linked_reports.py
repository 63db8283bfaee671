"""Linked reports as a collector gives them: a line of JSON each, with the bits of both metrics."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Iterable

import numpy as np

from decoder.association.linked import Bits, LinkedReports
from decoder.errors import CountsError
from rappor_core.metrics.association import Association

FIELDS = {"association", "params_id", "cohort", "day", "bits"}


def read_linked(lines: Iterable[bytes], association: Association) -> LinkedReports:
    """Read the linked reports of an association.

    Raises CountsError that names the line: no report, of another version, or of another size.
    """
    cohorts: list[int] = []
    sides: tuple[list[bytes], list[bytes]] = ([], [])
    widths = [metric.params.report_bytes for metric in association.metrics]
    for number, line in enumerate(lines, start=1):
        try:
            fields = json.loads(line)
            if fields.keys() != FIELDS:
                raise ValueError("not a linked report")
            bits = [b64decode(text, validate=True) for text in fields["bits"]]
        except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
            raise CountsError(f"linked report {number}: {error}") from error
        if (fields["association"], fields["params_id"]) != (
            association.name,
            association.params_id,
        ):
            raise CountsError(f"linked report {number} is of another association or version")
        cohort = fields["cohort"]
        if type(cohort) is not int or not 0 <= cohort < association.num_cohorts:
            raise CountsError(f"linked report {number}: cohort is not below the association's")
        if [len(side) for side in bits] != widths:
            raise CountsError(f"linked report {number}: bits are not {widths} bytes")
        cohorts.append(cohort)
        for side, one in zip(sides, bits, strict=True):
            side.append(one)
    first, second = (
        _unpacked(side, width) for side, width in zip(sides, association.shape, strict=True)
    )
    return LinkedReports(np.array(cohorts, dtype=np.intp), first, second)


def _unpacked(rows: list[bytes], width: int) -> Bits:
    """Bit i of a report is bit i % 8 of its byte i // 8. (N, k)."""
    if not rows:
        return np.zeros((0, width), dtype=np.uint8)
    packed = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)
    return np.unpackbits(packed, axis=1, bitorder="little")[:, :width]
