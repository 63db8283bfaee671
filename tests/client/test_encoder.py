"""The mechanism on the device: what is the same for life, and what is fresh."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from client_sdk.errors import UnknownMetricError
from client_sdk.randomization.encoder import Encoder
from client_sdk.randomization.metric_encoder import PermanentRound
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


def test_an_unencodable_value_is_refused_without_showing_it(metrics: MetricsFile) -> None:
    encoder = Encoder(metrics.metrics, bytes(32))
    with pytest.raises(UnknownMetricError, match=r"'homepag'.*crashed, homepage, theme"):
        encoder.encode("homepag", "x", DAY)
    with pytest.raises(ValueRefusedError) as refused:
        encoder.encode("theme", "my-secret-color", DAY)
    assert "my-secret-color" not in str(refused.value)
    with pytest.raises(ParameterError, match="32 bytes, not 5"):
        Encoder(metrics.metrics, b"short")
