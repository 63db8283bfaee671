"""Whatever a command is given, a person reads a sentence: the file's name and what to do.

Never a number of the system, the name of an exception or words of the interpreter.
"""

import gzip
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sqlalchemy.exc import SQLAlchemyError

from rappor_cli import main as cli
from rappor_cli.commands import COMMANDS
from rappor_core.metrics.file import parse_metrics
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate
from tests.cli.density_support import DAY, DECLARED
from tests.http_server import serving_with
from tests.metric_texts import declaration

LONG = pytest.mark.long
LEAKS = re.compile(
    r"Traceback|Errno|NoneType|codec|0x[0-9a-f]{2}|Expecting|invalid literal|could not "
    r"convert|object has no|\bsqlite3\.|sqlalche|psycopg|urlopen|<class|tuple|[a-z]+\(\)|"
    r"[A-Z][a-z]+(Error|Exception|Failure)\b|positional|unhashable|subscriptable|_ssl|Recursion"
)
METRICS = declaration(
    "word", "string", num_bits=16, num_hashes=2, num_cohorts=2, prob_f=0.5, prob_p=0.5,
    prob_q=0.75, max_memoized_values=3, fallback="other",
)  # fmt: skip
Run = Callable[..., tuple[int, str]]
DOMAIN = 'missing = "ND"\n[columns]\na = ["x", "y"]\n'


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that every command takes, so that only one of its inputs is broken."""
    folder, rng = tmp_path_factory.mktemp("good"), np.random.default_rng(1)
    params = RapporParams.rappor(
        num_bits=16, num_hashes=2, num_cohorts=2, prob_f=0.25, prob_p=0.25, prob_q=0.75
    )
    words = ["one", "two"]
    aggregate, _ = draw_aggregate(words, np.array([0.5, 0.5]), 2_000, params, rng, metric="word")
    (folder / "GOOD.json").write_text(aggregate.to_json())
    (folder / "GOOD.toml").write_text(METRICS)
    night = parse_metrics(DECLARED).parts("places")[0]
    places, _ = draw_aggregate(["0-0-0"], np.array([1.0]), 2_000, night.params, rng, night.name)
    places = replace(places, definition=night.to_dict(), params_id=night.params_id)
    stamped = replace(places, first_day=DAY, last_day=DAY)
    (folder / "GOOD-places.json").write_text(stamped.to_json())
    (folder / "GOOD.txt").write_text("one\ntwo\n")
    (folder / "GOOD.csv").write_text("a\nx\ny\nx\n")
    (folder / "GOOD-pairs.csv").write_text("a,b\nx,1\ny,2\nx,1\n")
    (folder / "GOOD-domain.toml").write_text(DOMAIN)
    (folder / "GOOD-params.csv").write_text("k,h,m,p,q,f\n4,1,1,0.25,0.75,0.5\n")
    (folder / "GOOD-counts.csv").write_text("100,20,30,40,50\n")
    (folder / "GOOD-map.csv").write_text("one,1\ntwo,2\n")
    return folder


# What is wrong before a reader looks, and what is wrong for the reader of one format.
NO_FILE = ("missing", "folder", "name too long")
CONTENTS = {
    "empty": b"",
    "not text": b"value\n\xff\xfe\x00caf\xe9\n",
    "cut gzip": gzip.compress(os.urandom(4096))[:2000],
    "false gzip": b"\x1f\x8b\x08\x00" + b"x" * 400,
    "nested": b"[" * 200_000,
    "nested table": b"a = " + b"[" * 20_000,
    "a list": b"[]",
    "a number": b"9" * 5_000,
    "half json": b'{"version": 1, "metric": {',
    "odd json": b'{"version": 1, "type": 7, "features": [null], "metric": [3]}',
    "odd csv": b'"a,b\n1,2,3\n"' + b"x" * 200_000 + b"\n",
    "wide field": b"value\n" + b"x" * 200_000 + b"\n",
}
JSON = ("empty", "not text", "cut gzip", "nested", "a list", "a number", "half json", "odd json")
LINES = ("empty", "not text", "a number", "odd csv", "wide field")
BROKEN = {
    "json": JSON,
    "geojson": JSON,
    "toml": ("empty", "not text", "nested", "nested table", "a list", "half json"),
    "txt": LINES,
    "csv": LINES,
    "gz": ("empty", "cut gzip", "false gzip"),
    "parquet": ("empty", "not text"),
    "sqlite": ("empty", "not text"),
    "backup": ("empty", "not text", "false gzip"),
}

READS = (
    "metrics check FILE.toml",
    "metrics compile FILE.toml -o OUT.json",
    "metrics check FILE.json",
    "metrics push FILE.toml --database sqlite:///OUT.sqlite",
    "serve --metrics FILE.toml --database sqlite:///OUT.sqlite --open",
    "decode --aggregate FILE.json --candidates GOOD.txt",
    "decode --aggregate GOOD.json --candidates FILE.txt",
    "decode --aggregate GOOD.json --candidates FILE.csv",
    "decode --aggregate GOOD.json --candidates FILE.txt.gz",
    "decode --aggregate GOOD.json --candidates FILE.parquet",
    "decode --aggregate GOOD.json --candidates GOOD.txt --set weights=FILE.csv",
    "decode --params FILE.csv --counts FILE.csv --map FILE.csv",
    "decode --params GOOD-params.csv --counts FILE.csv --map GOOD-map.csv",
    "decode --params GOOD-params.csv --counts GOOD-counts.csv --map FILE.csv",
    "density places --database sqlite:///FILE.sqlite",
    "density places --aggregate FILE.json",
    "density places --aggregate GOOD-places.json --region FILE.geojson",
    "density places --aggregate GOOD-places.json --points FILE.csv",
    "density places --aggregate GOOD-places.json --base FILE.geojson -o OUT",
    "release risk FILE.csv --columns a --domain GOOD-domain.toml",
    "release risk GOOD.csv --columns a --domain FILE.toml",
    "release co-cluster FILE.csv --columns a,b --numbers b -o OUT",
    "release anonymize FILE.csv --columns a,b --k 2 --hierarchies learnt -o OUT",
    "release anonymize GOOD.csv --columns a --k 2 --hierarchies FILE.json -o OUT",
    "simulate location-coverage FILE.toml",
    "metrics list --database sqlite:///FILE.sqlite",
    "backup --database sqlite:///FILE.sqlite -o OUT.backup",
    "restore FILE.backup --database sqlite:///OUT.sqlite --discard-open-days",
    "migrate --database sqlite:///FILE.sqlite",
)


WRITES = (
    "metrics compile GOOD.toml -o OUT",
    "metrics push GOOD.toml --database sqlite:///OUT",
    "decode --aggregate GOOD.json --candidates GOOD.txt -o OUT",
    "density places --aggregate GOOD-places.json -o OUT",
    "release co-cluster GOOD-pairs.csv --columns a,b -o OUT",
    "release anonymize GOOD-pairs.csv --columns a,b --k 2 --hierarchies learnt -o OUT",
    "backup --database sqlite:///DATABASE -o OUT",
    "restore DATABASE --database sqlite:///OUT --discard-open-days",
    "migrate --database sqlite:///OUT",
    "demo --clients 100 -o OUT",
)


def bad_place(kind: str, path: Path) -> Path:
    """A file that cannot be written."""
    if kind == "under a file":
        path.write_text("a file")
    elif kind != "no folder":
        path.mkdir()
    if kind == "long name":
        return path / ("n" * 300 + ".json")
    if kind == "a folder":
        (path / "out.json" / "within").mkdir(parents=True)
    if kind == "full disk":
        (path / "out.json").symlink_to("/dev/full")
    return path / "out.json"


ASKS = (
    "metrics list --collector URL",
    "metrics push GOOD.toml --collector URL",
    "keys create --scope admin --collector URL",
    "aggregate word --collector URL",
    "decode --collector URL --metric word --candidates GOOD.txt",
    "density places --collector URL",
)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], good: Path, tmp_path: Path) -> Run:
    """The exit code of a command line, and all that it said to a person, in one line."""

    def ran(line: str, **words: object) -> tuple[int, str]:
        for word, meant in {"OUT": tmp_path / "out", "GOOD": good / "GOOD", **words}.items():
            line = re.sub(rf"\b{word}\b", str(meant).replace("\\", "/"), line)
        code = cli.main(line.split())
        return code, " ".join(capsys.readouterr().err.replace("\u2502", " ").split())

    return ran


def faults_of(line: str) -> tuple[str, ...]:
    """What may be wrong with the first broken file of a command line."""
    name = re.findall(r"FILE\.[a-z.]+", line)[0]
    return NO_FILE + BROKEN[name.rpartition(".")[2]]


@pytest.mark.parametrize(
    ("line", "broken"),
    [  # each input with a third of the faults, each fault with a third of the inputs; all are long
        pytest.param(one, b, id=f"{one}-{b}", marks=() if (i + k) % 3 == 0 else LONG)
        for i, one in enumerate(READS)
        for k, b in enumerate(faults_of(one))
    ],
)
def test_a_broken_file_is_named_in_a_sentence(line, broken, tmp_path, run) -> None:
    name = "n" * 300 if broken == "name too long" else "broken"
    for word in set(re.findall(r"FILE\.[a-z.]+", line)):
        path = tmp_path / word.replace("FILE", name)
        if broken == "folder":
            path.mkdir()
        elif broken in CONTENTS:
            path.write_bytes(CONTENTS[broken])
    code, said = run(line, FILE=tmp_path / name)
    assert not LEAKS.search(said), said
    if code and not (broken == "empty" and "sqlite" in line):  # that is a new database
        assert code in (1, 2), said
        assert name[:40] in said.replace(" ", "")


@pytest.fixture(scope="module")
def database(good: Path) -> Path:
    path = good / "collector.sqlite"
    words = ["metrics", "push", str(good / "GOOD.toml"), "--database", f"sqlite:///{path}"]
    assert cli.main(words) == 0
    return path


@pytest.mark.parametrize(
    "place", ["under a file", "a folder", "no folder", "long name", "full disk"]
)
@pytest.mark.parametrize("line", WRITES)
def test_a_place_that_cannot_be_written_is_named(line, place, database, tmp_path, run) -> None:
    code, said = run(line, OUT=bad_place(place, tmp_path / "place"), DATABASE=database)
    assert not LEAKS.search(said), said
    if code:
        assert code in (1, 2), said
        assert "place" in said


class Odd(BaseHTTPRequestHandler):
    """Answers as no collector does."""

    body, length = b"<html>Log in to this network</html>", 0

    def do_GET(self) -> None:
        if self.body == b"":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(self.length or len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_GET  # noqa: N815 (the library calls it so)

    def log_message(self, *_: object) -> None:
        pass


ODD = {
    "a page": (b"<html>Log in to this network</html>", 0),
    "nothing": (b"", 0),
    "half": (b'{"metrics": [', 0),
    "fewer bytes than said": (b'{"metrics": []}', 4_000),
    "nested": (b"[" * 200_000, 0),
    "another document": (b'{"other": 1}', 0),
    "a list": (b"[1, 2]", 0),
    "not text": (b"\xff\xfe\x00", 0),
}


@pytest.fixture(params=[*ODD, "refused", "no such host", "no address"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "refused":
        yield "http://127.0.0.1:9"
    elif request.param == "no such host":
        yield "http://collector.invalid"
    elif request.param == "no address":
        yield "http://[::1"
    else:
        body, length = ODD[request.param]
        with serving_with(type("This", (Odd,), {"body": body, "length": length})) as url:
            yield url


@pytest.mark.parametrize("line", ASKS)
def test_what_is_no_collector_is_named(line: str, address: str, run: Run) -> None:
    code, said = run(line, URL=address)
    assert code in (1, 2), said
    assert not LEAKS.search(said), said
    assert address.partition("//")[2] in said


def test_standard_output_that_is_full_or_closed() -> None:
    """Not the words of the system, and no second complaint when the process ends."""
    for shell, said in (("--help > /dev/full", "no space left"), ("--help | true", "")):
        done = subprocess.run(
            ["sh", "-c", f"{sys.executable} -m rappor_cli {shell}"],
            cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert said in done.stderr
        assert not LEAKS.search(done.stderr)
        assert done.stderr.count("\n") <= 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "there is not enough memory"),
        (RecursionError("maximum recursion depth exceeded"), "nested too deeply"),
        (OSError(28, "No space left on device", "a.json"), "a.json: no space left on device; make"),
        (sqlite3.OperationalError("disk I/O error"), "disk I/O error"),
        (SQLAlchemyError("the pool is closed"), "the pool is closed"),
        (json.JSONDecodeError("Expecting value", "[", 1), "it is not JSON at line 1, column 2"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "it is not UTF-8"),
    ],
)
def test_what_no_reader_caught_is_a_sentence_too(error, said, monkeypatch, rappor) -> None:
    def command() -> None:
        raise error

    monkeypatch.setitem(sys.modules, "failing", SimpleNamespace(command=command))
    monkeypatch.setitem(COMMANDS, "decode", ("failing", "command", ""))
    rappor("decode", code=1)
    assert rappor.err.startswith("rappor decode: ")
    assert rappor.err.count("\n") == 1
    assert said in rappor.err
    assert not LEAKS.search(rappor.err)


@pytest.mark.parametrize(
    "line",
    [
        "decode --aggregate AGGREGATE --candidates GOOD.txt --set repeats=1e300",
        "density places --aggregate AGGREGATE --repeats 1e300",
        "discover --aggregate AGGREGATE --repeats 1e300",
    ],
)
def test_uncountable_reports_of_a_device_are_refused(line: str, good: Path, run: Run) -> None:
    code, result = run(line, AGGREGATE=good / "GOOD.json")
    assert code == 2
    assert "1e+300 reports per device are not from 1 to the" in result
