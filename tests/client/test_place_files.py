"""The metrics of all vectors of places: their compiled form, and files that must be refused."""

import json
from pathlib import Path

import pytest

from rappor_core.errors import MetricsFileError
from rappor_core.metrics.compiled import read_compiled
from rappor_core.metrics.file import parse_metrics

FOLDER = Path(__file__).parents[1] / "vectors" / "v1"
VECTORS = {
    name: json.loads((FOLDER / f"{name}.json").read_text())
    for name in ("places", "places_no_data", "places_turns")
}
BAD = [row for vectors in VECTORS.values() for row in vectors["bad_metrics"]]


@pytest.mark.parametrize("name", ["places_no_data", "places_turns"])
def test_the_compiled_form_is_the_file(name: str) -> None:
    file = parse_metrics(VECTORS[name]["metrics"]["metrics.toml"])
    assert read_compiled(json.dumps(VECTORS[name]["compiled"])).metrics == file.metrics


@pytest.mark.parametrize("row", BAD, ids=lambda row: row["reason"])
def test_metrics_that_must_fail(row: dict[str, str]) -> None:
    with pytest.raises(MetricsFileError) as caught:
        parse_metrics(row["metrics.toml"])
    assert str(caught.value) == row["error"]
