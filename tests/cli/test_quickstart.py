"""`rappor quickstart`: own metrics, decoded under their own names."""

import csv
import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest

from client_sdk import Encoder, Transport, load_metrics
from decoder.sources.collector_client import ask_json
from rappor_cli import demo
from rappor_cli.commands import load
from rappor_cli.main import main
from rappor_core.wire.report import make_batch
from tests.cli.command import Rappor
from tests.cli.test_main import HOMEPAGE
from tests.metric_texts import declaration

ROOT = Path(__file__).parents[2]
THEME = declaration(
    "theme", "category", categories=["light", "dark", "system"], epsilon_infinity=4.0,
    epsilon_one=3.0, max_memoized_values=3,
)  # fmt: skip


def test_own_metrics_are_decoded_under_their_names(tmp_path, rappor, monkeypatch) -> None:
    (tmp_path / "metrics.toml").write_text(THEME + HOMEPAGE)
    monkeypatch.chdir(tmp_path)
    listed: list[str] = []
    run = demo._run_shown

    def shown(words: list[str]) -> bool:
        url = words[words.index("--collector") + 1]
        listed[:] = [row["name"] for row in ask_json(url, "/v1/metrics", "metrics")["metrics"]]
        return run(words)

    monkeypatch.setattr(demo, "_run_shown", shown)
    rappor("quickstart", "metrics.toml", "--devices", "3000", "--seed", "2")
    assert sorted(listed) == ["homepage", "theme"]
    printed = re.findall(r"^\$ rappor (.+)$", rappor.out, re.M)
    assert [line.split()[2] for line in printed] == ["theme", "homepage"]
    for line in printed:
        known = {option for param in load("decode").params for option in param.opts}
        assert {word for word in shlex.split(line) if word.startswith("-")} <= known
    with (tmp_path / "quickstart" / "theme" / "results.csv").open(newline="") as file:
        found = {row["string"]: float(row["proportion"]) for row in csv.DictReader(file)}
    for value, share in {"light": 6 / 11, "dark": 3 / 11, "system": 2 / 11}.items():
        assert found[value] == pytest.approx(share, abs=0.06)
    assert (tmp_path / "quickstart" / "homepage" / "report.html").exists()


def test_reports_of_an_app_are_decoded_too(tmp_path, capsys, monkeypatch) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(THEME)

    def stop(_: float) -> None:
        """Send one report as an app does, then Ctrl-C."""
        url = re.search(r"app to (\S+),", capsys.readouterr().out).group(1)  # type: ignore[union-attr]
        metrics = load_metrics(path).metrics
        report = Encoder(metrics, bytes(32)).encode("theme", "dark", datetime.now(UTC).date())
        with Transport(url) as transport:
            transport.send(make_batch(bytes(16), [report]))
        raise KeyboardInterrupt

    monkeypatch.setattr("rappor_cli.metrics.time.sleep", stop)
    out = tmp_path / "out"
    assert main(["quickstart", str(path), "--serve", "--devices", "999", "-o", str(out)]) == 0
    assert json.loads((out / "theme" / "manifest.json").read_text())["num_reports"] == 1000


@pytest.mark.long
def test_each_kind_of_the_docs_is_shown(tmp_path: Path, rappor: Rappor) -> None:
    kinds = re.search(r"^```toml\n(.*?)^```", (ROOT / "docs/metrics.md").read_text(), re.M | re.S)
    assert kinds
    (tmp_path / "metrics.toml").write_text(kinds[1])
    out = tmp_path / "out"
    result = rappor("quickstart", tmp_path / "metrics.toml", "--seed", "1", "-o", out)
    assert "\nrappor " not in result, "a metric was refused"
    names = re.findall(r"^\[metrics\.(\w+)\]", kinds[1], re.M)
    for name in names:
        assert any((out / name).glob("*.html")), name


def test_an_expired_metric_is_refused_by_name(tmp_path: Path, rappor: Rappor) -> None:
    (tmp_path / "metrics.toml").write_text(THEME.replace("2099-06-30", "2020-06-30"))
    result = ["quickstart", str(tmp_path / "metrics.toml"), "-o", str(tmp_path / "out")]
    assert "theme" in rappor.refused(*result)
