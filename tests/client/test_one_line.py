"""One client for a process: `one_line.init`, then `record`."""

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from client_sdk import one_line, parse_metrics
from client_sdk.testing import MemoryCollector
from rappor_core.errors import ParameterError
from tests.client.conftest import METRICS


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
    with pytest.raises(ParameterError, match="is no name of a folder"):
        telemetry.folder_of(app)
