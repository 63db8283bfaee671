"""`rappor decode --joint A B`: from two names and a collector to the files of the table."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from client_sdk import Encoder
from collector.domain.batch_writer import Receipt
from collector.domain.submission import Submission
from decoder.errors import DecodeError
from decoder.workflows.two_metrics import DeclaredVersion, choose_joint
from rappor_cli.main import main
from rappor_core.metrics.file import parse_metrics
from rappor_core.wire.decode import decode_batch
from rappor_core.wire.report import JSON_CONTENT_TYPE
from tests.association_support import TEXT, linked_body, linked_pair
from tests.collector.support import TODAY, Clock, make_bench, running_server

PAIR = """
[metrics.{name}]
kind = "pair"
of = ["{first}", "{second}"]
values.{first} = ["dark", "light", "other"]
values.{second} = [false, true]
description = "Two things together"
owner = "web@example.org"
expires = 2099-06-30
mechanism = "l-osue"
epsilon_infinity = 6.0
epsilon_one = 4.0
max_memoized_values = 3
fallback = "other | false"
min_reports = 10
min_reports_per_cohort = 1
"""
PAIRS = PAIR.format(name="colour_start", first="colour", second="slow_start")
PAIRS += PAIR.format(name="page_search", first="homepage", second="engine")
DEVICES = 300
PAGES, ENGINES = ("a", "b", "c"), ("x", "y")


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """After a day of linked reports of two associations, and of a pair metric."""
    url = f"sqlite:///{tmp_path_factory.mktemp('joint')}/collector.sqlite"
    file, rng, bench = parse_metrics(TEXT + PAIRS), random.Random(5), make_bench(url)
    bench.collector.push_metrics(file.metrics.values(), "test", associations=file.associations)
    held: dict[str, list[tuple[object, object]]] = {
        "theme_crashed": rng.choices([("light", False), ("dark", True)], k=DEVICES),
        "home_engine": [(rng.choice(PAGES), rng.choice(ENGINES)) for _ in range(DEVICES)],
    }
    for name, values in held.items():
        body = linked_body([linked_pair(file, name, one, TODAY, rng) for one in values])
        sent = Submission(decode_batch(body, JSON_CONTENT_TYPE), body[-18:-2], len(body))
        (receipt,) = bench.writer.write([sent])
        assert isinstance(receipt, Receipt)
        assert receipt.accepted == 2 * DEVICES
    devices = [Encoder(file.metrics, rng.randbytes(32), rng.randbytes) for _ in range(DEVICES)]
    values = rng.choices([("light", False), ("dark", True)], k=DEVICES)
    bench.send([d.encode("colour_start", v, TODAY) for d, v in zip(devices, values, strict=True)])
    bench.clock.pass_days(1)
    bench.collector.close_day(TODAY, "test")
    clock = Clock(bench.clock.now)
    bench.database.close()
    with running_server(None, clock, database=url) as server:
        yield str(server.http.base_url)


def answer(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == 0, capsys.readouterr().err
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def refusal(capsys: pytest.CaptureFixture[str], returns: int, *words: object) -> str:
    capsys.readouterr()
    assert main(["decode", *map(str, words)]) == returns
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize(
    ("of", "command"),
    [
        (("theme", "crashed"), ["association", "theme_crashed"]),
        (("colour", "slow_start"), ["decode", "--metric", "colour_start"]),
    ],
)
def test_files_are_those_of_the_command_by_name(
    collector: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    of: tuple[str, str], command: list[str],
) -> None:  # fmt: skip
    """Byte for byte; in the other order rows and columns have changed places, and nothing else."""
    named, joint, turned = (tmp_path / name for name in ("named", "joint", "turned"))
    window = ["--collector", collector, "--from", TODAY, "--to", TODAY]
    content = answer(capsys, *command, *window, "-o", named)
    assert content == answer(capsys, "decode", "--joint", *of, *window, "-o", joint)
    assert contents(named) == contents(joint)
    assert content["reports"] == DEVICES
    assert content["of"] == list(of)

    swapped = answer(capsys, "decode", "--joint", *of[::-1], *window, "-o", turned)
    assert contents(turned).keys() == contents(joint).keys()
    assert swapped["of"] == list(of[::-1])
    assert swapped["independence"] == content["independence"]
    header = (turned / "joint.csv").read_text().split(",")[:2]
    assert header == list(of[::-1])
    renamed = {"first": "second", "second": "first"}
    renamed |= {
        f"of_{side}{end}": f"of_{renamed[side]}{end}"
        for side in ("first", "second")
        for end in ("", "_low", "_high")
    }
    cells = {(cell["first"], cell["second"]): cell for cell in content["cells"]}
    assert len(cells) == len(swapped["cells"]) == 6
    for cell in swapped["cells"]:
        back = {renamed.get(key, key): value for key, value in cell.items()}
        assert back == pytest.approx(cells[back["first"], back["second"]])
    assert sorted(row["value"] for row in swapped["margins"]) == sorted(
        row["value"] for row in content["margins"]
    )
    straight, other = (np.load(folder / "covariance.npy") for folder in (joint, turned))
    assert np.array_equal(other.reshape(2, 3, 2, 3).transpose(1, 0, 3, 2).reshape(6, 6), straight)


def test_lists_go_with_metrics_as_asked(
    collector: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of strings; by the aggregate file, since a pair metric has these two sides as well."""
    pages, engines, kept = (tmp_path / name for name in ("pages.txt", "engines.txt", "kept.json"))
    pages.write_text("\n".join(PAGES))
    engines.write_text("\n".join(ENGINES))
    lists = ["--candidates1", pages, "--candidates2", engines]
    named = answer(capsys, "association", "home_engine", "--collector", collector, *lists,
                   "--aggregate-to", kept)  # fmt: skip
    question = ["decode", "--aggregate", kept, "--joint"]
    assert answer(capsys, *question, "homepage", "engine", *lists) == named
    lists = ["--candidates1", engines, "--candidates2", pages]
    turned = answer(capsys, *question, "engine", "homepage", *lists)
    assert [(c["first"], c["estimate"]) for c in turned["cells"] if c["second"] == "a"] == [
        (c["second"], c["estimate"]) for c in named["cells"] if c["first"] == "a"
    ]
    said = refusal(capsys, 1, *question[1:], "engine", "homepage")
    assert "needs a list of candidates" in said
    said = refusal(capsys, 1, *question[1:], "theme", "crashed")
    assert "kept.json is of 'homepage' and 'engine', not of 'theme' and 'crashed'" in said
    said = refusal(capsys, 1, "--aggregate", kept, *question[1:], "homepage", "engine")
    assert "are not added: give one file" in said


