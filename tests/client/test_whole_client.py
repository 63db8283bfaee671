"""Whole clients under controlled randomness, the rounds with all their draws, and planted faults.

`tests.client.whole` and `tests.client.exact_checks` look into the SDK: at its randomness, clock,
threads and state. Each planted fault must be seen by the check, or make the test fail, that is
named with it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.privacy_audit.fault_support import ROOT, copy_client, plant
from tests.privacy_audit.faults import CLIENT, FAULTS, INSIDE, METRICS, Fault

ALPHA, SMALL_ALPHA = 0.01, 1e-7
BATTERIES = {fault.name: fault for fault in FAULTS if fault.part in INSIDE}
TESTED = {fault.name: fault for fault in FAULTS if fault.part == CLIENT}
RUN = ("client/battery_run.py", "client/e*.py", "client/whole/*.py")  # what a battery needs
FOLDERS = ("tests", "docs", "examples")
FAILED = 1  # the exit code of pytest after a failed test; others are of errors


def run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a module of Python in a tree."""
    environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=tree, env=environment, capture_output=True, text=True,
        timeout=1_500, check=False,
    )  # fmt: skip


def broken_claims(
    tree: Path, battery: str, metrics: str, installations: int, alpha: float
) -> list[str]:
    """What a battery finds in the client of a tree."""
    for name in RUN:
        for path in sorted((ROOT / "tests").glob(name)):
            (to := tree / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
    file = tree / "metrics.toml"
    file.write_text(metrics, encoding="utf-8")
    words = [str(file), str(installations), battery, str(alpha)]
    done = run(tree, "tests.client.battery_run", *words)
    assert done.returncode == 0, done.stderr[-3_000:]
    return list(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.long
@pytest.mark.parametrize("battery", INSIDE)
def test_an_honest_client_passes(tmp_path: Path, battery: str) -> None:
    copy_client(tmp_path)
    assert broken_claims(tmp_path, battery, METRICS, 2, SMALL_ALPHA) == []


@pytest.mark.long
@pytest.mark.parametrize("fault", BATTERIES.values(), ids=BATTERIES)
def test_every_fault_is_found(tmp_path: Path, fault: Fault) -> None:
    plant(fault, tmp_path)
    broken = broken_claims(tmp_path, fault.part, fault.metrics, fault.installations, ALPHA)
    assert any(fault.seen_by in claim for claim in broken), broken


@pytest.mark.long
@pytest.mark.parametrize("fault", TESTED.values(), ids=TESTED)
def test_a_test_of_the_client_fails_with_the_fault(tmp_path: Path, fault: Fault) -> None:
    plant(fault, tmp_path)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name, copy_function=os.symlink)
    for name in ("pyproject.toml", "rappor_telemetry_pytest.py"):
        shutil.copy(ROOT / name, tmp_path)
    done = run(tmp_path, "pytest", "-q", "-x", "-p", "no:cacheprovider", fault.seen_by)
    assert done.returncode == FAILED, done.stdout[-2_000:]
