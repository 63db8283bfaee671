"""The soak of tests/collector/soak.py in a short form; RAPPOR_SOAK_MINUTES=30 runs the long one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MINUTES = os.environ.get("RAPPOR_SOAK_MINUTES", "2")


@pytest.mark.long
def test_a_soak_with_restarts_and_kills_loses_nothing() -> None:
    """2 minutes here, with two restarts of the database and two kills of the collector."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.collector.soak", "--minutes", MINUTES],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=180 + 60 * float(MINUTES),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "database restarted (2 of 2)" in done.stdout
    assert "collector killed (2 of 2)" in done.stdout
