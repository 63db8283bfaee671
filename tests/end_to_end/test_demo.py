"""The demo: the real SDK, real HTTP, a real database, the decoder, the service."""

import csv
import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from client_sdk.storage.directory import FileLock
from decoder_service.client import Service
from rappor_cli.main import main


def found(folder: Path) -> dict[str, float]:
    with (folder / "results.csv").open(encoding="utf-8", newline="") as stream:
        return {row["string"]: float(row["proportion"]) for row in csv.DictReader(stream)}


@pytest.mark.long
def test_words_go_in_and_estimates_come_out(tmp_path, capsys) -> None:
    out = tmp_path / "out"
    assert main(["demo", "--clients", "30000", "--seed", "7", "-o", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "60,000 accepted" in shown
    assert found(out / "word")["the"] == pytest.approx(0.075, abs=0.02)
    assert len(found(out / "length")) == 5
    assert "yes, wrongly" not in shown
    page = (out / "word" / "report.html").read_text(encoding="utf-8")
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page
    manifest = json.loads((out / "word" / "manifest.json").read_text())
    assert manifest["num_reports"] == 30_000
    assert not (out / "decoder.sqlite").exists()
    with closing(sqlite3.connect(out / "collector.sqlite")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    again = tmp_path / "again"
    assert main(["demo", "--clients", "30000", "--seed", "7", "-o", str(again)]) == 0
    assert found(again / "word") == found(out / "word")


def test_the_shell_of_an_operator_changes_nothing(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("RAPPOR_HOST", "0.0.0.0")
    monkeypatch.setenv("RAPPOR_WORKERS", "2")
    monkeypatch.setenv("RAPPOR_KEY", "rk_admin_0_0")
    assert main(["demo", "--clients", "2000", "--seed", "1", "-o", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "2,000 devices sent 4,000 reports" in shown
    assert "2 memoized values" in shown
    assert len(found(tmp_path / "out" / "length")) >= 4


@pytest.mark.long
def test_the_demo_ends_in_a_releasing_service(tmp_path) -> None:
    out = tmp_path / "out"
    command = ["demo", "--clients", "5000", "--seed", "7", "-o", str(out)]
    demo = subprocess.Popen(
        [sys.executable, "-m", "rappor_cli", *command, "--serve", "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job ignores it
    )  # fmt: skip
    try:
        shown = ""
        for line in demo.stdout:
            shown += line
            if "Ctrl-C ends it" in line:
                break
        else:
            pytest.fail(f"the demo ended: {shown}{demo.stderr.read()}")
        url, first, second = (
            re.search(pattern, shown).group(1)  # type: ignore[union-attr]
            for pattern in (
                r"decoder service: (\S+)/sign-in", r"key: (\S+)", r"approves the release: (\S+)"
            )
        )  # fmt: skip
        assert not url.endswith((":0", ":8100"))
        mine, other = Service(url, first), Service(url, second)
        assert "changed by more than 3 points since the previous window." in shown
        assert "Value: https://video" in shown
        made = Counter((one.row["operation"], one.row["kind"]) for one in mine.results())
        assert made == {
            ("compare", "string"): 1, ("decode", "string"): 16, ("decode", "location"): 1,
            ("series", "string"): 1, ("series", "category"): 1,
        }  # fmt: skip
        release_id = re.search(r"/releases/(\w+)", shown).group(1)  # type: ignore[union-attr]
        release = mine.ask("GET", f"/v1/releases/{release_id}")
        assert release["state"] == "proposed"
        approve = f"/v1/releases/{release['id']}/approve"
        assert other.ask("POST", approve, body={"reason": "seen"})["state"] == "approved"
        with urllib.request.urlopen(f"{url}/dictionary", timeout=10) as answer:
            dictionary = answer.read().decode()
        assert "The page that a browser opens with" in dictionary
        assert "No data is collected" not in dictionary
        with closing(sqlite3.connect(out / "service-collector.sqlite")) as database:
            counted = "SELECT sum(num_reports) FROM blocks JOIN series ON series.id = series_id "
            (places,) = database.execute(counted + "WHERE metric = 'usual_place'").fetchone()
        assert places == 96_000, "devices report places to the collector"
    finally:
        demo.send_signal(signal.SIGINT)
        rest, result = demo.communicate(timeout=60)
    assert demo.returncode == 0, result
    assert "stopped" in rest


def test_taken_ports_are_told_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["demo", "--serve", "--port", str(port), "-o", str(out)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in line
    assert "choose another port with --port (0 picks a free one)" in line
    assert not out.exists()


def test_two_demos_do_not_share_a_folder(tmp_path: Path, capsys) -> None:
    lock = FileLock(str(tmp_path / "demo.lock"))
    assert lock.try_acquire()
    assert main(["demo", "-o", str(tmp_path)]) == 1
    lock.release()
    assert f"another demo is using {tmp_path}; choose a folder with -o" in capsys.readouterr().err
