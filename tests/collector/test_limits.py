"""Limits in reports, by address and by key; and what an honest report may weigh."""

import math
import os
from functools import reduce
from hashlib import sha256

import httpx
import pytest

from collector.domain.access import Scope
from collector.domain.registry import TAIL, weight_range
from collector.routes.limits import KeyLimit, RateLimit, SenderShares, network_of
from collector.settings import Settings
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.json import encode_json
from rappor_core.wire.report import BINARY_CONTENT_TYPE, make_batch
from rappor_server.errors import RateLimitedError
from tests.collector.support import ServerMaker, make_bench, make_metric

METRIC = make_metric()


class Seconds:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_limit_counts_reports_and_lends_once() -> None:
    clock = Seconds()
    limit = RateLimit(10, 1, clock)  # bursts of 100
    assert limit.admits("a", 60, 1)
    assert limit.admits("a", 60, 1)  # 20 on credit
    assert not limit.admits("a", 1, 1)
    assert limit.admits("b", 1_000, 1)  # larger than a burst
    clock.now = 2.2
    assert limit.admits("a", 0, 1)
    assert limit.admits("a", 1, 1)
    clock.now = 90.0
    assert not limit.admits("b", 1, 1)
    clock.now = 90.2
    assert limit.admits("b", 1, 1)


def test_a_forger_does_not_lock_others_out() -> None:
    """600,000 forgeries from one address at once; 1,000 devices send 50 reports each meanwhile."""
    clock = Seconds()
    limit = KeyLimit(1_000, "reports", reserve=100, seconds=clock)
    passed, honest = 0, 0
    for number in range(1_000):
        clock.now += 0.001
        passed += _passes(limit, "forger", 600)
        honest += _passes(limit, f"device {number}", 50)
    print(f"\nforged: {passed * 600:,} of 600,000 passed; honest: {honest * 50:,} of 50,000")
    assert honest == 1_000
    assert passed * 600 <= 1_000 * 10 + 1_000 * 1 + 600


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),  # as a socket for both protocols gives it
    ],
)
def test_one_subscriber_of_ipv6_is_one_sender(one: str, other: str, *, same: bool) -> None:
    assert (network_of(one) == network_of(other)) == same
    limit = RateLimit(1, 1, Seconds())
    assert limit.admits(network_of(one), 10, 1)
    assert limit.admits(network_of(other), 1, 1) != same


def test_a_reserve_does_not_evade_the_key() -> None:
    """Many addresses have 100 reports each of a key that is used up, not a batch of 10,000."""
    limit = KeyLimit(1_000, "reports", reserve=100, seconds=Seconds())
    limit.take("key", "a", 10_000)
    with pytest.raises(RateLimitedError, match="more than 1000 reports per second"):
        limit.take("key", "b", 10_000)
    assert not any(_passes(limit, f"other {n}", 10_000) for n in range(100))
    assert all(_passes(limit, f"other {n}", 100) for n in range(100))


def test_one_sender_behind_a_proxy_leaves_room_for_the_fleet() -> None:
    """20 batches of 200 reports a second, at the address of honest devices with 540 reports."""
    settings = Settings()
    clock = Seconds()
    limit = KeyLimit(settings.max_reports_per_key, "reports", reserve=100, seconds=clock)
    refused = 0
    for _ in range(20 * 600):  # ten minutes
        clock.now += 1 / 20
        _passes(limit, "proxy", settings.max_batch_reports)
        refused += not _passes(limit, "proxy", 27)
    assert refused == 0


def test_the_share_of_the_largest_sender() -> None:
    clock = Seconds()
    shares = SenderShares(seconds=clock)
    clock.now = 60.0
    shares.count("a", 5_999)
    assert shares.largest() == 0.0  # too little to matter
    clock.now = 120.0
    shares.count("", 100_000)  # by a relay
    for sender in ("a", "a", "b"):
        shares.count(sender, 3_000)
    assert shares.largest() == pytest.approx(2 / 3)
    assert shares.largest() == 0.0


