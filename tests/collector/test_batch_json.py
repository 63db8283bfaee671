"""Reading batches in JSON: the collector's reader agrees with the core's."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.domain.submission import decode_batch_json
from rappor_core.errors import WireFormatError
from rappor_core.wire.json import decode_json, encode_json
from rappor_core.wire.report import JSON_CONTENT_TYPE, Batch, Report

VECTORS = Path(__file__).parents[1] / "vectors" / "v1"
DAY = date(2026, 11, 21)
REPORT = f'{{"metric":"a","params_id":"{"0" * 32}","cohort":1,"day":"{DAY}","bits":"AAE="}}'
GOOD = f'{{"version":1,"batch_id":"{"0" * 32}","reports":[{REPORT},{REPORT}]}}'

reports = st.builds(
    Report,
    metric=st.sampled_from(["a", "b", "übung", "d/night/11", 'a "quoted" name', "back\\slash"]),
    params_id=st.sampled_from(["0" * 32, "ab" * 16]),
    cohort=st.integers(0, 65535),
    day=st.integers(0, 2).map(lambda days: DAY + timedelta(days=days)),
    bits=st.binary(min_size=1, max_size=20),
)
batches = st.builds(
    Batch,
    batch_id=st.just("0f" * 16),
    reports=st.lists(reports, min_size=1, max_size=12).map(tuple),
)


def read(body: bytes) -> Batch | None:
    try:
        return decode_batch_json(body).ungrouped()
    except WireFormatError:
        return None


def read_by_the_core(body: bytes) -> Batch | None:
    try:
        return decode_json(body).ungrouped()
    except WireFormatError:
        return None


@given(batches)
def test_groups_hold_the_reports_in_their_order(batch: Batch) -> None:
    grouped = decode_batch_json(encode_json(batch))
    assert grouped.ungrouped() == batch
    assert grouped.num_reports == len(batch.reports)
    for group in grouped.groups:
        assert {len(bits) for _, bits in group.rows} == {group.num_bytes}


@given(batches, st.data())
def test_both_readers_agree_on_bodies_near_to_a_batch(batch: Batch, data: st.DataObject) -> None:
    indent = data.draw(st.sampled_from([None, 1]))
    body = bytearray(json.dumps(json.loads(encode_json(batch)), indent=indent).encode())
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b"", b"0", b'"', b"{", b"}", b",", b"]", b" ", b"\\", b"1e1", b"\xff"])
        )
    assert read(bytes(body)) == read_by_the_core(bytes(body))


@pytest.mark.parametrize("vector", json.loads((VECTORS / "batches.json").read_text()))
def test_golden_batches(vector: dict[str, str]) -> None:
    body = vector["json"].encode()
    assert decode_batch_json(body) == decode_json(body)


@pytest.mark.parametrize(
    "vector",
    [
        vector
        for vector in json.loads((VECTORS / "bad_batches.json").read_text())
        if vector["content_type"] == JSON_CONTENT_TYPE
    ],
    ids=lambda vector: vector["name"],
)
def test_batches_that_must_fail(vector: dict[str, str]) -> None:
    with pytest.raises(WireFormatError):
        decode_batch_json(bytes.fromhex(vector["body"]))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"version":1', '"version":2', "version 2 is not known; this is 1"),
        ('"cohort":1', '"cohort":-1', "report 0: cohort -1 is not an integer in [0, 65535]"),
        ('"cohort":1', '"cohort":true', "Expected `int`, got `bool` - at `$.reports[0].cohort`"),
        ('"cohort":1', '"cohort":NaN', "not JSON"),
        ('"cohort":1', '"cohort":[' + "[" * 100_000, "Expected `int`, got `array`"),
        ('"cohort":1', '"cohort":' + "9" * 5_000, "out of range - at `$.reports[0].cohort`"),
        ('"cohort":1', '"cohort":1,"ip":' + "[" * 100_000, "unknown field `ip`"),
        ('"cohort":1,', "", "missing required field `cohort` - at `$.reports[0]`"),
        ("AAE=", "AAF=", "report 0: bits 'AAF=' is not base64"),
        ('"metric":"a"', '"metric":"\\ud800"', "not JSON"),
    ],
)
def test_the_message_names_the_field(old: str, new: str, message: str) -> None:
    with pytest.raises(WireFormatError) as caught:
        decode_batch_json(GOOD.replace(old, new, 1).encode())
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"cohort":1', '"cohort":1,"cohort":1'),
        ('"metric":"a"', '"metric":"b","metric":"a"'),
        ('"metric":"a"', '"metric":"\\"","metric":"a"'),
        ('"metric":"a"', '"cohort":7,"metric":"\\u0022\\u0022"'),
        ('"version":1', '"version":2,"version":1'),
        ('"reports":[', '"reports":[],"reports":['),
        ('"metric":"a"', '"\\u006detric":"b","metric":"a"'),
    ],
)
@pytest.mark.parametrize("times", [1, -1])
def test_a_repeated_key_is_refused_anywhere(old: str, new: str, times: int) -> None:
    assert decode_batch_json(GOOD.encode()).num_reports == 2
    with pytest.raises(WireFormatError, match="a key is repeated"):
        decode_batch_json(GOOD.replace(old, new, times).encode())
