"""Limits in reports, by address and by key; and what an honest report may weigh."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce

import httpx
import pytest

from collector.domain.access import Scope
from collector.domain.plausibility import TAIL, weight_range
from collector.errors import RateLimitedError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from rappor_server.limits import KeyLimit, RateLimit, network_of
from tests.collector.support import Server, ServerMaker, make_bench, make_metric

METRIC = make_metric()


class Seconds:
    """A clock that is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_limit_counts_reports_and_lends_once() -> None:
    clock = Seconds()
    limit = RateLimit(10, "reports", seconds=clock)  # bursts of 100
    limit.take("a", 60)
    limit.take("a", 60)  # 20 on credit
    with pytest.raises(RateLimitedError, match="10 reports a second"):
        limit.take("a", 1)
    limit.take("b", 1_000)  # larger than a burst
    clock.now = 2.2
    limit.take("a", 0)
    limit.take("a", 1)
    clock.now = 90.0
    with pytest.raises(RateLimitedError):
        limit.take("b", 1)
    clock.now = 90.2
    limit.take("b", 1)


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
    limit = RateLimit(1, "reports", seconds=Seconds())
    limit.take(network_of(one), 10)
    if same:
        with pytest.raises(RateLimitedError):
            limit.take(network_of(other))
    else:
        limit.take(network_of(other))


def test_a_reserve_does_not_evade_the_key() -> None:
    """Many addresses have 100 reports each of a key that is used up, not a batch of 10,000."""
    limit = KeyLimit(1_000, "reports", reserve=100, seconds=Seconds())
    limit.take("key", "a", 10_000)
    assert not any(_passes(limit, f"other {n}", 10_000) for n in range(100))
    assert all(_passes(limit, f"other {n}", 100) for n in range(100))


def _passes(limit: KeyLimit, address: str, reports: int) -> bool:
    try:
        limit.take("key", address, reports)
    except RateLimitedError:
        return False
    return True


@pytest.fixture
def keyed(serving: ServerMaker, sqlite_url: str) -> Iterator[tuple[Server, str]]:
    """A collector that takes 10 reports a second of a key, and a key."""
    bench = make_bench(sqlite_url)
    key = bench.collector.create_key(Scope.REPORT, "app", "test").text
    bench.database.close()
    with serving([METRIC], require_keys=True, max_reports_per_key=10) as server:
        yield server, key


def test_the_reports_of_a_key_are_limited(
    keyed: tuple[Server, str],
) -> None:
    server, key = keyed
    headers = {"authorization": f"Bearer {key}"}

    def post(reports: int, http: httpx.Client = server.http) -> int:
        body = server.sender.body(server.sender.reports(METRIC, reports))
        types = {"content-type": "application/json"}
        return http.post("/v1/reports", content=body, headers=headers | types).status_code

    forged = [post(500) for _ in range(6)]
    assert forged[0] == 200
    assert set(forged[1:]) == {429}
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
def test_honest_reports_are_almost_never_refused(
    num_bits: int, probabilities: tuple[float, float, float]
) -> None:
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
