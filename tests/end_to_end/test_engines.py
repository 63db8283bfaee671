"""Commands give the same bytes on Dask and Spark as in one process, and no task contains a key."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from tests.collector.archive.support import DAY, FakeSource, expected, make_block
from tests.collector.support import make_bench, make_metric, running_server
from tests.engines import ENGINES, ROOT, environment
from tests.kinds.worlds import write_worlds

KEY = "rappor_0123456789abcdef_secret"


@pytest.fixture
def commands(tmp_path: Path) -> dict[str, list[str]]:
    """Commands that accept --on, by the option that names their output."""
    from collector.archive.export import export
    from collector.archive.store import open_store

    blocks = [make_block(day=DAY + timedelta(days=number)) for number in range(3)]
    archive, counts, lists = (str(tmp_path / name) for name in ("archive", "counts", "lists"))
    list(export(FakeSource(blocks), open_store(archive), DAY + timedelta(days=9)))
    write_worlds(Path(counts), Path(lists))
    aggregates = sorted(Path(counts).iterdir())
    files = [word for path in aggregates for word in ("--aggregate", str(path))]
    places = [str(path) for path in aggregates if '"places/' in path.read_text()]
    return {
        "sum": ["archive", "sum", archive, "kept", "-o"],
        "decode": ["decode", "--all-metrics", *files, "--candidates", lists, "-o"],
        "density": ["density", "places", "--aggregate", places[0], "-o"],
        "fleet": ["simulate", "fleet", "--small", "--seed", "5", "-o"],
        "verify": ["archive", "verify", archive],
    }


def files_under(path: Path) -> dict[str, bytes]:
    found = [path] if path.is_file() else sorted(path.rglob("*"))
    return {str(one.relative_to(path)): one.read_bytes() for one in found if one.is_file()}


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_every_command_gives_the_bytes_of_one_machine(engine, commands, tmp_path) -> None:
    def run(name: str, on: str, output: Path) -> int:
        words = [*commands[name], *([str(output)] if name != "verify" else []), "--on", on]
        command = [sys.executable, "-m", "rappor_cli", *words]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode

    with ENGINES[engine]() as cluster:
        for name in commands:
            output = tmp_path / engine / name, tmp_path / "local" / name
            for path in output:
                path.parent.mkdir(exist_ok=True)
            codes = [run(name, *pair) for pair in zip((cluster.on, "local:2"), output, strict=True)]
            assert codes == [int(name == "decode")] * 2, name  # a list is missing
            found, expected = map(files_under, output)
            assert found == expected, name
            assert expected or name == "verify"


def test_every_metric_that_a_collector_serves_is_decoded(tmp_path) -> None:
    """With the bytes of a decoding of that metric alone; one without closed days is left out."""
    url, served = f"sqlite:///{tmp_path}/rappor.sqlite", ("one", "two")
    bench = make_bench(url)
    metrics = [make_metric(name, min_reports=1) for name in (*served, "unsent")]
    bench.collector.push_metrics(metrics, "test")
    for metric in metrics[:2]:
        bench.send(bench.sender.reports(metric, 400, bench.clock.now.date()))
    bench.collector.close_day(bench.clock.now.date(), "test")
    for name in served:
        (tmp_path / f"{name}.txt").write_text("a\nb\n")
    with running_server(None, bench.clock, database=url, require_keys=False) as server:
        decode = ["decode", "--collector", str(server.http.base_url), "-o", str(tmp_path / "out")]
        assert main([*decode, "--all-metrics", "--candidates", str(tmp_path)]) == 0
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["one", "two"]
        for name in served:
            alone, listed = tmp_path / name, ["--candidates", str(tmp_path / f"{name}.txt")]
            assert main([*decode[:3], "--metric", name, *listed, "-o", str(alone)]) == 0
            assert files_under(alone) == files_under(tmp_path / "out" / name)
    bench.database.close()


@pytest.mark.parametrize(("library", "dialect"), [("duckdb", "duckdb"), ("chdb", "clickhouse")])
def test_the_queries_of_the_examples_give_a_window(
    library, dialect, commands, tmp_path, monkeypatch
):
    engine = pytest.importorskip(library, reason=f"{library} is not installed")
    query = (ROOT / "examples" / "sql" / f"{dialect}.sql").read_text().rstrip("\n;")
    for before, after in (("/srv/archive", str(tmp_path / "archive")), ("homepage", "kept"),
                          ("2026-11-24", "2026-11-19")):  # fmt: skip
        query = query.replace(before, after)
    monkeypatch.chdir(tmp_path)
    if library == "duckdb":
        engine.sql(query)
        text = Path("kept.json").read_bytes()
    else:
        text = engine.query(query, "TSVRaw").bytes()
    blocks = [make_block(day=DAY + timedelta(days=day)) for day in range(2)]
    assert Aggregate.from_json(text) == expected(*blocks)


class Recorder(Executor):
    """An executor that keeps what would travel to a worker."""

    sent: list[bytes]

    def submit(self, work: Callable[..., Any], /, *tasks: Any, **_: Any) -> Future[Any]:  # type: ignore[override]
        self.sent.append(pickle.dumps((work, tasks)))
        future = Future[Any]()
        future.set_result(work(*tasks))
        return future


def recorder() -> Executor:
    return Recorder()


def test_no_task_contains_a_key(commands, tmp_path, monkeypatch) -> None:
    Recorder.sent = []
    for name in ("RAPPOR_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, KEY)
    for name in ("sum", "decode", "verify"):
        output = [] if name == "verify" else [str(tmp_path / f"{name}-out")]
        main([*commands[name], *output, "--on", f"{__name__}:recorder"])
    assert len(Recorder.sent) >= 3 + 9 + 3
    assert not any(KEY.encode() in sent for sent in Recorder.sent)