def test_a_batch_too_large_says_the_bound_and_counts_nothing(serving: ServerMaker) -> None:
    with serving([METRIC], max_batch_reports=1_000) as server:
        body = server.sender.body(server.sender.reports(METRIC, 300))
        assert server.post_body(body).status_code == 200
        database = server.settings.database
    default = Settings().max_batch_reports
    assert default == 200
    with serving(None, database=database, max_batch_reports=default) as server:
        again = server.post_body(body)
        assert (again.status_code, again.json()["duplicate"]) == (200, True)
        for content_type, encode in (
            ("application/json", encode_json),
            (BINARY_CONTENT_TYPE, encode_binary),
        ):
            batch = make_batch(os.urandom(16), server.sender.reports(METRIC, 201))
            large = encode(batch)
            answer = server.post_body(large, **{"content-type": content_type})
            assert answer.status_code == 413
            problem = answer.json()
            assert problem["type"] == "urn:rappor-telemetry:problem:batch-too-large"
            assert problem["max_reports"] == 200
            assert problem["body_sha256"] == sha256(large).hexdigest()
            assert "at most 200 are accepted here" in problem["detail"]
        assert server.http.get("/v1/metrics").json()["metrics"][0]["accepted"] == 300


def report_key(url: str) -> str:
    bench = make_bench(url)
    key = bench.collector.create_key(Scope.REPORT, "app", "test").text
    bench.database.close()
    return key


def test_large_batches_use_up_no_more_than_small_ones(serving, sqlite_url) -> None:
    """None of their reports is counted, so a sender of them must not use up the key's rate."""
    key = report_key(sqlite_url)
    given = {"require_keys": True, "max_reports_per_key": 100, "max_batch_reports": 10}
    with serving([METRIC], **given) as server:
        statuses = []
        for reports in [900] * 20 + [10]:
            body = server.sender.body(server.sender.reports(METRIC, reports))
            answer = server.post_body(body, authorization=f"Bearer {key}")
            statuses.append(answer.status_code)
    assert statuses == [413] * 20 + [200]


def _passes(limit: KeyLimit, address: str, reports: int) -> bool:
    try:
        limit.take("key", address, reports)
    except RateLimitedError:
        return False
    return True


def test_the_reports_of_a_key_are_limited(serving: ServerMaker, sqlite_url: str) -> None:
    key = report_key(sqlite_url)
    given = {"require_keys": True, "max_reports_per_key": 10, "max_batch_reports": 1_000}
    with serving([METRIC], **given) as server:
        types = {"content-type": "application/json", "authorization": f"Bearer {key}"}

        def post(reports: int, http: httpx.Client = server.http) -> int:
            body = server.sender.body(server.sender.reports(METRIC, reports))
            return http.post("/v1/reports", content=body, headers=types).status_code

        assert [post(500) for _ in range(6)] == [200] + [429] * 5
        other = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(base_url=server.http.base_url, transport=other) as http:
            assert [post(50, http) for _ in range(2)] == [200, 200]


def _weights(params: RapporParams, bits_set: int) -> list[float]:
    """The exact probability of each weight, by adding one bit after the other."""
    chances = [params.q_star] * bits_set + [params.p_star] * (params.num_bits - bits_set)

    def one_more(before: list[float], chance: float) -> list[float]:
        return [
            low * chance + same * (1 - chance)
            for low, same in zip([0.0, *before], [*before, 0.0], strict=True)
        ]

    return reduce(one_more, chances, [1.0])


@pytest.mark.parametrize("num_bits", [2, 8, 32, 128])
@pytest.mark.parametrize(
    "probabilities", [(0.5, 0.5, 0.75), (0.75, 0.25, 0.75), (0.02, 0.01, 0.9), (0, 0.01, 0.99)]
)
def test_honest_reports_are_almost_never_refused(num_bits, probabilities) -> None:
    """Exactly, also where weights are far from normal; of a wide filter the range is 8 sigma."""
    f, p, q = probabilities
    params = RapporParams.rappor(
        num_bits=num_bits, num_hashes=2, num_cohorts=4, prob_f=f, prob_p=p, prob_q=q
    )
    found = weight_range(params)
    for bits_set in (1, 2):
        weights = _weights(params, bits_set)
        assert math.isclose(sum(weights), 1)
        outside = sum(weights[: found.lowest]) + sum(weights[found.highest + 1 :])
        assert outside <= 2 * TAIL
    mean = num_bits * params.p_star
    sigma = math.sqrt(num_bits * params.p_star * (1 - params.p_star))
    if mean > 20:
        assert found.highest <= mean + 8 * sigma
        assert found.lowest >= mean - 8 * sigma


def test_a_symbol_report_has_one_certain_bit() -> None:
    """Any other weight is impossible: refused, also where improbable ones are only counted."""
    mechanism = TwoRoundMechanism.symbols(4, 2.0, 1.0)
    weights = weight_range(RapporParams(4, 1, 4, mechanism, "symbol"))
    assert (weights.lowest, weights.highest, weights.certain) == (1, 1, True)
    bits = RapporParams(64, 2, 4, TwoRoundMechanism.rappor(0.5, 0.5, 0.75))
    assert not weight_range(bits).certain
