"""Writes tests/vectors/v1/discover.json. Run by hand when the encoding is made, never by tests.

python tests/vectors/make_discover_v1.py
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from client_sdk.randomisation.metric_encoder import MetricEncoder
from metric_design.code_training import train_code
from rappor_core.codes.prefix_code import packaged_code
from rappor_core.hashing import normalise
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric

HERE = Path(__file__).parent / "v1"
VALUES = [
    "",
    "a",
    "example.org",
    "Example.ORG",
    "www.example.co.uk",
    "xn--bcher-kva.example",
    "https://example.org/path?q=1",
    "cafe\u0301",
    "\u6771\u4eac",
    "\U0001f5fa",
    "a\u0000b",
    "q" * 100,
]
LETTERS = train_code([b"alpha", b"beta", b"gamma", b"Delta"], "letters", order=1, lower_case=False)
COMMON = """kind = "discover"
description = "d"
owner = "test@example.org"
expires = 2027-06-30
max_memoized_values = 3
fallback = "other"
"""
METRICS = f"""
[metrics.site]
{COMMON}epsilon_infinity = 4.0
max_reports = 1

[metrics.letters]
{COMMON}mechanism = "l-osue"
epsilon_infinity = 3.0
epsilon_one = 1.0
code_table = '{LETTERS.text}'
num_levels = 3
bits_per_level = 13
num_cohorts = 8
num_bits = 100
"""
METRICS_BY_NAME = parse_metrics(METRICS).metrics


def codes() -> list[dict[str, Any]]:
    return [
        {
            "table": code.name,
            "value": value,
            "num_bits": code.size(normalise(value)),
            "bits": format(code.encode(normalise(value), size), f"0{size}b"),
        }
        for code in (packaged_code("domains"), LETTERS)
        for value in VALUES
        for size in [code.size(normalise(value))]
    ]


def positions(metric: Metric) -> list[dict[str, Any]]:
    cohorts = metric.params.num_cohorts
    return [
        {
            "metric": metric.name,
            "value": value,
            "cohort": cohort,
            "position": metric.value_bits(value, cohort).bit_length() - 1,
        }
        for value in VALUES
        for cohort in sorted({0, cohorts // 3, cohorts // 2, cohorts - 1})
    ]


def reports(metric: Metric) -> list[dict[str, Any]]:
    rows = []
    for number, value in enumerate(VALUES[:6]):
        secret = sha256(f"secret {number}".encode()).digest()
        random = b"".join(sha256(bytes([number, i])).digest() for i in range(64))
        device = MetricEncoder(metric, secret, lambda n, random=random: random[:n])
        bits = device.value_bits(value)
        rows.append(
            {
                "metric": metric.name,
                "params_id": metric.params_id,
                "value": value,
                "secret": secret.hex(),
                "random": random.hex(),
                "cohort": device.cohort,
                "bloom_bits": bits.to_bytes(metric.params.report_bytes, "little").hex(),
                "ledger_digest": device.digest(bits).hex(),
                "report_bits": device.report_bits(bits).hex(),
            }
        )
    return rows


def main() -> None:
    metrics = METRICS_BY_NAME.values()
    content = {
        "metrics.toml": METRICS,
        "definitions": [metric.to_dict() for metric in metrics],
        "tables": {code.name: code.digest for code in (packaged_code("domains"), LETTERS)},
        "codes": codes(),
        "positions": [row for metric in metrics for row in positions(metric)],
        "reports": [row for metric in metrics for row in reports(metric)],
    }
    text = json.dumps(content, indent=1, ensure_ascii=True)
    (HERE / "discover.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
