"""The fixtures of pytest for the tests of an app; loaded by pytest where both are installed.

    def test_the_start_page_is_reported(rappor):
        App(rappor.client).open("https://example.org/")
        rappor.assert_sent("homepage", "https://example.org/")

The metrics are `metrics.toml` in pytest's root, or what `rappor_metrics` of its settings names.
A separate module: pytest imports it at every start, also where a repository has a folder
`client_sdk`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rappor_core.own_packages import foreign_file

if TYPE_CHECKING:
    from client_sdk.testing import ObservedApp
    from rappor_core.metrics.metrics_file import MetricsFile


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `rappor_metrics` to pytest's settings."""
    parser.addini("rappor_metrics", "metrics.toml of the fixture `rappor`", default="metrics.toml")


@pytest.fixture
def rappor_metrics(pytestconfig: pytest.Config) -> MetricsFile:
    """The declared metrics; a test may give others by a fixture of this name."""
    if hidden_by := foreign_file("client_sdk"):
        pytest.fail(
            f"{hidden_by} hides the client_sdk of rappor-telemetry, which the fixture `rappor` "
            "needs: rename yours, or take its folder off the import path",
            pytrace=False,
        )
    from client_sdk import load_metrics  # where it is used: pytest starts without it

    return load_metrics(pytestconfig.rootpath / str(pytestconfig.getini("rappor_metrics")))


@pytest.fixture
def rappor(
    rappor_metrics: MetricsFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ObservedApp]:
    """A client with consent, its collector in memory, and assertions of what would be sent."""
    from client_sdk.testing import ObservedApp

    monkeypatch.delenv("DO_NOT_TRACK", raising=False)  # it wins over consent
    with ObservedApp(rappor_metrics, tmp_path / "rappor-state") as app:
        yield app
