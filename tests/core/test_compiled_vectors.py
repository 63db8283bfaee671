"""The compiled form of the vectors' metrics: what is stored is what is written now."""

import json
from pathlib import Path
from typing import Any

import pytest

from rappor_core.errors import MetricsFileError
from rappor_core.metrics.compiled import read_compiled
from rappor_core.metrics.file import parse_metrics
from tests.vectors.make_compiled_v1 import make, texts

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "compiled.json").read_text())


def test_the_compiled_vectors_are_current() -> None:
    assert json.loads(json.dumps(make())) == VECTORS


@pytest.mark.parametrize("name", VECTORS["good"])
def test_a_compiled_file_reads_as_its_toml_does(name: str) -> None:
    text = json.dumps(VECTORS["good"][name]["document"])
    assert read_compiled(text) == parse_metrics(texts()[name])


@pytest.mark.parametrize("row", VECTORS["bad"], ids=lambda row: row["name"])
def test_bad_documents_are_refused(row: dict[str, Any]) -> None:
    with pytest.raises(MetricsFileError):
        read_compiled(json.dumps(row["document"]))
