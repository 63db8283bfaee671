"""Metrics and populations of strings for the tests of `discover`."""

import random

import numpy as np

from rappor_core.codes.prefix_code import packaged_code
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric

SITE = """
[metrics.site]
kind = "discover"
description = "Site that a device visits most"
owner = "test@example.org"
expires = 2027-06-30
max_reports = 1
max_memoized_values = 2
fallback = "other.example"
"""


def site_metric(epsilon: float = 4.0, more: str = "") -> Metric:
    return parse_metrics(f"{SITE}epsilon_infinity = {epsilon}\n{more}").metrics["site"]


def small_metric(epsilon: float = 6.0, more: str = "") -> Metric:
    """Few reports suffice, and a search takes a tenth of a second."""
    return site_metric(epsilon, f"num_bits = 256\nnum_cohorts = 50\nbits_per_level = 12\n{more}")


def site_names(number: int, seed: int = 5) -> list[str]:
    """Names such as devices could hold: syllables and an ending, with codes of 48 bits at most."""
    code = packaged_code("domains")
    rng = random.Random(seed)
    parts = [c + v for c in "bcdfglmnprstv" for v in "aeiou"]
    names: dict[str, None] = {}
    while len(names) < number:
        word = "".join(rng.choices(parts, k=rng.randint(2, 4)))
        name = f"{word}.{rng.choice(['com', 'org', 'net', 'de'])}"
        if code.decode(code.encode(name.encode(), 48), 48).ended:
            names[name] = None
    return list(names)


def falling_shares(number: int) -> np.ndarray:
    """Zipf's law."""
    shares = 1 / np.arange(1, number + 1)
    return np.asarray(shares / shares.sum())
