"""A browser, and files that the docs' examples speak of."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import draw_aggregate
from tests.end_to_end.browser import open_browser
from tests.number_draws import aggregate_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last commit in a folder that has nothing else."""
    if not (ROOT / ".git").exists():
        pytest.skip("no repository to clone")
    folder = tmp_path_factory.mktemp("clone") / "rappor-telemetry"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


@pytest.fixture
def doc_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metrics.toml that pages speak of, those of single pages, an aggregate, and candidates."""
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    monkeypatch.setenv("REPORT_KEY", "rk_report_" + "0" * 32)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    places = re.search(r"^```toml\n(.*?)^```", (ROOT / "docs/location.md").read_text(), re.M | re.S)
    assert places
    (tmp_path / "location.toml").write_text(places[1])
    kinds = re.search(r"^```toml\n(.*?)^```", (ROOT / "docs/metrics.md").read_text(), re.M | re.S)
    assert kinds
    usual = kinds[1].partition("[metrics.crashed]")[0].replace("budget = 40.0", "budget = 19.0")
    (tmp_path / "metrics.toml").write_text(usual)
    startup = parse_metrics(kinds[1]).metrics["startup"]
    falling = np.linspace(0.9, 0.0, len(startup.details.asked))
    counts = aggregate_of(startup, falling, 100_000, np.random.default_rng(1))
    (tmp_path / "startup.json").write_text(counts.to_json())
    params = parse_metrics(usual).metrics["homepage"].params
    pages = [f"https://example.org/{number}" for number in range(20)]
    shares = np.full(20, 1 / 20)
    aggregate, _ = draw_aggregate(
        pages, shares, 500_000, params, np.random.default_rng(1), "homepage"
    )
    (tmp_path / "homepage.json").write_text(aggregate.to_json())
    (tmp_path / "pages.txt").write_text("\n".join(pages) + "\n")
