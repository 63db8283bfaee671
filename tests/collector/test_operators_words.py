"""What an operator is told, and what cannot happen by accident: settings, closing, retiring."""

import json
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

from collector.server import running_collector
from collector.settings import load_settings
from rappor_cli.main import main
from rappor_server.errors import SettingsError
from rappor_server.logs import make_log
from rappor_server.serving import announce, listening
from tests.collector.support import TODAY, Clock, ServerMaker, make_bench, make_metric
from tests.metric_texts import declaration

METRICS = declaration("theme", "boolean", prob_f=0.5, prob_p=0.5, prob_q=0.75)


def test_a_push_weakens_only_if_asked(
    serving: ServerMaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "metrics.toml"
    with serving([]) as server:
        asked = ["metrics", "push", str(file), "--collector", str(server.http.base_url)]
        file.write_text(METRICS + "min_reports = 5\n")
        assert main(asked) == 0
        file.write_text(METRICS + "min_reports = 2\n")
        assert main(asked) == 1
        assert "min_reports falls" in capsys.readouterr().err
        assert main([*asked, "--weaken"]) == 0
    assert "weakened: " in capsys.readouterr().out


def test_an_unknown_variable_is_refused_as_filed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAPPOR_KEY", "not a setting, but known")
    load_settings()
    monkeypatch.setenv("RAPPOR_WORKRS", "2")
    with pytest.raises(SettingsError, match=r"RAPPOR_WORKRS: .* did you mean RAPPOR_WORKERS"):
        load_settings()


def test_several_processes_need_postgresql(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--workers", "2"]) == 1
    said = capsys.readouterr().err
    assert "workers = 2 on SQLite, which is for one collector process" in said
    assert "name a PostgreSQL database" in said


@pytest.mark.parametrize(
    ("host", "said"), [("127.0.0.1", False), ("::1", False), ("0.0.0.0", True), ("::", True)]
)
def test_a_server_that_others_reach_names_the_proxy(host: str, *, said: bool) -> None:
    stream = StringIO()
    with listening(host, 0) as listener:
        announce(listener, make_log("info", stream))
    assert ("a reverse proxy's: put one in front" in stream.getvalue()) == said


def test_a_push_tells_and_revives_the_retired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_a_day_closes_only_with_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = f"sqlite:///{tmp_path}/r.sqlite"
    bench = make_bench(database, Clock(datetime.now(UTC)))
    metric = make_metric()
    bench.collector.push_metrics([metric, make_metric("other")], "test")
    today = bench.clock.now.date()
    bench.send(bench.sender.reports(metric, 20, today))
    before = bench.collector.list_metrics()
    call = ["close", str(today), "--database", database]
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
    bench.database.close()


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


def test_an_answer_on_a_terminal_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = f"sqlite:///{tmp_path}/r.sqlite"
    bench = make_bench(database, Clock(datetime.now(UTC)))
    bench.collector.push_metrics([make_metric()], "test")
    bench.database.close()
    today = str(datetime.now(UTC).date())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, code in ((False, 1), (True, 0)):
        monkeypatch.setattr("typer.confirm", lambda *_, answer=answer, **__: answer)
        assert main(["close", today, "--database", database]) == code
        assert ("closed through" in capsys.readouterr().out) == answer
