"""`decoder_service.client` against a service that runs."""

import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from decoder.errors import DecodeError, RemoteError
from decoder_service.client import Service
from tests.decoder_service.in_process import do_jobs, working
from tests.decoder_service.live_collector import MONDAY, WORDS, live_collector
from tests.decoder_service.support import Running, decode_spec, running
from tests.http_server import serving_with

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


@pytest.mark.long
def test_the_example_of_the_docs_runs(
    served: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands, but for the address and the days, with a list of the metric's own words."""
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert code.rstrip().endswith("result.to_frame()")
    changes = {
        "https://decode.example": served.url,
        "2026, 11, 2)": "2026, 11, 9)",
        "2026, 11, 8)": "2026, 11, 9)",
        "https://example.org/": "word-0",
        '"words"': '"words of the docs"',
        "result.to_frame()": "frame = result.to_frame()",
    }
    for old, new in changes.items():
        assert old in code
        code = code.replace(old, new)
    monkeypatch.setenv("RAPPOR_DECODER_KEY", served.keys["ben"])
    names: dict[str, Any] = {}
    pytest.importorskip("pandas")
    with working(served, tmp_path):
        exec(compile(code, "docs/service.md", "exec"), names)
    assert list(names["frame"]["value"]) == ["word-0"]


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

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append(self.path)
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_address[1]}/other")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with serving_with(Elsewhere) as url, pytest.raises(RemoteError, match="302"):
        Service(url, "key").jobs()
    assert len(got) == 1
