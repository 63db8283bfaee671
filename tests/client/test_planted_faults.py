"""Faults planted in the client that one of its own tests must see; the others are the audit's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.privacy_audit.fault_support import ROOT, plant
from tests.privacy_audit.faults import CLIENT, FAULTS, Fault

TESTED = {fault.name: fault for fault in FAULTS if fault.part == CLIENT}
FAILED = 1  # the exit code of pytest after a failed test; others are of errors


@pytest.mark.long
@pytest.mark.parametrize("fault", TESTED.values(), ids=TESTED)
def test_a_test_of_the_client_fails_with_the_fault(tmp_path: Path, fault: Fault) -> None:
    plant(fault, tmp_path)
    for name in ("tests", "docs", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, copy_function=os.symlink)
    for name in ("pyproject.toml", "rappor_telemetry_pytest.py"):
        shutil.copy(ROOT / name, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", fault.seen_by],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == FAILED, done.stdout[-2_000:]
