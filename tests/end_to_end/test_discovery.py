"""Strings go from devices over the wire and the collector to the decoder, by the real parts."""

import os
import random
from pathlib import Path

import pytest

from client_sdk import Encoder
from decoder import decode, metric_candidates
from decoder.discovery.discovery import discover
from decoder.errors import CandidatesError
from rappor_core.errors import ValueRefusedError
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.json import decode_batch
from rappor_core.wire.report import BINARY_CONTENT_TYPE, make_batch
from tests.collector.support import TODAY, served_after_a_day
from tests.discovery_support import site_metric

SHARES = {"home.example": 0.5, "Shop.example": 0.3}
DEVICES = 6_000


def test_strings_are_found_from_served_counts(tmp_path: Path) -> None:
    """Seeds are fixed; the bounds are five standard errors, as the discovery states them."""
    more = "min_reports = 10\nmin_reports_per_cohort = 1\nnum_bits = 64\nnum_cohorts = 25\n"
    metric = site_metric(7.0, more)
    rng = random.Random(5)
    reports = []
    for device in range(DEVICES):
        chosen = rng.choices([*SHARES, f"only-{device}.example"], [*SHARES.values(), 0.2])[0]
        encoder = Encoder({metric.name: metric}, rng.randbytes(32), rng.randbytes)
        reports.append(encoder.encode(metric.name, chosen, TODAY))
    assert encoder.encode("site", chosen, TODAY) == reports[-1]  # the same for life
    with pytest.raises(ValueRefusedError, match="takes a string"):
        encoder.encode("site", 3, TODAY)

    batch = make_batch(os.urandom(16), reports[:100])
    read = decode_batch(encode_binary(batch), BINARY_CONTENT_TYPE).ungrouped()
    assert sorted(read.reports) == sorted(batch.reports)

    aggregate = served_after_a_day(tmp_path, metric, reports)

    found = {row.string: row for row in discover(aggregate).found}
    assert set(found) == {"home.example", "shop.example"}
    for string, share in SHARES.items():
        assert abs(found[string.lower()].estimate - share) < 5 * found[string.lower()].std_error
    with pytest.raises(CandidatesError, match="find strings with rappor discover"):
        decode(aggregate, metric_candidates(aggregate))
