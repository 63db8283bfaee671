"""The mechanism on the device: what is the same for life, and what is fresh."""

from datetime import date, timedelta

import pytest

from client_sdk.errors import UnknownMetricError
from client_sdk.randomization.metric_encoder import Encoder
from rappor_core.errors import ParameterError, ValueRefusedError
from rappor_core.metrics.metrics_file import MetricsFile

DAY = date(2026, 11, 21)


def test_words_and_dates_of_a_version_change_no_response(metrics: MetricsFile) -> None:
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