def test_aggregates_of_a_pair(
    collector: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, needless = tmp_path / "kept.json", tmp_path / "list.txt"
    needless.write_text("a\n")
    assert main(["aggregate", "colour_start", "--collector", collector, "-o", str(kept)]) == 0
    question = ["--aggregate", kept, "--joint", "colour", "slow_start"]
    assert answer(capsys, "decode", *question) == answer(capsys, "decode", *question[:2])
    said = refusal(capsys, 1, *question, "--candidates2", needless)
    assert "leave candidates out" in said
    assert main(["aggregate", "theme", "--collector", collector, "-o", str(kept)]) == 0
    assert "is of 'theme', not of 'colour' and" in refusal(capsys, 1, *question)


def test_no_file_of_another_is_replaced(
    collector: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of an association as of a pair."""
    (tmp_path / "results.json").write_text("[]")
    for of in (("theme", "crashed"), ("colour", "slow_start")):
        said = refusal(capsys, 1, "--joint", *of, "--collector", collector, "-o", tmp_path)
        assert "so it is not replaced" in said
    assert main(["association", "theme_crashed", "--collector", collector, "-o", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_what_is_not_declared_or_twice_is_told(
    collector: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(capsys, 1, "--joint", "theme", "engine", "--collector", collector)
    assert said == (
        "rappor decode: no association and no pair metric of 'theme' and 'engine' is declared; "
        "declared: association home_engine (homepage, engine), association theme_crashed (theme, "
        "crashed), pair metric colour_start (colour, slow_start), pair metric page_search "
        "(homepage, engine); declare [associations.NAME] of the two, or a pair metric, and push it"
    )
    said = refusal(capsys, 1, "--joint", "engine", "homepage", "--collector", collector)
    assert "'engine' and 'homepage' have association home_engine (homepage, engine), pair" in said
    assert "choose one with rappor association NAME or rappor decode --metric NAME" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--joint theme theme --collector http://127.0.0.1:1", "--joint names 'theme' twice"),
        ("--joint a b", "--joint needs --collector URL or --aggregate FILE"),
        ("--joint a b --metric c", "--metric does not go with --joint"),
        ("--joint a b --each day", "--each does not go with --joint"),
        ("--joint a b --all-metrics", "--all-metrics does not go with --joint"),
        ("--joint a b --params {file}", "--params does not go with --joint"),
        ("--joint a b --candidates {file}", "--candidates does not go with --joint"),
        ("--joint a b --method cavity", "--method does not go with --joint"),  # the default, too
        ("--joint a b --aggregate {file} --from 2026-11-21", "--from and --to go with --collector"),
        ("--joint a b --aggregate {file} --collector http://x", "give one of --aggregate"),
        ("--candidates1 {file} --aggregate {file}", "--candidates1 goes with --joint A B"),
        ("--joint a", "requires 2 arguments"),
    ],
)
def test_contradictions_are_refused_by_name(
    capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    assert said in refusal(capsys, 2, *words.format(file=__file__).split())


def test_help_shows_both_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--help"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "--joint" in line)
    assert "A B" in line


def test_newest_versions_count_and_lists_are_cut() -> None:
    many = [
        DeclaredVersion("association", f"x{i}", "", "current", ("a", f"b{i}")) for i in range(12)
    ]
    with pytest.raises(DecodeError, match=r"x7 \(a, b7\), 4 more; declare \[assoc"):
        choose_joint(("a", "c"), many)
    with pytest.raises(DecodeError, match="declared: none; declare"):
        choose_joint(("a", "c"), [])
    versions = [
        DeclaredVersion("association", "old", "0", "retired", ("a", "b")),
        DeclaredVersion("association", "one", "1", "older", ("b", "a")),
        DeclaredVersion("association", "one", "2", "current", ("a", "b")),
        DeclaredVersion("pair metric", "two", "3", "expired", ("a", "b")),
    ]
    assert choose_joint(("b", "a"), versions).params_id == "2"
    assert choose_joint(("a", "b"), versions[3:] + versions[:2]).name == "two"
