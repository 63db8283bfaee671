"""Compiled metrics files: read strictly, and never with an error that is not ours."""

import copy
import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rappor_cli.metrics import app
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.compiled import compiled, compiled_text, load_metrics, read_compiled
from rappor_core.metrics.file import parse_metrics

VECTORS = Path(__file__).parents[1] / "vectors" / "v1"
STRINGS = json.loads((VECTORS / "metrics.json").read_text())["metrics.toml"]
PLACES = json.loads((VECTORS / "places.json").read_text())["metrics"]["metrics.toml"]
ODD = [None, True, False, 0, -1, 1.5, 10**400, 1e308, "", "x", "\ud800", [], [1], {}, {"a": 1}]


def paths(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where every part of a document stands."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, part in inner:
        found.append((*before, key))
        if isinstance(part, dict | list):
            found += paths(part, (*before, key))
    return found


@pytest.mark.parametrize("text", [STRINGS, PLACES], ids=["strings", "places"])
def test_an_odd_document_is_refused_or_read_literally(text: str) -> None:
    """500 documents, each with one part taken out or replaced by something odd."""
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


def part(document: dict[str, Any], number: int) -> dict[str, Any]:
    found: dict[str, Any] = document["metrics"][number]["definition"]
    return found


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda d: d["metrics"].pop(1), "each of its slots and levels"),
        (lambda d: part(d, 1).update(min_reports=7), "different rules"),
        (lambda d: part(d, 0).update(expires="20991231"), "as `rappor metrics compile` writes it"),
        (lambda d: part(d, 0).update(no_data=None), "as `rappor metrics compile` writes it"),
    ],
)
def test_what_compiling_cannot_write_is_refused(
    spoil: Callable[[dict[str, Any]], object], why: str
) -> None:
    document = compiled(parse_metrics(PLACES))
    spoil(document)
    with pytest.raises(MetricsFileError, match=why):
        read_compiled(json.dumps(document))


def test_load_metrics_reads_the_written_file_by_ending(tmp_path: Path) -> None:
    source, output = tmp_path / "metrics.toml", tmp_path / "metrics.json"
    source.write_text(STRINGS)
    done = CliRunner().invoke(app, ["compile", str(source), "-o", str(output)])
    assert done.exit_code == 0, done.output
    assert output.read_text() == compiled_text(parse_metrics(STRINGS))
    assert load_metrics(output) == load_metrics(source)
    output.write_text(STRINGS)
    with pytest.raises(MetricsFileError, match=r"metrics\.json: not a compiled file"):
        load_metrics(output)


def test_a_name_hiding_the_form_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "metrics.toml"
    source.write_text(STRINGS)
    done = CliRunner().invoke(app, ["compile", str(source), "-o", str(tmp_path / "metrics.txt")])
    assert done.exit_code == 2
    assert not (tmp_path / "metrics.txt").exists()


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(STRINGS, encoding="utf-8-sig")
    assert load_metrics(path).metrics.keys() == parse_metrics(STRINGS).metrics.keys()
