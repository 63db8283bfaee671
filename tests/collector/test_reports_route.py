"""POST /v1/reports over real HTTP; the reader of JSON agrees with the core's."""

import gzip
import json
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.domain.submission import decode_batch_json
from rappor_core.aggregate import Aggregate
from rappor_core.errors import WireFormatError
from rappor_core.metrics.file import parse_metrics
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.json import decode_json, encode_json
from rappor_core.wire.report import (
    BINARY_CONTENT_TYPE,
    JSON_CONTENT_TYPE,
    Batch,
    Report,
    make_batch,
)
from tests.collector.support import TODAY, Server, ServerMaker, make_metric
from tests.metric_texts import declaration

METRIC = make_metric()


def test_binary_and_gzip_count_as_json_does(server: Server) -> None:
    reports = server.sender.reports(METRIC, 5)
    forms = [
        (encode_json, "application/json", False),
        (encode_json, "application/json; charset=UTF-8", True),
        (encode_binary, BINARY_CONTENT_TYPE, False),
        (encode_binary, BINARY_CONTENT_TYPE, True),
    ]
    for number, (encode, content_type, zipped) in enumerate(forms):
        body = encode(make_batch(bytes([number]) * 16, reports))
        headers = {"content-type": content_type}
        if zipped:
            body, headers["content-encoding"] = gzip.compress(body), "gzip"
        assert server.post_body(body, **headers).json()["results"] == [{"status": "accepted"}] * 5
    assert server.http.get("/v1/metrics").json()["metrics"][0]["accepted"] == 20


def test_a_batch_sent_again_is_counted_once(server: Server) -> None:
    body = server.sender.body([*server.sender.reports(METRIC, 2), _wrong_cohort(server)])
    first, again = server.post_body(body).json(), server.post_body(body).json()
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    reasons = [[r.get("reason") for r in answer["results"]] for answer in (first, again)]
    assert reasons == [[None, None, "cohort_out_of_range"]] * 2
    assert server.http.get("/v1/metrics").json()["metrics"][0]["accepted"] == 2


def test_each_refusal_has_its_name(serving: ServerMaker) -> None:
    short = make_metric("short", num_bits=12)
    gone = make_metric("gone", expires=TODAY - timedelta(days=1))
    with serving([METRIC, short, gone]) as server:
        report = server.sender.report
        cases = {
            "unknown_metric": report(METRIC, metric="nothing"),
            "wrong_params_id": report(METRIC, params_id="0" * 32),
            "wrong_length": report(METRIC, bits=b"123"),
            "cohort_out_of_range": report(METRIC, cohort=4),
            "day_closed": report(METRIC, TODAY - timedelta(days=8)),
            "day_in_future": report(METRIC, TODAY + timedelta(days=1)),
            "metric_expired": report(gone),
            "spare_bits_set": report(short, bits=b"\x00\x10"),
        }
        answer = server.post([*cases.values(), report(METRIC)]).json()
    results = answer["results"]
    assert [result.get("reason") for result in results] == [*cases, None]
    assert all(result["detail"] for result in results[:-1])


def test_last_open_day_and_fast_clock_pass(server: Server) -> None:
    oldest = server.sender.report(METRIC, TODAY - timedelta(days=7))
    assert server.post([oldest]).json()["results"] == [{"status": "accepted"}]
    server.clock.now = server.clock.now.replace(hour=23, minute=55)
    tomorrow = server.sender.report(METRIC, TODAY + timedelta(days=1))
    assert server.post([tomorrow]).json()["results"] == [{"status": "accepted"}]


def test_impossible_weights_are_refused_unless_allowed(serving: ServerMaker) -> None:
    metric = make_metric(num_bits=512)
    all_set = b"\xff" * 64
    with serving([metric], refuse_implausible=False) as server:
        answer = server.post([server.sender.report(metric, bits=all_set)])
        assert answer.json()["results"] == [{"status": "accepted"}]
        assert "rappor_reports_implausible_total 1.0" in server.http.get("/metrics").text
    with serving([metric]) as server:
        answer = server.post([server.sender.report(metric, bits=all_set)])
        assert answer.json()["results"][0]["reason"] == "implausible_weight"
        assert (
            server.post(server.sender.reports(metric, 50)).json()["results"]
            == [{"status": "accepted"}] * 50
        )


def _wrong_cohort(server: Server):  # type: ignore[no-untyped-def]
    return server.sender.report(METRIC, cohort=99)


LOCATION = declaration(
    "density", "location", grid="quadkey", box=[40.5, -74.3, 40.95, -73.65], levels=[11,
    13], slots=["night 22-6", "work 9-17 weekdays"], mode="memo", encoding="symbol",
    num_symbols=4, num_cohorts=2, epsilon_infinity=2.0, epsilon_one=1.0, min_reports=5,
    min_reports_per_cohort=1,
)  # fmt: skip


def test_sub_metrics_of_places_live_like_metrics(serving: ServerMaker) -> None:
    part = parse_metrics(LOCATION).metrics["density/night/11"]
    with serving() as server:
        assert len(server.http.post("/v1/metrics", content=LOCATION).json()["added"]) == 4
        reports = [server.sender.report(part, bits=bytes([1 << (n % 4)])) for n in range(8)]
        two_symbols = server.sender.report(part, bits=b"\x03")
        results = server.post([*reports, two_symbols]).json()["results"]
        assert [r.get("reason") for r in results] == [None] * 8 + ["implausible_weight"]
        closed = server.http.post(f"/v1/days/{TODAY}/close?metric=density").json()
        assert closed == {"closed_through": str(TODAY), "metrics": ["density"],
                          "days_with_reports": 1}  # fmt: skip
        served = server.http.get("/v1/metrics/density/night/11/aggregate")
        aggregate = Aggregate.from_json(served.content)
        assert (aggregate.metric, aggregate.num_reports) == ("density/night/11", 8)
        assert server.http.get("/v1/metrics/density/work/11/aggregate").status_code == 409
        assert server.http.get("/v1/metrics/density/noon/11/aggregate").status_code == 404
        assert len(server.http.post("/v1/metrics/density/retire").json()["retired"]) == 4
        again = server.post([server.sender.report(part, bits=b"\x01")]).json()["results"]
        assert again[0]["reason"] == "metric_retired"


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


def read(decode: Callable[[bytes], Any], body: bytes) -> Batch | None:
    try:
        return decode(body).ungrouped()
    except WireFormatError:
        return None


@given(batches, st.data())
def test_both_readers_agree_on_bodies_near_to_a_batch(batch: Batch, data: st.DataObject) -> None:
    indent = data.draw(st.sampled_from([None, 1]))
    body = bytearray(json.dumps(json.loads(encode_json(batch)), indent=indent).encode())
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b"", b"0", b'"', b"{", b"}", b",", b"]", b" ", b"\\", b"1e1", b"\xff"])
        )
    assert read(decode_batch_json, bytes(body)) == read(decode_json, bytes(body))


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
