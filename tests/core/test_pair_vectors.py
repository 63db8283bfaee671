"""Pairs against vectors, and a second implementation of docs/protocol.md that reads only them."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from rappor_core.errors import ValueRefusedError
from rappor_core.metrics.compiled import compiled, read_compiled
from rappor_core.metrics.file import parse_metrics
from tests.core.test_protocol_by_the_text import halves, mix64

CONTENT = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "pairs.json").read_text())


def by_the_text(definition: dict[str, Any], value: Any, cohort: int) -> int:
    """B of a pair, as docs/protocol.md says it."""
    if isinstance(value, str):
        value = value.split(" | ")
    lists = definition["details"]["values"]
    texts = [["true" if v is True else "false" if v is False else v for v in one] for one in lists]
    said = ["true" if v is True else "false" if v is False else v for v in value]
    said = [unicodedata.normalize("NFC", text) for text in said]
    i, j = texts[0].index(said[0]), texts[1].index(said[1])
    params = definition["params"]
    if params["encoding"] == "one_hot":
        return 1 << (i * len(texts[1]) + j)
    data = f"{said[0]} | {said[1]}".encode()
    low, high = halves(data)
    word = mix64((low + (cohort + 1) * (high | 1)) % 2**64)
    return int(1 << (((word >> 32) * params["num_bits"]) >> 32))


def test_the_file_compiles_to_the_vector() -> None:
    file = parse_metrics(CONTENT["toml"])
    assert compiled(file) == CONTENT["compiled"]
    assert read_compiled(json.dumps(CONTENT["compiled"])) == file


@pytest.mark.parametrize("row", CONTENT["values"], ids=lambda row: ascii(row["value"]))
def test_bits_of_a_value(row: dict[str, Any]) -> None:
    metric = parse_metrics(CONTENT["toml"]).metrics[row["metric"]]
    definition = metric.to_dict()
    for cohort, bits in enumerate(row["bits"]):
        assert metric.value_bits(row["value"], cohort) == bits
        assert by_the_text(definition, row["value"], cohort) == bits


@pytest.mark.parametrize("row", CONTENT["refused"], ids=lambda row: ascii(row["value"]))
def test_refused_values(row: dict[str, Any]) -> None:
    metric = parse_metrics(CONTENT["toml"]).metrics[row["metric"]]
    with pytest.raises(ValueRefusedError) as raised:
        metric.value_bits(row["value"], 0)
    assert str(raised.value) == row["error"]
