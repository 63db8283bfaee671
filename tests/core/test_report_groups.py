"""Reading batches by groups: the same reports as one by one, and no key twice goes unseen."""

import json
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rappor_core.errors import WireFormatError
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.json import decode_batch, decode_json, encode_json
from rappor_core.wire.report import BINARY_CONTENT_TYPE, JSON_CONTENT_TYPE, Batch, Report

DAY = date(2026, 11, 21)
reports = st.builds(
    Report,
    metric=st.sampled_from(["a", "b", "übung", "d/night/11"]),
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


@given(batches)
def test_groups_hold_the_reports_in_their_order(batch: Batch) -> None:
    for encode, content_type in (
        (encode_json, JSON_CONTENT_TYPE),
        (encode_binary, BINARY_CONTENT_TYPE),
    ):
        body = encode(batch)
        assert decode_batch(body, content_type).ungrouped() == batch
        grouped = decode_batch(body, content_type)
        assert grouped.num_reports == len(batch.reports)
        for group in grouped.groups:
            assert {len(bits) for _, bits in group.rows} == {group.num_bytes}


def test_escapes_are_read_as_any_parser_reads_them() -> None:
    batch = Batch("0f" * 16, (Report("übung", "0" * 32, 1, DAY, b"ab"),))
    escaped = json.dumps(json.loads(encode_json(batch))).encode()
    assert b"\\u" in escaped
    assert decode_json(escaped).ungrouped() == batch


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
