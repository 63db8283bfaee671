"""The wire: round trips, golden vectors, and bodies that must be refused."""

import json
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rappor_core.errors import WireFormatError
from rappor_core.wire import report as wire
from rappor_core.wire.binary import decode_binary, encode_binary
from rappor_core.wire.json import decode_batch, decode_json, encode_json
from rappor_core.wire.report import Batch, Report

VECTORS = Path(__file__).parents[1] / "vectors" / "v1"

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: len(name.encode()) <= wire.MAX_METRIC_BYTES
)
hex128 = st.binary(min_size=16, max_size=16).map(bytes.hex)
reports = st.builds(
    Report,
    metric=names,
    params_id=hex128,
    cohort=st.integers(0, 65_535),
    day=st.dates(min_value=date(1970, 1, 1)),
    bits=st.binary(min_size=1, max_size=40),
)
batches = st.builds(
    Batch, batch_id=hex128, reports=st.lists(reports, min_size=1, max_size=8).map(tuple)
)


@given(batches)
def test_both_forms_give_the_batch_back_in_order(batch: Batch) -> None:
    for grouped in (decode_json(encode_json(batch)), decode_binary(encode_binary(batch))):
        assert grouped.ungrouped() == batch
        assert grouped.num_reports == len(batch.reports)
        for group in grouped.groups:
            assert {len(bits) for _, bits in group.rows} == {group.num_bytes}


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_and_never_crash(body: bytes) -> None:
    for decode in (decode_json, decode_binary):
        with pytest.raises(WireFormatError):
            decode(body)


@given(batches, st.data())
def test_a_cut_binary_batch_is_refused(batch: Batch, data: st.DataObject) -> None:
    body = encode_binary(batch)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(WireFormatError):
        decode_binary(body[:cut])
    with pytest.raises(WireFormatError, match="follow the last group"):
        decode_binary(body + b"\0")


@pytest.mark.parametrize("vector", json.loads((VECTORS / "batches.json").read_text()))
def test_golden_batches(vector: dict[str, str]) -> None:
    batch = decode_json(vector["json"].encode()).ungrouped()
    assert encode_json(batch).decode() == vector["json"]
    assert encode_binary(batch).hex() == vector["binary"]
    assert decode_binary(bytes.fromhex(vector["binary"])).ungrouped() == batch


@pytest.mark.parametrize("vector", json.loads((VECTORS / "bad_batches.json").read_text()))
def test_batches_that_must_fail(vector: dict[str, str]) -> None:
    body = bytes.fromhex(vector["body"])
    with pytest.raises(WireFormatError) as caught:
        decode_batch(body, vector["content_type"])
    assert vector["message"] in str(caught.value)


def test_an_oversized_group_is_refused_unread() -> None:
    many = Batch("00" * 16, (Report("a", "11" * 16, 0, date(2026, 1, 1), b"\1"),) * 3)
    for encode, decode in ((encode_json, decode_json), (encode_binary, decode_binary)):
        assert decode(encode(many), max_reports=3).num_reports == 3
        with pytest.raises(WireFormatError, match="3 reports"):
            decode(encode(many), max_reports=2)


def test_deep_nesting_and_huge_numbers_are_refused() -> None:
    for body in (b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5_000):
        with pytest.raises(WireFormatError):
            decode_json(body)


def test_a_batch_id_has_16_bytes() -> None:
    assert wire.make_batch(bytes(16), []).batch_id == "00" * 16
    with pytest.raises(WireFormatError, match="15"):
        wire.make_batch(bytes(15), [])


def test_escapes_are_read_as_any_parser_reads_them() -> None:
    batch = Batch("0f" * 16, (Report("übung", "0" * 32, 1, date(2026, 11, 21), b"ab"),))
    escaped = json.dumps(json.loads(encode_json(batch))).encode()
    assert b"\\u" in escaped
    assert decode_json(escaped).ungrouped() == batch


DAY = date(2026, 11, 21)
REPORT = f'{{"metric":"a","params_id":"{"0" * 32}","cohort":1,"day":"{DAY}","bits":"AAE="}}'
GOOD = f'{{"version":1,"batch_id":"{"0" * 32}","reports":[{REPORT},{REPORT}]}}'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"cohort":1', '"cohort":1,"cohort":1'),
        ('"metric":"a"', '"metric":"b","metric":"a"'),
        ('"version":1', '"version":2,"version":1'),
        ('"reports":[', '"reports":[],"reports":['),
        ('"cohort":1', '"cohort":{"a":1,"a":2},"cohort":1'),
        ('"metric":"a"', '"\\u006detric":"b","metric":"a"'),
    ],
)
@pytest.mark.parametrize("times", [1, -1])
def test_a_repeated_key_is_refused_anywhere(old: str, new: str, times: int) -> None:
    assert decode_json(GOOD.encode()).num_reports == 2
    with pytest.raises(WireFormatError, match=r"stands twice|is not|are taken"):
        decode_json(GOOD.replace(old, new, times).encode())
