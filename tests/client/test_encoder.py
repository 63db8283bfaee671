"""The mechanism on the device: what is the same for life, and what is fresh."""

from datetime import timedelta

from client_sdk.randomization.metric_encoder import Encoder
from rappor_core.metrics.metrics_file import MetricsFile


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
