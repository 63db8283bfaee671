"""Every folder of examples/ runs as it is. Those of the TypeScript client: client_js/test."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import numpy as np
import pytest
import uvicorn

from client_sdk import Transport, load_metrics
from client_sdk.testing import FixedRandomness, MemoryCollector
from collector.server import running_collector
from collector.settings import load_settings
from decoder.sources.collector_client import ask
from simulations.populations.fleet import RecordedValue, deliver, encode_fleet
from tests.free_ports import free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
DEVICES = 12_000


def module_of(path: Path, name: str) -> Any:
    """A module of an example, loaded under its own name."""
    spec = spec_from_file_location(name, path)
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    yield module_of(EXAMPLES / "desktop" / "telemetry.py", "telemetry")
    del sys.modules["telemetry"]


def test_the_desktop_app_remembers_the_answer(telemetry: Any, tmp_path: Path) -> None:
    with MemoryCollector(load_metrics(EXAMPLES / "desktop" / "metrics.toml").metrics) as collector:
        asked = telemetry.Telemetry(tmp_path, collector.url)
        assert asked.answer is None
        assert not asked.client.record("homepage", "a")
        asked.decide(True)
        assert asked.client.record("homepage", "https://example.org/")
        assert "homepage: 1" in asked.account()
        asked.client.close()
        again = telemetry.Telemetry(tmp_path, collector.url)
        assert again.client.flush(10)
        assert collector.counted() == {"homepage": 1}
        again.decide(False)
        assert "has not consented" in again.account()
        again.client.close()


def test_the_desktop_window_asks_and_shows_the_account(telemetry, tmp_path, monkeypatch) -> None:
    tkinter = pytest.importorskip("tkinter", reason="Python has no Tk")
    if not os.environ.get("DISPLAY") and sys.platform == "linux":
        pytest.skip("no display")
    app = module_of(EXAMPLES / "desktop" / "app.py", "desktop_app")
    monkeypatch.setattr(app.messagebox, "askyesno", lambda *_, **__: True)
    window = app.App(telemetry.Telemetry(tmp_path, "http://127.0.0.1:1"))
    window.ask()
    assert window.telemetry.answer is True
    window.choose()
    assert "homepage: 1" in window.inspect().get("1.0", tkinter.END)
    window.agreed.set(False)
    window.decide()
    assert window.telemetry.client.status.condition == "no_consent"
    window.quit_now()


def test_the_mobile_app_asks_records_and_withdraws(tmp_path: Path) -> None:
    pytest.importorskip("toga_dummy", reason="toga-core and toga-dummy are not installed")
    script = """
from startpages.app import StartPages, main
app = main()
assert "has not consented" in app.account.value, app.account.value
app.agreed.value = True
app.choose(None)
assert "homepage: 1" in app.account.value, app.account.value
app.agreed.value = False
assert "has not consented" in app.account.value, app.account.value
app.telemetry.close()
"""
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT}:{EXAMPLES / 'mobile' / 'src'}",
        "HOME": str(tmp_path),
        "TOGA_BACKEND": "toga_dummy",
        "DO_NOT_TRACK": "",
    }
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """An ASGI app on a port of loopback, by uvicorn in a thread."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = Thread(target=server.run)
    thread.start()
    until(lambda: server.started, 30)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


def test_the_service_counts_its_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = EXAMPLES / "fastapi_service"
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    with MemoryCollector(load_metrics(folder / "metrics.toml").metrics) as collector:
        monkeypatch.setenv("COLLECTOR", collector.url)
        monkeypatch.setenv("STATE_DIR", str(tmp_path))
        monkeypatch.setenv("TELEMETRY", "yes")
        service = module_of(folder / "app.py", "fastapi_example")
        with serving(service.app) as url:
            page = urlencode({"url": "https://a.example/"})
            with urlopen(Request(f"{url}/start-page?{page}", method="PUT")) as answer:
                assert answer.status == 200
            with urlopen(f"{url}/telemetry") as answer:
                assert json.load(answer)["queued"] == {"homepage": 1}
            assert service.app.state.telemetry.flush(10)
        assert collector.counted() == {"homepage": 1}


