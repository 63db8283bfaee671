"""Compiled metrics files: read strictly, and never with an error that is not ours."""

import copy
import json
import math
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rappor_cli.metrics import app
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.compiled import (
    compiled,
    compiled_text,
    digest_of,
    load_metrics,
    read_compiled,
)
from rappor_core.metrics.file import parse_metrics

HERE = Path(__file__).parents[1] / "vectors" / "v1"
VECTORS = json.loads((HERE / "compiled.json").read_text())
STRINGS = json.loads((HERE / "metrics.json").read_text())["metrics.toml"]
PLACES = json.loads((HERE / "places.json").read_text())["metrics"]["metrics.toml"]
DEVICE = json.loads((HERE / "device.json").read_text())
ODD = [None, True, False, 0, -1, 1.5, 10**400, 1e308, "", "x", "\ud800", [], [1], {}, {"a": 1}]


def paths(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The position of each part of a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, part in inner:
        found.append((*before, key))
        if isinstance(part, dict | list):
            found += paths(part, (*before, key))
    return found


@pytest.mark.parametrize("text", [STRINGS, PLACES], ids=["strings", "places"])
def test_an_odd_document_is_refused_or_read_literally(text) -> None:
    good, rng = compiled(parse_metrics(text)), random.Random(4)
    where, refused = paths(good), 0
    for _ in range(500):
        document = copy.deepcopy(good)
        *way, last = rng.choice(where)
        place: Any = document
        for key in way:
            place = place[key]
        if rng.random() < 0.2:
            del place[last]
        else:
            place[last] = rng.choice(ODD)
        with suppress(MetricsFileError):
            again = compiled(read_compiled(json.dumps(document)))
            assert again == document
            refused -= 1
        refused += 1
    assert refused > 450


def test_load_metrics_reads_the_written_file_by_ending(tmp_path) -> None:
    source, output = tmp_path / "metrics.toml", tmp_path / "metrics.json"
    source.write_text(STRINGS)
    done = CliRunner().invoke(app, ["compile", str(source), "-o", str(output)])
    assert done.exit_code == 0, done.output
    assert output.read_text() == compiled_text(parse_metrics(STRINGS))
    assert load_metrics(output) == load_metrics(source)
    output.write_text(STRINGS)
    with pytest.raises(MetricsFileError, match=r"metrics\.json: not a compiled file"):
        load_metrics(output)


def test_a_byte_order_mark_is_read_over(tmp_path) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(STRINGS, encoding="utf-8-sig")
    assert load_metrics(path).metrics.keys() == parse_metrics(STRINGS).metrics.keys()


GOOD = {"metrics": STRINGS, "ledger": DEVICE["ledger"]["metrics.toml"], "places": PLACES}
GOOD |= {f"lives/{n}": text for n, text in enumerate(DEVICE["lives"]["versions"])}


@pytest.mark.parametrize("name", VECTORS["good"])
def test_a_compiled_file_reads_as_its_toml_does(name: str) -> None:
    assert GOOD.keys() == VECTORS["good"].keys()
    row, file = VECTORS["good"][name], parse_metrics(GOOD[name])
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
