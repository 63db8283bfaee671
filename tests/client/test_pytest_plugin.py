"""The fixture `rappor`: what an app's tests say of what it would send."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from client_sdk.testing import ObservedApp
from rappor_core.errors import ValueRefusedError
from rappor_core.metrics.file import parse_metrics
from tests.client.conftest import METRICS

ROOT = Path(__file__).parents[2]
OF_AN_APP = """
import pytest


def test_a_start_sends_the_page(rappor):
    assert rappor.client.record("homepage", "https://example.org/")
    rappor.assert_sent("homepage", "https://example.org/")


def test_another_value_is_named(rappor):
    rappor.client.record("homepage", "a")
    with pytest.raises(AssertionError, match="'homepage' .'a',. was recorded, not .'b',."):
        rappor.assert_sent("homepage", "b")


def test_without_a_call_nothing_leaves(rappor):
    rappor.assert_nothing_sent()
    with pytest.raises(AssertionError, match=r"'theme' \\(\\) was recorded"):
        rappor.assert_sent("theme", "dark")
"""


def test_an_apps_tests_run_with_the_fixture(tmp_path) -> None:
    (tmp_path / "declared.toml").write_text(METRICS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nrappor_metrics = declared.toml\n")
    (tmp_path / "test_app.py").write_text(OF_AN_APP)
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "DO_NOT_TRACK": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "rappor_telemetry_pytest"],
        cwd=tmp_path, env=os.environ | alone, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "3 passed" in done.stdout, done.stdout


def test_a_value_over_the_limit_tells_the_reason(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    once = METRICS.replace("max_reports_per_period", "# max_reports_per_period")
    with ObservedApp(parse_metrics(once), tmp_path) as app:
        app.client.record("homepage", "a")
        app.client.record("homepage", "a")
        with pytest.raises(AssertionError, match="'homepage', 'a': homepage has its one report"):
            app.assert_sent("homepage", "a", "a")
        assert [one.refusal == "" for one in app.client.recorded] == [True, False]
        with pytest.raises(ValueRefusedError):
            app.client.record("theme", "pink")
        with pytest.raises(AssertionError, match="reports left"):
            app.assert_nothing_sent()
