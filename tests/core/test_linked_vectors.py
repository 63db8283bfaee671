"""Version 2 of the wire against vectors, and a second implementation of docs/protocol.md."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from rappor_core.errors import WireFormatError
from rappor_core.metrics.compiled import compiled, read_compiled
from rappor_core.metrics.file import parse_metrics
from rappor_core.wire.binary import decode_binary
from rappor_core.wire.decode import decode_batch
from rappor_core.wire.json import decode_json
from rappor_core.wire.linked import encode_linked_binary, linked_cohort
from rappor_core.wire.report import BINARY_CONTENT_TYPE, JSON_CONTENT_TYPE, Report

VECTORS = Path(__file__).parents[1] / "vectors"
CONTENT = json.loads((VECTORS / "v2" / "linked.json").read_text())
BATCHES = CONTENT["batches"]
BATCH_ID = "00112233445566778899aabbccddeeff"


def binary_by_the_text(reports: list[list[dict[str, Any]]]) -> bytes:
    """A batch of version 2, as docs/protocol.md says it; each linked report a group or in a run."""
    groups: list[tuple[bytes, list[bytes]]] = []
    for pair in reports:
        head = b""
        for part in pair:
            name = part["metric"].encode()
            bits = bytes.fromhex(part["bits"])
            head += bytes([len(name)]) + name + bytes.fromhex(part["params_id"])
            head += struct.pack(">H", len(bits))
        day = (date.fromisoformat(pair[0]["day"]) - date(1970, 1, 1)).days
        head += struct.pack(">I", day)
        cohort = max(part["cohort"] for part in pair)
        row = struct.pack(">H", cohort) + b"".join(bytes.fromhex(p["bits"]) for p in pair)
        if groups and groups[-1][0] == head:
            groups[-1][1].append(row)
        else:
            groups.append((head, [row]))
    body = b"RAPR\2" + bytes.fromhex(BATCH_ID) + struct.pack(">H", len(groups))
    for head, rows in groups:
        body += head + struct.pack(">I", len(rows)) + b"".join(rows)
    return body


def json_by_the_text(reports: list[list[dict[str, Any]]]) -> dict[str, Any]:
    return {
        "version": 2,
        "batch_id": BATCH_ID,
        "reports": [
            {
                "cohort": max(part["cohort"] for part in pair),
                "day": pair[0]["day"],
                "linked": [
                    {
                        "metric": part["metric"],
                        "params_id": part["params_id"],
                        "bits": base64.b64encode(bytes.fromhex(part["bits"])).decode(),
                    }
                    for part in pair
                ],
            }
            for pair in reports
        ],
    }


@pytest.mark.parametrize("vector", BATCHES, ids=lambda vector: vector["name"])
def test_both_forms_are_those_of_the_vectors(vector: dict[str, Any]) -> None:
    reports = vector["reports"]
    assert binary_by_the_text(reports).hex() == vector["binary"]
    assert json_by_the_text(reports) == json.loads(bytes.fromhex(vector["json"]))


@pytest.mark.parametrize("vector", BATCHES, ids=lambda vector: vector["name"])
def test_both_forms_are_read_alike(vector: dict[str, Any]) -> None:
    bodies = [bytes.fromhex(vector[form]) for form in ("json", "binary")]
    one = decode_batch(bodies[0], JSON_CONTENT_TYPE)
    assert one == decode_batch(bodies[1], BINARY_CONTENT_TYPE)
    assert one.num_reports == 2 * len(vector["reports"])
    assert [group.linked for group in one.groups] == [False, True] * len(vector["reports"])
    wanted_reports = [part for pair in vector["reports"] for part in pair]
    for report, wanted in zip(one.ungrouped().reports, wanted_reports, strict=True):
        assert report.metric == wanted["metric"]
        assert report.bits.hex() == wanted["bits"]


@pytest.mark.parametrize("vector", CONTENT["bad"], ids=lambda vector: vector["name"])
def test_an_inexact_batch_is_refused(vector: dict[str, str]) -> None:
    with pytest.raises(WireFormatError) as caught:
        decode_batch(bytes.fromhex(vector["body"]), vector["content_type"])
    assert vector["message"] in str(caught.value)


@pytest.mark.parametrize("vector", BATCHES, ids=lambda vector: vector["name"])
def test_version_1_readers_refuse_version_2(vector: dict[str, Any]) -> None:
    """The readers of version 1 are as they were."""
    with pytest.raises(WireFormatError, match="version 2 is not known; this is 1"):
        decode_binary(bytes.fromhex(vector["binary"]))
    with pytest.raises(WireFormatError, match="version 2 is not known; this is 1"):
        decode_json(bytes.fromhex(vector["json"]))


def test_compiled_file_and_digest_follow_the_text() -> None:
    file = parse_metrics(CONTENT["metrics.toml"])
    assert compiled(file) == CONTENT["compiled"]
    assert read_compiled(json.dumps(CONTENT["compiled"])) == file
    for row in CONTENT["compiled"]["associations"]:
        definition = row["definition"]
        both = [list(pair) for pair in zip(definition["of"], definition["params_ids"], strict=True)]
        meaning = {"association": both, "meaning_version": 1}
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest()[:32] == row["params_id"]


def test_mismatched_reports_are_not_written() -> None:
    day, later = date(2026, 11, 21), date(2026, 11, 22)
    first = Report("a", "1" * 32, 3, day, b"\1")
    for other in (Report("b", "2" * 32, 3, later, b"\1"), Report("b", "2" * 32, 2, day, b"\1")):
        with pytest.raises(WireFormatError, match="one day and one cohort"):
            encode_linked_binary(bytes(16), [(first, other)])
    assert linked_cohort((first, Report("b", "2" * 32, 0, day, b"\1"))) == 3
    wide = Report("b" * 300, "2" * 32, 3, day, b"\1")
    with pytest.raises(WireFormatError, match="does not fit the binary form"):
        encode_linked_binary(bytes(16), [(first, wide)])
