"""The compiled form of the vectors' metrics: what is stored is what is written now."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from rappor_core.errors import MetricsFileError
from rappor_core.metrics.compiled import compiled, digest_of, read_compiled
from rappor_core.metrics.file import parse_metrics

HERE = Path(__file__).parents[1] / "vectors" / "v1"
VECTORS = json.loads((HERE / "compiled.json").read_text())


def texts() -> dict[str, str]:
    """Every good metrics file of the vectors, by its place in them."""
    read = {name: json.loads((HERE / f"{name}.json").read_text())
            for name in ("metrics", "device", "places")}  # fmt: skip
    device = read["device"]
    versions = {f"lives/{n}": text for n, text in enumerate(device["lives"]["versions"])}
    return {
        "metrics": read["metrics"]["metrics.toml"],
        "ledger": device["ledger"]["metrics.toml"],
        **versions,
        "places": read["places"]["metrics"]["metrics.toml"],
    }


@pytest.mark.parametrize("name", VECTORS["good"])
def test_a_compiled_file_reads_as_its_toml_does(name: str) -> None:
    """Both ways, with the nats that each metric promises; None: no bound."""
    assert texts().keys() == VECTORS["good"].keys()
    row, file = VECTORS["good"][name], parse_metrics(texts()[name])
    assert json.loads(json.dumps(compiled(file))) == row["document"]
    assert read_compiled(json.dumps(row["document"])) == file
    nats = {
        metric.name: {
            "epsilon_infinity": metric.params.epsilon_infinity,
            "epsilon_one": metric.epsilon_one,
            "lifetime_epsilon": metric.lifetime_epsilon,
        }
        for metric in file.metrics.values()
    }
    promises = {name: {key: None if math.isinf(x) else x for key, x in one.items()}
                for name, one in nats.items()}  # fmt: skip
    assert promises == row["promises"]


@pytest.mark.parametrize("row", VECTORS["bad"], ids=lambda row: row["name"])
def test_bad_documents_are_refused(row: dict[str, Any]) -> None:
    with pytest.raises(MetricsFileError):
        read_compiled(json.dumps(row["document"]))


def test_the_digests_are_current() -> None:
    stored = json.loads((HERE / "digests.json").read_text())
    good = {name: digest_of(row["document"]) for name, row in VECTORS["good"].items()}
    assert good == stored["compiled"]
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
