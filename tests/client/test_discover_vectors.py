"""The Python SDK against the vectors of discovered strings, which all clients share."""

import json
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from client_sdk.randomization.metric_encoder import Encoder
from rappor_core.codes.prefix_code import packaged_code, read_code
from rappor_core.hashing import normalize
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from tests.client.test_vectors import check_response

ROOT = Path(__file__).parents[2]
VECTORS = json.loads((ROOT / "tests" / "vectors" / "v1" / "discover.json").read_text("ascii"))
METRICS = parse_metrics(VECTORS["metrics.toml"]).metrics
TABLES = {
    "domains": (ROOT / "rappor_core" / "codes" / "tables" / "domains.json").read_text().strip(),
    "letters": VECTORS["definitions"][1]["details"]["code_table"],
}


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
    code, data = read_code(TABLES[row["table"]]), normalize(row["value"])
    assert code.size(data) == row["num_bits"]
    assert f"{code.encode(data, row['num_bits']):0{row['num_bits']}b}" == row["bits"]


@pytest.mark.parametrize("row", VECTORS["positions"], ids=lambda row: ascii(row["value"])[:20])
def test_positions(row: dict[str, Any]) -> None:
    metric = METRICS[row["metric"]]
    assert metric.value_bits(row["value"], row["cohort"]) == 1 << row["position"]


@pytest.mark.parametrize("row", VECTORS["reports"], ids=lambda row: ascii(row["value"])[:20])
def test_reports(row: dict[str, Any]) -> None:
    check_response(METRICS[row["metric"]], row)


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
