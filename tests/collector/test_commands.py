"""The operator's commands, and what cannot happen by accident: closing, retiring, reviving."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import httpx
import pytest

from collector.server import running_collector
from collector.settings import load_settings
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.report import make_batch
from rappor_server.errors import SettingsError
from tests.collector.crash import announced_port, await_ready
from tests.collector.support import TODAY, Sender, ServerMaker, make_bench, make_metric
from tests.metric_texts import declaration
from tests.waiting import until

ROOT = Path(__file__).parents[2]
METRICS = declaration("theme", "boolean", prob_f=0.5, prob_p=0.5, prob_q=0.75, min_reports=5)

Run = Callable[..., "Done"]


@pytest.fixture
def metrics_file(tmp_path: Path) -> Path:
    file = tmp_path / "metrics.toml"
    file.write_text(METRICS)
    return file


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `rappor ...` in an empty folder, in this process."""
    for name in tuple(os.environ):
        if name.startswith("RAPPOR_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, **environment: str) -> Done:
        with monkeypatch.context() as context:
            for name, value in environment.items():
                context.setenv(name, value)
            capsys.readouterr()
            code = main(list(arguments))
            return Done(code, *capsys.readouterr())

    return call


def test_the_life_of_a_metric_through_commands(run, metrics_file, tmp_path) -> None:
    """serve, keys, push, reports, close, list, aggregate, retire, backup; then a clean end."""
    database = f"sqlite:///{tmp_path}/r.sqlite"
    key = run("keys", "create", "--scope", "admin", "--label", "me", "--database", database)
    assert key.returncode == 0, key.stderr
    admin = {"RAPPOR_KEY": key.stdout.strip()}
    server = subprocess.Popen(
        [sys.executable, "-m", "rappor_cli", "serve", "--database", database, "--port", "0"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        port = announced_port(server)
        url = f"http://127.0.0.1:{port}"
        await_ready(port)
        pushed = run("metrics", "push", str(metrics_file), "--collector", url, **admin)
        assert (pushed.returncode, pushed.stdout) == (0, "added: theme; changed: none\n")
        made = run("keys", "create", "--scope", "aggregate", "--collector", url, **admin)
        analyst = {"RAPPOR_KEY": made.stdout.strip()}
        made = run("keys", "create", "--scope", "report", "--collector", url, **admin)
        _send(url, made.stdout.strip())
        refused = run("aggregate", "theme", "--collector", url, **analyst)
        assert refused.returncode == 1
        assert "no closed day" in refused.stderr
        assert refused.stderr.count("\n") == 1
        closed = run("close", _today(), "--yes", "--collector", url, "--json", **admin)
        assert json.loads(closed.stdout)["days_with_reports"] == 1
        listed = run("metrics", "list", "--collector", url, **analyst)
        assert re.search(
            r"^metric +kind +params_id +state +accepted +days served "
            r"+1 % after one report +for life +until",
            listed.stdout,
            re.M,
        )
        assert re.search(r"^theme .* current +20 ", listed.stdout, re.M)
        out = run("aggregate", "theme", "--collector", url, "-o", "a.json", **analyst)
        assert out.returncode == 0, out.stderr
        assert Aggregate.from_json((tmp_path / "a.json").read_text()).num_reports == 20
        assert run("close", _today(), "--yes", "--collector", url, **analyst).returncode == 1
        assert run("metrics", "retire", "theme", "--collector", url, **admin).returncode == 0
        assert run("backup", "--database", database, "-o", "copy").returncode == 0
    finally:
        server.send_signal(signal.SIGHUP)  # A closed terminal: oidc-pam #224
        _, errors = server.communicate(timeout=30)
    assert server.returncode == 0
    events = [json.loads(line)["event"] for line in errors.splitlines()]
    assert events[-1] == "stopped"


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _send(url: str, key: str) -> None:
    metric = parse_metrics(METRICS).metrics["theme"]
    reports = Sender().reports(metric, 20, date.fromisoformat(_today()))
    headers = {"content-type": "application/vnd.rappor.batch", "authorization": f"Bearer {key}"}
    body = encode_binary(make_batch(os.urandom(16), reports))
    answers = []

    def is_taken() -> bool:  # a collector reads its metrics once a second
        answers.append(httpx.post(f"{url}/v1/reports", content=body, headers=headers))
        return answers[-1].status_code == 200

    until(is_taken, every=0.1)
    assert answers[-1].json()["results"] == [{"status": "accepted"}] * 20


def test_the_same_commands_work_on_the_database(run: Run, metrics_file: Path) -> None:
    on = ("--database", "sqlite:///r.sqlite")
    assert run("metrics", "push", str(metrics_file), *on).returncode == 0
    assert "theme" in run("metrics", "list", *on).stdout
    assert run("close", _today(), "--yes", *on).returncode == 0
    key = run("keys", "create", "--scope", "report", *on).stdout.strip()
    key_id = key.split("_")[2]
    assert key_id in run("keys", "list", *on).stdout
    assert run("keys", "revoke", key_id, *on).returncode == 0
    assert run("keys", "revoke", key_id, *on).returncode == 1
    assert run("migrate", *on).stdout == "the collector's database is at schema 0017 already\n"
    weaker = METRICS.replace("min_reports = 5", "min_reports = 2")
    metrics_file.write_text(weaker)
    assert "min_reports falls" in run("metrics", "push", str(metrics_file), *on).stderr
    assert run("metrics", "push", str(metrics_file), "--weaken", *on).returncode == 0


def test_settings_come_from_file_or_environment(tmp_path, monkeypatch) -> None:
    from collector.settings import load_settings
    from rappor_server.errors import SettingsError

    file = tmp_path / "settings.toml"
    file.write_text('port = 8123\nmax_batch_reports = 50\nhost = "127.0.0.2"\n')
    monkeypatch.setenv("RAPPOR_SETTINGS", str(file))
    monkeypatch.setenv("RAPPOR_PORT", "8124")
    settings = load_settings(host="127.0.0.3")
    assert (settings.max_batch_reports, settings.port, settings.host) == (50, 8124, "127.0.0.3")
    for text in ("port = ", "color = 1", "port = 'x'"):
        file.write_text(text)
        monkeypatch.delenv("RAPPOR_PORT", raising=False)
        with pytest.raises(SettingsError):
            load_settings()
    monkeypatch.setenv("RAPPOR_SETTINGS", "/nowhere")
    with pytest.raises(SettingsError, match="no such file"):
        load_settings()


def test_a_push_tells_and_revives_the_retired(tmp_path, capsys) -> None:
    """Nor does a start with `--metrics` collect it again."""
    file, database = tmp_path / "metrics.toml", f"sqlite:///{tmp_path}/r.sqlite"
    file.write_text(METRICS)
    on = ["--database", database]
    main(["metrics", "push", str(file), *on])
    main(["metrics", "retire", "theme", *on])
    capsys.readouterr()
    assert main(["metrics", "push", str(file), *on]) == 0
    assert "still retired: theme; --revive" in capsys.readouterr().out
    with running_collector(load_settings(database=database, metrics=file, port=0)):
        assert _state(database) == "retired"
    file.write_text(METRICS.replace("prob_f = 0.5", "prob_f = 0.75"))  # a new version of it, too
    assert main(["metrics", "push", str(file), *on]) == 0
    assert _state(database) == "retired"
    assert main(["metrics", "push", str(file), "--revive", *on]) == 0
    assert _state(database) == "current"


def _state(database: str) -> str:
    bench = make_bench(database)
    state: str = bench.collector.list_metrics()[-1]["state"]
    bench.database.close()
    return state


def test_a_day_closes_only_with_yes(bench, database_url, capsys) -> None:
    bench.clock.now, metric = datetime.now(UTC), make_metric()
    bench.collector.push_metrics([metric, make_metric("other")], "test")
    today = bench.clock.now.date()
    bench.send(bench.sender.reports(metric, 20, today))
    before = bench.collector.list_metrics()
    call = ["close", str(today), "--database", database_url]
    assert main(call) == 2  # nobody can be asked
    assert "--yes" in capsys.readouterr().err
    assert main([*call, "--dry-run", "--json"]) == 0
    would = json.loads(capsys.readouterr().out)
    assert main([*call, "--dry-run"]) == 0
    assert "would close through" in capsys.readouterr().out
    assert bench.collector.list_metrics() == before
    assert main([*call, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == would  # it did what it said
    assert would["metrics"] == ["homepage", "other"]
    assert would["days_with_reports"] == 1
    assert bench.collector.list_metrics() != before


def test_dry_run_and_closing_answer_alike(serving: ServerMaker) -> None:
    metric = make_metric()
    with serving([metric]) as server:
        server.post(server.sender.reports(metric, 20))
        path = f"/v1/days/{TODAY}/close"
        would = server.http.post(path, params={"dry_run": "true", "metric": "homepage"}).json()
        assert server.http.get("/v1/metrics").json()["metrics"][0]["served"] is None
        assert server.http.post(path, params={"dry_run": "perhaps"}).status_code == 422
        assert server.http.post(path, params={"dry_run": "true", "metric": "x"}).status_code == 404
        assert server.http.post(path).json() == would
        tomorrow = f"/v1/days/{TODAY.replace(day=TODAY.day + 2)}/close"
        assert server.http.post(tomorrow, params={"dry_run": "true"}).status_code == 422


def test_an_answer_on_a_terminal_decides(bench, database_url, monkeypatch, capsys) -> None:
    bench.clock.now = datetime.now(UTC)
    bench.collector.push_metrics([make_metric()], "test")
    today = str(bench.clock.now.date())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, code in ((False, 1), (True, 0)):
        monkeypatch.setattr("typer.confirm", lambda *_, answer=answer, **__: answer)
        assert main(["close", today, "--database", database_url]) == code
        assert ("closed through" in capsys.readouterr().out) == answer


def test_an_unknown_variable_is_refused_as_filed(monkeypatch) -> None:
    monkeypatch.setenv("RAPPOR_KEY", "not a setting, but known")
    load_settings()
    monkeypatch.setenv("RAPPOR_WORKRS", "2")
    with pytest.raises(SettingsError, match=r"RAPPOR_WORKRS: .* did you mean RAPPOR_WORKERS"):
        load_settings()


def test_several_processes_need_postgresql(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--workers", "2"]) == 1
    said = capsys.readouterr().err
    assert "workers = 2 on SQLite, which supports one collector process" in said
    assert "name a PostgreSQL database" in said