def test_the_notebook_draws_its_chart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    shutil.copytree(EXAMPLES / "notebook", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    notebook = json.loads((tmp_path / "counts_to_chart.ipynb").read_text())
    names: dict[str, Any] = {"__name__": "__notebook__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert [row.value for row in names["found"]][-1] == "https://start.example/"
    assert "<svg" in (tmp_path / "chart.svg").read_text()


def left_untracked(name: str, folder: Path) -> list[str]:
    """What the commands of an example wrote that git would show in a clone."""
    if not (ROOT / ".git").exists():
        pytest.skip("no repository")
    there = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    written = [path for path in there if path.parts[0] != "bin"]
    lines = "".join(f"examples/{name}/{path}\n" for path in written)
    words = ["git", "ls-files", "--", f"examples/{name}"], ["git", "check-ignore", "--stdin"]
    known = [
        subprocess.run(line, cwd=ROOT, input=lines, capture_output=True, text=True, check=False)
        for line in words
    ]
    return sorted(set(lines.splitlines()) - set("".join(one.stdout for one in known).splitlines()))


def in_shell(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a script of an example with `rappor` as in an installation."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    rappor = programs / "rappor"
    rappor.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rappor_cli "$@"\n')
    rappor.chmod(0o755)
    path = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        words, cwd=folder, env=os.environ | path | more, capture_output=True, text=True, check=False
    )


@pytest.mark.long
def test_google_files_agree_by_map_and_hash(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "from_google_rappor", tmp_path, dirs_exist_ok=True)
    done = in_shell(tmp_path, "./migrate.sh")
    assert done.returncode == 0, done.stderr
    results = [(tmp_path / name / "results.csv").read_text() for name in ("by-map", "by-hash")]
    assert results[0] == results[1]
    assert results[0].count("\n") == 6
    assert left_untracked("from_google_rappor", tmp_path) == []
    params = load_metrics(tmp_path / "metrics.json").metrics["homepage"].params
    assert (params.num_bits, params.hash, params.prob_q) == (16, "md5", 0.75)


@pytest.mark.long
def test_the_cron_job_publishes_week_after_week(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "cron", tmp_path, dirs_exist_ok=True)
    metrics, today = load_metrics(tmp_path / "metrics.toml").metrics, datetime.now(UTC).date()
    pages = (tmp_path / "pages.txt").read_text().split()
    settings = load_settings(
        metrics=tmp_path / "metrics.toml", database=f"sqlite:///{tmp_path}/counts.sqlite",
        host="127.0.0.1", port=0, require_keys=False,
        log_level="warning",
    )  # fmt: skip
    rng, source = np.random.default_rng(3), FixedRandomness(3)
    days = [today - timedelta(days=1), today]
    assert in_shell(tmp_path, "rappor", "release", "keygen", "keys").returncode == 0
    with running_collector(settings) as url:
        for day in days:
            held = rng.choice(pages, size=DEVICES, p=(0.5, 0.3, 0.2, 0.0))
            values = [RecordedValue(str(i), "homepage", str(page)) for i, page in enumerate(held)]
            with Transport(url) as transport:
                deliver(encode_fleet(values, metrics, day, source), transport, randomness=source)
        ask(url, f"/v1/days/{today}/close", method="POST")
        for day in days:
            done = in_shell(tmp_path, "./publish.sh", str(day), str(day), COLLECTOR=url)
            assert done.returncode == 0, done.stderr
    for day in days:
        with (tmp_path / "releases" / str(day) / "release.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if not row["symbol"]]
        assert len(rows) == 3
    assert [path for path in left_untracked("cron", tmp_path) if "counts" not in path] == []


@pytest.mark.long
@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm")
def test_the_program_in_node_works_as_its_page_says(tmp_path: Path) -> None:
    """The lines of its README in a copy of what git has, with a free port for the collector."""
    files = subprocess.run(
        ["git", "ls-files", "examples/node", "client_js"], cwd=ROOT, capture_output=True, text=True,
        check=True,
    ).stdout.split()  # fmt: skip
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    folder = tmp_path / "examples" / "node"
    block = (folder / "README.md").read_text().split("```sh\n")[1].split("```")[0]
    port = str(free_port())
    ready = f"until curl -sf http://127.0.0.1:{port}/readyz > ready; do sleep 1; done\n"
    script = "set -em\n" + block.replace("\n", f"\n{ready}", 1)
    more = {"RAPPOR_PORT": port, "COLLECTOR": f"http://127.0.0.1:{port}", "DO_NOT_TRACK": ""}
    done = in_shell(folder, "bash", "-c", script, **more)
    assert "\ndelivered\n" in done.stdout, done.stdout + done.stderr
    assert re.search(r"^homepage .* current +1 ", done.stdout, re.M)
    (folder / "ready").unlink()
    shutil.rmtree(folder / "node_modules")
    assert left_untracked("node", folder) == []
