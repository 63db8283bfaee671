"""The HTML report in a real browser: it loads nothing, shows its chart, and fits the window."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from decoder import DecodeOptions, write_outputs
from simulations import paper

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
  const chart = document.querySelector("svg, img").getBoundingClientRect();
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
def test_the_report_is_a_page_that_a_browser_shows(tmp_path: Path) -> None:
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
