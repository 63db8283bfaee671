"""The compiled form of the vectors' metrics: what is stored is what is written now."""

import json
from pathlib import Path
from typing import Any

import pytest

from rappor_core.errors import MetricsFileError
from rappor_core.metrics.compiled import digest_of, read_compiled
from rappor_core.metrics.file import parse_metrics
from tests.vectors import make_digests_v1
from tests.vectors.make_compiled_v1 import make, texts

HERE = Path(__file__).parents[1] / "vectors" / "v1"
VECTORS = json.loads((HERE / "compiled.json").read_text())


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


def test_the_digests_are_current() -> None:
    stored = json.loads((HERE / "digests.json").read_text())
    assert make_digests_v1.make() == stored
    assert [digest_of(row["document"]) for row in stored["odd"]] == [
        row["digest"] for row in stored["odd"]
    ]


def test_a_digest_must_be_the_documents_own() -> None:
    digests = json.loads((HERE / "digests.json").read_text())["compiled"]
    for name, row in VECTORS["good"].items():
        sealed = {**row["document"], "digest": digests[name]}
        assert read_compiled(json.dumps(sealed)) == read_compiled(json.dumps(row["document"]))
        for wrong in (None, "0" * 32, digests[name].upper()):
            with pytest.raises(MetricsFileError, match="digest"):
                read_compiled(json.dumps({**sealed, "digest": wrong}))
    sealed["budget"] = (sealed["budget"] or 40.0) + 1
    with pytest.raises(MetricsFileError, match="digest"):
        read_compiled(json.dumps(sealed))
