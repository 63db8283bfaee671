"""Two linked metrics, and devices that answer both."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from datetime import date

from client_sdk import Encoder
from rappor_core.metrics.file import MetricsFile, parse_metrics
from rappor_core.wire.linked import Pair, encode_linked_binary
from rappor_core.wire.linked_json import encode_linked_json

TEXT = """
[metrics.homepage]
kind = "string"
description = "Home page of the browser"
owner = "web@example.org"
expires = 2099-06-30
num_bits = 16
num_hashes = 2
num_cohorts = 4
prob_f = 0.25
prob_p = 0.25
prob_q = 0.75
max_memoized_values = 3
fallback = "other"
min_reports = 10
min_reports_per_cohort = 3

[metrics.engine]
kind = "string"
description = "Search engine"
owner = "web@example.org"
expires = 2099-06-30
num_bits = 12
num_hashes = 2
num_cohorts = 4
prob_f = 0.25
prob_p = 0.25
prob_q = 0.75
max_memoized_values = 3
fallback = "other"
min_reports = 10
min_reports_per_cohort = 3

[metrics.theme]
kind = "category"
description = "Colours in use"
owner = "web@example.org"
expires = 2099-06-30
categories = ["light", "dark", "system"]
max_memoized_values = 3
prob_f = 0.25
prob_p = 0.25
prob_q = 0.75
min_reports = 10
min_reports_per_cohort = 3

[metrics.crashed]
kind = "boolean"
description = "Whether the last run ended by itself"
owner = "web@example.org"
expires = 2099-06-30
prob_f = 0.25
prob_p = 0.25
prob_q = 0.75
min_reports = 10
min_reports_per_cohort = 3

[associations.home_engine]
description = "Which search engine goes with which home page"
owner = "web@example.org"
expires = 2099-06-30
of = ["homepage", "engine"]

[associations.theme_crashed]
description = "Whether dark colours crash"
owner = "web@example.org"
expires = 2099-06-30
of = ["theme", "crashed"]
"""


def linked_file(**changes: str) -> MetricsFile:
    """The file above; a change replaces each text `key` by its value."""
    text = TEXT
    for before, after in changes.items():
        text = text.replace(before, after)
    return parse_metrics(text)


def linked_pair(
    file: MetricsFile, name: str, values: tuple[object, object], day: date, rng: random.Random
) -> Pair:
    """Both reports of a new device."""
    one = next(found for found in file.associations if found.name == name)
    device = Encoder(file.metrics, rng.randbytes(32), rng.randbytes)
    first, second = (
        device.encode(metric, value, day) for metric, value in zip(one.of, values, strict=True)
    )
    return first, second


def linked_body(pairs: Sequence[Pair], *, json: bool = True) -> bytes:
    """A batch of version 2 with an id of its own."""
    encode = encode_linked_json if json else encode_linked_binary
    return encode(os.urandom(16), pairs)
