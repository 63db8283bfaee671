"""Vectors of coded prefixes: against our code, and against a second one from docs/protocol.md."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import mmh3
import pytest

from client_sdk.randomization.metric_encoder import MetricEncoder
from rappor_core.codes.prefix_code import packaged_code
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from tests.core.test_prefix_code import plain_code

ROOT = Path(__file__).parents[2]
VECTORS = json.loads((ROOT / "tests" / "vectors" / "v1" / "discover.json").read_text("ascii"))
METRICS = parse_metrics(VECTORS["metrics.toml"]).metrics
TABLES = {
    "domains": (ROOT / "rappor_core" / "codes" / "tables" / "domains.json").read_text().strip(),
    "letters": VECTORS["definitions"][1]["details"]["code_table"],
}


def plain_normalized(value: str) -> bytes:
    return value.replace("e\u0301", "\u00e9").encode()


def plain_mix(word: int) -> int:
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


def test_tables_have_their_digests() -> None:
    for name, text in TABLES.items():
        assert sha256(text.encode()).hexdigest() == VECTORS["tables"][name]
    assert packaged_code("domains").text == TABLES["domains"]


def test_definitions() -> None:
    for definition in VECTORS["definitions"]:
        metric = METRICS[definition["name"]]
        assert metric.to_dict() == definition
        assert Metric.from_dict(definition) == metric


@pytest.mark.parametrize("row", VECTORS["codes"], ids=lambda row: ascii(row["value"])[:20])
def test_codes(row: dict[str, Any]) -> None:
    plain = plain_code(json.loads(TABLES[row["table"]]), plain_normalized(row["value"]))
    assert (plain, len(plain)) == (row["bits"], row["num_bits"])


@pytest.mark.parametrize("row", VECTORS["positions"], ids=lambda row: ascii(row["value"])[:20])
def test_positions(row: dict[str, Any]) -> None:
    metric = METRICS[row["metric"]]
    assert metric.value_bits(row["value"], row["cohort"]) == 1 << row["position"]
    definition = metric.to_dict()
    details, params = definition["details"], definition["params"]
    group = row["cohort"] * (details["num_levels"] + 1) // params["num_cohorts"]
    wanted = details["bits_per_level"] * min(group + 1, details["num_levels"])
    plain = plain_code(json.loads(TABLES[details["code"]]), plain_normalized(row["value"]))
    bits = plain[:wanted].ljust(-(-wanted // 8) * 8, "0")
    key = bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))
    low, high = mmh3.hash64(key, signed=False)
    word = plain_mix((low + (row["cohort"] + 1) * (high | 1)) % 2**64)
    assert (word >> 32) * params["num_bits"] >> 32 == row["position"]


@pytest.mark.parametrize("row", VECTORS["reports"], ids=lambda row: ascii(row["value"])[:20])
def test_reports(row: dict[str, Any]) -> None:
    random = bytes.fromhex(row["random"])
    device = MetricEncoder(
        METRICS[row["metric"]], bytes.fromhex(row["secret"]), lambda n: random[:n]
    )
    bits = device.value_bits(row["value"])
    assert (device.params_id, device.cohort) == (row["params_id"], row["cohort"])
    assert bits.to_bytes(device.metric.params.report_bytes, "little").hex() == row["bloom_bits"]
    assert device.digest(bits).hex() == row["ledger_digest"]
    assert device.report_bits(bits).hex() == row["report_bits"]
