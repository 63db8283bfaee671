"""Metrics that are paused: refused by name, directly and behind a relay, until they are resumed."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from collector.errors import NotFoundError
from collector.server import running_collector
from collector.settings import load_settings
from rappor_cli.main import main
from tests.collector.support import TODAY, Bench, make_metric

METRIC = make_metric(min_reports=1)


def reason_of(bench: Bench) -> str:
    result = bench.send(bench.sender.reports(METRIC, 1))[0].results[0]  # type: ignore[union-attr]
    return "" if result is None else result.reason


def test_a_paused_metric_is_refused_until_it_is_resumed(bench: Bench) -> None:
    bench.collector.push_metrics([METRIC], "test")
    assert reason_of(bench) == ""
    assert bench.collector.pause_metric("homepage", "test", paused=True) == [METRIC.params_id]
    assert reason_of(bench) == "metric_paused"
    bench.collector.push_metrics([METRIC], "test")  # as a start with --metrics does
    assert reason_of(bench) == "metric_paused"
    bench.collector.pause_metric("homepage", "test", paused=False)
    assert reason_of(bench) == ""
    bench.collector.close_day(TODAY, "test")
    assert bench.collector.read_aggregate("test", "homepage").num_reports == 2
    acts = [row.act for row in bench.collector.read_audit(100)]
    assert {"pause", "resume"} <= set(acts)


def test_an_unknown_metric_cannot_be_paused(bench: Bench) -> None:
    with pytest.raises(NotFoundError, match="no metric 'nothing' to pause"):
        bench.collector.pause_metric("nothing", "test", paused=True)


def test_the_command_pauses_by_database_and_by_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "metrics.toml"
    file.write_text(
        '[metrics.theme]\nkind = "category"\ndescription = "x"\nowner = "x"\n'
        'expires = 2099-01-01\ncategories = ["a", "b"]\nepsilon_infinity = 2.0\n'
        "epsilon_one = 1.0\nmax_memoized_values = 2\n"
    )
    database = f"sqlite:///{tmp_path}/c.sqlite"
    settings = load_settings(
        database=database, metrics=file, port=0, require_keys=False, log_level="error"
    )
    with running_collector(settings) as url:
        assert main(["metrics", "pause", "theme", "--collector", url]) == 0
        assert main(["metrics", "pause", "theme", "--resume", "--collector", url]) == 0
        assert main(["metrics", "pause", "them", "--collector", url]) == 1
        answer = httpx.post(f"{url}/v1/metrics/theme/pause?resume=maybe")
        assert answer.status_code == 422
        assert "resume = 'maybe'" in json.loads(answer.text)["detail"]
    assert main(["metrics", "pause", "theme", "--database", database]) == 0
    assert "paused theme\nresumed theme\npaused theme\n" in capsys.readouterr().out
