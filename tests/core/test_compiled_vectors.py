"""The compiled form of the vectors' metrics: what is stored is what is written now."""

import json
from pathlib import Path
from typing import Any

import pytest

from rappor_core.errors import RapporError
from rappor_core.metrics.metric import Metric
from tests.vectors.make_compiled_v1 import make

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "compiled.json").read_text())


def test_the_compiled_vectors_are_current() -> None:
    assert json.loads(json.dumps(make())) == VECTORS


def test_definitions_are_those_that_python_reads() -> None:
    for row in VECTORS["good"].values():
        for metric in row["document"]["metrics"]:
            assert Metric.from_dict(metric["definition"]).params_id == metric["params_id"]


@pytest.mark.parametrize("row", VECTORS["bad"], ids=lambda row: row["name"])
def test_bad_definitions_are_bad_in_python_too(row: dict[str, Any]) -> None:
    """Where the fault lies in a definition, and not in what stands around it."""
    good = VECTORS["good"]["metrics"]["document"]["metrics"]
    metrics = row["document"]["metrics"]
    if not metrics or metrics[0].get("definition") == good[0]["definition"]:
        return
    with pytest.raises(RapporError):
        check(metrics[0])


def check(row: dict[str, Any]) -> None:
    if Metric.from_dict(row["definition"]).params_id != row["params_id"]:
        raise RapporError("another params_id")
