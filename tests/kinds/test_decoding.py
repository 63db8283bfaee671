"""Every kind and operation, from counts to the files of a result and to its page."""

import csv
import json
from pathlib import Path
from typing import Any, NoReturn, get_args

import pytest
from pyarrow import parquet

from decoder.kinds.interface import decoder_of
from decoder.kinds.result import MANIFEST, PAGE, RESULTS, Question
from decoder.kinds.run import claim, decode_counts, write_result
from decoder.options import CandidateChoice, Operation
from decoder.progress import quiet, silent
from decoder.tables.table import columns_of
from docs.tools.result_columns import PAGE as COLUMNS
from docs.tools.result_columns import page as page_of_columns
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from simulations.experiments.demo import held_values
from tests.decoder.flow_support import decode_flows_once
from tests.kinds.worlds import DECLARED, EVIL, World, world_of, write_worlds

CASES = [
    (kind, operation)
    for kind in DECLARED
    for operation in get_args(Operation)
    if operation in decoder_of(kind).operations
]


def groups_of(world: World, operation: str) -> list[list[Aggregate]]:
    """The counts of both periods, as an operation takes them."""
    periods = [list(one) for one in world.counts]
    return periods if operation == "compare" else [[one for part in periods for one in part]]


def question_of(world: World, folder: Path) -> Question:
    """The usual question; of a metric that lists no values, for what devices hold and others."""
    metric = world.file.declared[0]
    if "candidates" not in decoder_of(world.kind).members or metric.rules.all_values(metric):
        return Question()
    held = [str(value) for value in held_values(metric)]
    path = folder / f"{metric.base_name}.txt"
    path.write_text("\n".join([*held, *(f"nobody {value}" for value in held)]), encoding="utf-8")
    return Question(CandidateChoice(file=path))


def strict(text: str) -> Any:
    """JSON as every parser reads it."""

    def refuse(name: str) -> NoReturn:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def _flows_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit takes a second, and operations ask for the same ones."""
    monkeypatch.setattr("decoder.kinds.flow.decode_flows", decode_flows_once)


def test_the_page_of_columns_is_what_its_command_writes() -> None:
    assert COLUMNS.read_text(encoding="utf-8") == page_of_columns()


@pytest.mark.usefixtures("_flows_decoded_once")
@pytest.mark.parametrize(("kind", "operation"), CASES)
def test_counts_become_tables_a_summary_and_a_page(kind, operation, tmp_path) -> None:
    world, decoder = world_of(kind), decoder_of(kind)
    question, folder = question_of(world, tmp_path), tmp_path / "result"
    result = decode_counts(operation, groups_of(world, operation), question, silent, quiet)
    claim(folder, decoder)
    write_result(result, decoder, operation, folder, silent)
    files = files_of(folder)
    assert result.summary["headline"]
    found, manifest = strict(files[RESULTS].decode()), strict(files[MANIFEST].decode())
    assert found["metric"] == world.file.declared[0].base_name
    assert manifest["files"] == sorted(files)
    assert manifest["operation"] == operation
    main = decoder.table_of(operation)
    assert f"{main}.csv" in files
    if operation == "decode":
        assert {table.name for table in result.tables} <= {one.name for one in decoder.schemas}
    for table in result.tables:
        _check_files(folder, table.name, len(table))
    page = files[PAGE].decode()
    assert EVIL not in page
    assert "&lt;script&gt;" in page  # the metric's description


def test_all_metrics_are_decoded_as_each_alone(tmp_path, capsys) -> None:
    """In processes, with the bytes of one process; a metric that fails is one line."""
    counts, lists, expected = tmp_path / "counts", tmp_path / "lists", tmp_path / "expected"
    write_worlds(counts, lists)
    for kind in DECLARED:
        world, decoder = world_of(kind), decoder_of(kind)
        result = decode_counts(
            "decode", [list(world.counts[0])], question_of(world, lists), silent, quiet
        )
        folder = expected / world.file.declared[0].base_name
        claim(folder, decoder)
        write_result(result, decoder, "decode", folder, silent)
    files = [word for path in sorted(counts.iterdir()) for word in ("--aggregate", str(path))]
    words = ["decode", "--all-metrics", *files, "--candidates", str(lists), "--on", "local:2"]
    assert main([*words, "-o", str(tmp_path / "out")]) == 1
    said = capsys.readouterr()
    assert "lost           failed: metric 'lost' holds strings" in said.out
    assert said.err == "rappor decode: 1 of 9 metrics failed; the others are written\n"
    for folder in expected.iterdir():
        assert files_of(folder) == files_of(tmp_path / "out" / folder.name), folder.name
    assert not (tmp_path / "out" / "lost" / RESULTS).exists()


def _check_files(folder: Path, name: str, rows: int) -> None:
    """A table's two files agree, and every column says what it means."""
    stored = parquet.read_table(folder / f"{name}.parquet")
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        read = list(csv.reader(file))
    for column in columns_of(stored.schema):
        assert column.meaning.endswith("."), column
    names = [one for one in stored.column_names if one != "geometry"]
    assert read[0] == names
    assert len(read) - 1 == stored.num_rows == rows


@pytest.mark.parametrize("kind", DECLARED)
def test_what_a_kind_has_no_use_for_is_refused(kind) -> None:
    world, decoder = world_of(kind), decoder_of(kind)
    for operation in get_args(Operation):
        if operation not in decoder.operations:
            with pytest.raises(ValueError, match=f"no {operation}"):
                decode_counts(operation, groups_of(world, operation), Question(), silent, quiet)
    if "candidates" not in decoder.members:
        asked = Question(CandidateChoice(numbers=(0, 9)))
        with pytest.raises(ValueError, match="omit the candidates"):
            decode_counts("decode", groups_of(world, "decode"), asked, silent, quiet)
