"""The mechanism on the device: what is the same for life, and what is fresh."""

from __future__ import annotations

import os
from datetime import date, timedelta

import pytest

from client_sdk.errors import UnknownMetricError
from client_sdk.randomisation.encoder import Encoder
from client_sdk.randomisation.key_derivation import cohort_of
from client_sdk.randomisation.rounds import InstantaneousRound, PermanentRound
from client_sdk.testing import FixedRandomness
from rappor_core.errors import ParameterError, ValueRefusedError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.metrics_file import MetricsFile

DAY = date(2026, 11, 21)


def test_a_value_has_one_permanent_and_fresh_reports(metrics: MetricsFile) -> None:
    encoder = Encoder(metrics.metrics, bytes(32))
    homepage = encoder.metric("homepage")
    bits = homepage.value_bits("example.org")
    again = Encoder(metrics.metrics, bytes(32)).metric("homepage")

    assert homepage.permanent_bits(bits) == again.permanent_bits(bits)
    reports = {encoder.encode("homepage", "example.org", DAY).bits for _ in range(50)}
    assert len(reports) == 50


def test_a_report_says_metric_parameters_cohort_and_day(metrics: MetricsFile) -> None:
    report = Encoder(metrics.metrics, bytes(32)).encode("theme", "dark", DAY)

    assert report.metric == "theme"
    assert report.params_id == metrics.metrics["theme"].params_id
    assert report.cohort == cohort_of(bytes(32), "theme", 4)
    assert report.day == DAY
    assert len(report.bits) == 1


def test_a_noiseless_mechanism_sends_the_bits_themselves() -> None:
    certain = TwoRoundMechanism(p1=1 << 16, q1=0, p2=1 << 16, q2=0)
    permanent = PermanentRound(bytes(32), "m", "00" * 16, certain, 40)
    instantaneous = InstantaneousRound(certain, 40, os.urandom)
    for bits in (0, 1, 0b1010, (1 << 40) - 1):
        assert permanent(bits) == bits
        assert instantaneous(permanent(bits)) == bits


def test_randomness_is_an_argument(metrics: MetricsFile) -> None:
    def run() -> list[bytes]:
        encoder = Encoder(metrics.metrics, bytes(32), FixedRandomness(7))
        return [encoder.encode("homepage", "a", DAY).bits for _ in range(5)]

    assert run() == run()
    assert len(set(run())) == 5


def test_secrets_metrics_and_parameters_give_other_responses() -> None:
    mechanism = TwoRoundMechanism.rappor(0.5, 0.5, 0.75)

    def permanent(secret: bytes, metric: str, params_id: str) -> int:
        return PermanentRound(secret, metric, params_id, mechanism, 128)(0b11)

    base = permanent(bytes(32), "a", "00" * 16)
    assert permanent(bytes(31) + b"\1", "a", "00" * 16) != base
    assert permanent(bytes(32), "b", "00" * 16) != base
    assert permanent(bytes(32), "a", "01" + "00" * 15) != base


def test_words_and_dates_of_a_version_change_no_response(metrics: MetricsFile) -> None:
    """The next version of an app says something else of the same metric."""
    now = metrics.metrics["homepage"]
    later = now.replace(
        description="said otherwise", owner="b@example.org", min_reports=2_000,
        expires=now.expires + timedelta(days=30),
    )  # fmt: skip
    first, second = (
        Encoder({"homepage": one}, bytes(32)).metric("homepage") for one in (now, later)
    )
    assert first.cohort == second.cohort
    for value in ("a", "b", "c", "d"):
        bits = first.value_bits(value)
        assert first.permanent_bits(bits) == second.permanent_bits(bits)


def test_values_of_the_same_bits_share_a_digest(metrics: MetricsFile) -> None:
    crashed = Encoder(metrics.metrics, bytes(32)).metric("crashed")
    assert crashed.digest(1) == crashed.digest(1)
    assert crashed.digest(1) != crashed.digest(0)
    assert len(crashed.digest(0)) == 16


def test_an_unencodable_value_is_refused_without_showing_it(metrics: MetricsFile) -> None:
    encoder = Encoder(metrics.metrics, bytes(32))
    with pytest.raises(UnknownMetricError, match=r"'homepag'.*crashed, homepage, theme"):
        encoder.encode("homepag", "x", DAY)
    with pytest.raises(ValueRefusedError) as refused:
        encoder.encode("theme", "my-secret-colour", DAY)
    assert "my-secret-colour" not in str(refused.value)
    with pytest.raises(ParameterError, match="32 bytes, not 5"):
        Encoder(metrics.metrics, b"short")
