"""The vectors of places that declare `no_data`: against our code, and against the plain one."""

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from client_sdk.location.dwell_time import moment_of
from client_sdk.location.period_visits import Visits
from rappor_core.metrics.file import parse_metrics
from tests.client.test_place_vectors import FILE as PLAIN_FILE
from tests.client.test_place_vectors import plain_place, plain_usual
from tests.client.test_vectors import check_response

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/v1/places_no_data.json").read_text())
FILE = parse_metrics(VECTORS["metrics"]["metrics.toml"])


def test_params_ids_digest_the_name_too() -> None:
    expected = VECTORS["metrics"]["expected"]
    assert list(FILE.metrics) == list(expected) == list(PLAIN_FILE.metrics)
    for name, row in expected.items():
        assert FILE.metrics[name].params_id == row["params_id"]
        assert FILE.metrics[name].lifetime_epsilon == pytest.approx(row["lifetime_epsilon"])
        assert plain_place(name) == row["meaning"]["location"]
        before = dict(PLAIN_FILE.metrics[name].meaning)
        one_more = before["encoding"] == "one_hot"  # its list of values is longer
        plain = before | {"no_data": "no_data", "num_bits": before["num_bits"] + one_more}
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        if not one_more:
            assert plain == row["meaning"]
        assert hashlib.sha256(text.encode()).hexdigest()[:32] == row["params_id"]


@pytest.mark.parametrize("row", VECTORS["usual"], ids=lambda row: row["what"])
def test_usual_cells(row: dict[str, Any]) -> None:
    sent: list[list[Any]] = []
    parts, secret = FILE.parts(row["metric"]), bytes.fromhex(row["secret"])
    visits = Visits(parts, secret, lambda *report: sent.append(list(report)), None)
    for at, latitude, longitude in row["fixes"]:
        visits.fix(latitude, longitude, moment_of(datetime.fromisoformat(at)))
    visits.roll(moment_of(datetime.fromisoformat(row["until"])))
    assert sent == row["reports"] == plain_usual(row, missing="no_data")


def test_responses() -> None:
    for row in VECTORS["responses"]:
        check_response(FILE.metrics[row["metric"]], row)


def test_in_a_list_it_is_the_last_bit() -> None:
    bits = {row["value"]: int.from_bytes(bytes.fromhex(row["encoded_bits"]), "little")
            for row in VECTORS["responses"] if row["metric"] == "window/late/0"}  # fmt: skip
    assert bits["other"] == bits["not a cell"] == 1 << 12
    assert bits["no_data"] == 1 << 13
