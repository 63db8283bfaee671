"""HTML in a real browser: the report loads nothing and fits the window; a map says its date."""

import re
import shutil
import subprocess
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from decoder import DecodeOptions, write_outputs
from decoder.density.cells import places_of
from decoder.density.maps import DensityOptions, estimate_density
from decoder.output.density_html import render_page
from rappor_core.metrics.file import parse_metrics
from simulations.experiments import paper
from simulations.populations.draws import draw_aggregate

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1000,1600",
]
PROBE = """
<script>addEventListener("load", () => {
  const chart = document.querySelector(".forest").getBoundingClientRect();
  document.title = "wide=" + document.documentElement.scrollWidth +
    " chart=" + Math.round(chart.width) + "x" + Math.round(chart.height) +
    " loaded=" + performance.getEntriesByType("resource").length;
});</script>
"""


def browse(profile: Path, *options: str) -> str:
    command = [BROWSER, *QUIET, f"--user-data-dir={profile}", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.mark.slow
def test_the_report_is_shown_by_a_browser(tmp_path: Path) -> None:
    if not BROWSER:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    options = DecodeOptions(correction="bonferroni")
    experiment = paper.exponential(1_000_000, np.random.default_rng(1), options)
    write_outputs(experiment.decoding, tmp_path)
    report = tmp_path / "report.html"
    probed = tmp_path / "probed.html"
    probed.write_text(report.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>"))
    page = browse(tmp_path / "profile", "--dump-dom", f"file://{probed}")
    found = re.search(r"<title>wide=(\d+) chart=(\d+)x(\d+) loaded=(\d+)</title>", page)
    assert found, page[:500]
    wide, chart_width, chart_height, loaded = map(int, found.groups())
    assert wide <= 1000
    assert chart_width > 400
    assert chart_height > 200
    assert loaded == 0
    picture = tmp_path / "report.png"
    browse(tmp_path / "profile", f"--screenshot={picture}", f"file://{report}")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000


DECLARED = """
[metrics.places]
kind = "location"
description = "The usual place of a week"
owner = "maps@example.org"
expires = 2099-12-31
grid = "square"
box = [0, 0, 4, 4]
rows = 4
columns = 4
levels = [0]
period = "week"
mode = "memo"
encoding = "symbol"
num_symbols = 2
num_cohorts = 8
epsilon_infinity = 2.0
epsilon_one = 1.8
"""


@pytest.mark.slow
def test_a_map_of_one_window_says_which(tmp_path: Path) -> None:
    """There is nothing to slide then, but a map without its date is of no use."""
    if not BROWSER:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    metric = parse_metrics(DECLARED).metrics["places/day/0"]
    assert metric.location is not None
    values, rng = places_of([metric.location]).finest, np.random.default_rng(1)
    shares = np.full(len(values), 1 / len(values))
    drawn, _ = draw_aggregate(list(values), shares, 8_000, metric.params, rng, metric.name)
    days = [date(2026, 11, day) for day in (8, 15)]
    maps = [
        estimate_density([replace(drawn, definition=metric.to_dict(), params_id=metric.params_id,
                         first_day=day, last_day=day)], DensityOptions("simplex"))
        for day in days
    ]  # fmt: skip
    for number, hidden in ((1, True), (2, False)):
        page = tmp_path / f"{number}.html"
        page.write_text(render_page(maps[:number], [], []), encoding="utf-8")
        shown = browse(tmp_path / f"profile{number}", "--dump-dom", f"file://{page}")
        assert f'<output id="window" for="time">week to {days[number - 1]}</output>' in shown
        slider = re.search(r'<input id="time"[^>]*>', shown)
        assert slider
        assert ("hidden" in slider[0]) is hidden
