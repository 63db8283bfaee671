"""`decoder_service.client` against a service that runs and wrong answers; docs/analysis.ipynb."""

import ast
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from decoder.errors import DecodeError, RemoteError
from decoder_service import client
from decoder_service.client import Result, Service
from tests.decoder_service.in_process import do_jobs, working
from tests.decoder_service.live_collector import MONDAY, WORDS, live_collector
from tests.decoder_service.support import Running, decode_spec, running
from tests.http_server import Handler, serving_with

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("remote")
    with (
        live_collector(folder, {MONDAY: {"word-0": 500, EVIL: 500}}) as collector,
        running(f"sqlite:///{folder}/d.sqlite", tick_seconds=0, **collector.settings) as one,
    ):
        yield one


def test_from_a_list_to_a_frame(served: Running, tmp_path: Path) -> None:
    service = Service(served.url, served.keys["ana"])
    words = service.upload_list("words", [*WORDS, EVIL])
    assert [one.row["name"] for one in service.lists()] == ["words"]
    job = service.decode("homepage", words, first=MONDAY, last=MONDAY, alpha=0.01)
    assert job.state == "queued"
    with pytest.raises(DecodeError, match="is queued"):
        job.result()
    assert do_jobs(served.service, tmp_path) == 1
    result = job.wait().result()
    assert {row["value"] for row in result.rows()} == {"word-0", EVIL}
    assert result.data("parquet")[:4] == b"PAR1"
    assert result.file("results.csv").startswith(b'"string",')
    assert [one.id for one in service.results("homepage")] == [result.id]
    assert job.id in [one.id for one in service.jobs()]
    assert served.keys["ana"] not in repr((service, job, result))
    pytest.importorskip("pandas")
    frame = result.to_frame()
    assert set(frame["value"]) == {"word-0", EVIL}


def test_jobs_are_cancelled_and_failures_said(served: Running) -> None:
    service = Service(served.url, served.keys["ana"])
    with served.client("ana") as ana:
        job = service.submit(decode_spec(ana, options={"alpha": 0.2}))
    assert job.cancel().wait().state == "cancelled"
    with pytest.raises(DecodeError, match="cancelled before it started"):
        job.result()
    with pytest.raises(RemoteError, match="404: there is no job"):
        service.job("0" * 16)
    with pytest.raises(RemoteError, match="401"):
        Service(served.url, "wrong").jobs()


def test_keys_need_https_and_follow_no_redirect() -> None:
    with pytest.raises(RemoteError, match="https only"):
        Service("http://decode.example", "key")
    got: list[str] = []

    class Elsewhere(Handler):
        def do_GET(self) -> None:  # noqa: N802
            got.append(self.path)
            self.reply(302, Location=f"http://127.0.0.1:{self.server.server_address[1]}/other")

    with serving_with(Elsewhere) as url, pytest.raises(RemoteError, match="302"):
        Service(url, "key").jobs()
    assert len(got) == 1


DEEP = b"[" * 200_000


@contextmanager
def answering(code: int, body: bytes, length: int | None = None) -> Iterator[Service]:
    """A server that gives one answer to everything. length: as it says; that of the body."""

    class Answering(Handler):
        def do_GET(self) -> None:  # noqa: N802
            said = str(len(body) if length is None else length)
            self.reply(code, body, Content_Length=said, Location="http://127.0.0.1:1/elsewhere")
            self.close_connection = True

    with serving_with(Answering) as url:
        yield Service(url, "key")


ASKED: list[Callable[[Service], object]] = [
    Service.jobs,
    Service.results,
    Service.lists,
    Service.usage,
    lambda service: service.job("a").state,
    lambda service: service.result("a").id,
]


@pytest.mark.parametrize("body", [DEEP, b"[]", b"\xff", b""])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with answering(200, body) as service:
        for ask in ASKED:
            with pytest.raises(RemoteError, match="is not a decoder service; check the address"):
                ask(service)


def test_what_has_no_such_member_is_refused() -> None:
    with answering(200, b'{"other": 1}') as service:
        for ask in ASKED:
            if ask is not Service.usage:
                with pytest.raises(RemoteError, match="the answer has no '"):
                    ask(service)
    for rows in (b'{"jobs": 3}', b'{"jobs": [1, null]}'):
        with answering(200, rows) as service, pytest.raises(RemoteError, match="is not a decoder"):
            service.jobs()


def test_an_answer_is_held_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 1000)
    with answering(200, b"x" * 1001) as service:
        for ask in (Service.jobs, lambda one: Result(one, {"id": "a"}).file("report.html")):
            with pytest.raises(RemoteError, match="sends more than 1,000 bytes"):
                ask(service)
    with answering(200, b"{}", 100) as service, pytest.raises(RemoteError, match="complete"):
        service.jobs()


def test_refusals_are_shown_as_short_text() -> None:
    said = {"detail": "\x1b[31mred\u202e" + "x" * 100_000}
    with answering(400, json.dumps(said).encode()) as service:
        with pytest.raises(RemoteError) as refused:
            service.jobs()
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 2100
    with (
        answering(307, b"") as service,
        pytest.raises(RemoteError, match="another address, which is not followed"),
    ):
        service.jobs()


NOTEBOOK = Path(__file__).parents[2] / "docs" / "analysis.ipynb"
ADDRESS = "http://127.0.0.1:8100"


def run_cell(source: str, name: str, names: dict[str, Any]) -> Any:
    tree = ast.parse(source, name)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), name, "eval"), names)


def code_cells() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.long
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    with running(f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0) as served:
        monkeypatch.setenv("RAPPOR_DECODER_KEY", served.keys["ana"])
        names: dict[str, Any] = {"__name__": "__main__"}
        shown: list[Any] = []
        kinds = set()
        with working(served, tmp_path):
            for number, source in enumerate(code_cells()):
                text = source.replace(ADDRESS, served.url)
                shown.append(run_cell(text, f"analysis.ipynb, code cell {number}", names))
                kinds.add(type(shown[-1]).__name__)
    assert {"CandidateList", "Job", "DataFrame"} <= kinds
    assert "https://news.example/" in set(names["decoding"].to_frame()["value"])
    assert isinstance(names["cells"], pandas.DataFrame)
    changed = shown[-2]
    assert changed.iloc[0]["string"] == "https://video.example/"
    assert changed.iloc[0]["low"] > 0 > changed.iloc[-1]["difference"]
    assert shown[-1]["held"] > 0
