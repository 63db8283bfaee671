"""One line, OpenTelemetry and the fixture of pytest: ways to the same client."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client_sdk import one_line
from client_sdk.opentelemetry import DeclaredMeterProvider
from client_sdk.testing import MemoryCollector, ObservedApp
from rappor_core.errors import ParameterError, ValueRefusedError
from rappor_core.metrics.file import parse_metrics
from tests.client.conftest import METRICS
from tests.core.test_typescript import NUMBER, SUM


@pytest.fixture
def telemetry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module as a process finds it, in the home of somebody else."""
    for name in ("DO_NOT_TRACK", "XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(one_line, "_OPEN", {})
    monkeypatch.setattr(one_line, "_TOLD", set())
    yield one_line
    for client in one_line._OPEN.values():
        client.close()


def test_one_line_opens_the_client_of_the_process(telemetry, tmp_path) -> None:
    file = parse_metrics(METRICS)
    with MemoryCollector(file.metrics) as collector:
        given = {"app": "editor", "collector": collector.url}
        client = telemetry.init(file, consent=True, **given)
        assert telemetry.record("homepage", "https://example.org/")
        assert client.flush(10)
        assert collector.counted() == {"homepage": 1}
        assert telemetry.init(file, consent=False, **given) is client
        assert not telemetry.record("homepage", "b")
    assert Path(telemetry.folder_of("editor")).is_relative_to(tmp_path)
    with pytest.raises(ParameterError, match="'other': this process has the client of 'editor'"):
        telemetry.init(file, app="other", collector="http://127.0.0.1:1", consent=True)


def test_before_init_nothing_is_recorded_and_told_once(telemetry, caplog) -> None:
    caplog.set_level(logging.WARNING)
    assert not telemetry.record("homepage", "a")
    assert not telemetry.add("crashes")
    assert [one.getMessage() for one in caplog.records] == [
        "nothing is recorded: call init() first"
    ]


@pytest.mark.parametrize(
    ("platform", "folder"),
    [
        ("linux", ".local/state/editor/telemetry"),
        ("darwin", "Library/Application Support/editor/telemetry"),
        ("win32", "AppData/Local/editor/telemetry"),
    ],
)
def test_each_platform_has_its_folder(telemetry, monkeypatch, tmp_path, platform, folder) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert telemetry.folder_of("editor") == str(tmp_path / folder)


@pytest.mark.parametrize("app", ["", "..", "a/b", "a\\b", "C:"])
def test_a_name_that_leaves_the_folder_is_refused(telemetry, app) -> None:
    with pytest.raises(ParameterError, match="is not a valid folder name"):
        telemetry.folder_of(app)


DECLARED = parse_metrics(NUMBER + SUM)


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObservedApp]:
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    with ObservedApp(DECLARED, tmp_path) as opened:
        yield opened


def test_declared_instruments_record_through_their_metrics(app) -> None:
    meter = DeclaredMeterProvider(app.client, DECLARED).get_meter("library", "1.0")
    counter, histogram = meter.create_counter("Crashes"), meter.create_histogram("startup", "ms")
    counter.add(1, {"user": "ada@example.org"})
    counter.add(2)
    meter.create_up_down_counter("crashes").add(1)
    histogram.record(812.5, {"file": "/home/ada/x"})
    app.assert_recorded("crashes", 1, 2, 1)
    app.assert_recorded("startup", 812.5)
    assert "ada" not in str(app.client.inspect())


def test_the_undeclared_is_dropped_and_told_once(app, caplog) -> None:
    caplog.set_level(logging.WARNING)
    provider = DeclaredMeterProvider(app.client, DECLARED)
    for library in ("one", "two"):
        meter = provider.get_meter(library)
        meter.create_counter("requests").add(1)
        meter.create_counter("startup").add(1)  # declared, but no sum
        meter.create_histogram("crashes").record(3)
        meter.create_observable_gauge("memory", [lambda _: pytest.fail("asked")])
        meter.create_observable_counter("crashes", [lambda _: pytest.fail("asked")])
        meter.create_observable_up_down_counter("fifth", [lambda _: pytest.fail("asked")])
        meter.create_gauge("load").set(3)
        meter.create_up_down_counter("waiting").add(3)
    provider.force_flush()
    assert app.client.recorded == []
    app.assert_nothing_sent()
    result = [one.getMessage() for one in caplog.records if "is dropped" in one.getMessage()]
    assert [line.split(" is dropped")[0] for line in result] == [
        "counter 'requests'", "counter 'startup'", "histogram 'crashes'",
        "observable gauge 'memory'", "observable counter 'crashes'",
        "observable up-down counter 'fifth'", "gauge 'load'", "up-down counter 'waiting'",
    ]  # fmt: skip
    assert "of_period" in result[0]
    assert "running total" in result[4]


ROOT = Path(__file__).parents[2]
OF_AN_APP = """
import pytest


def test_a_start_sends_the_page(rappor):
    assert rappor.client.record("homepage", "https://example.org/")
    rappor.assert_sent("homepage", "https://example.org/")


def test_another_value_is_named(rappor):
    rappor.client.record("homepage", "a")
    with pytest.raises(AssertionError, match="'homepage': recorded .'a',., not .'b',."):
        rappor.assert_sent("homepage", "b")


def test_without_a_call_nothing_leaves(rappor):
    rappor.assert_nothing_sent()
    with pytest.raises(AssertionError, match=r"'theme': recorded \\(\\)"):
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
        with pytest.raises(AssertionError, match="reports were sent"):
            app.assert_nothing_sent()
