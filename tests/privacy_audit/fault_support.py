"""A copy of the tree in which a fault is planted, audited by a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.privacy_audit.faults import Fault

ROOT = Path(__file__).parents[2]
CHECKS = ("privacy_audit/fault_run.py", "client/e*.py", "client/whole/*.py")
PACKAGES = ("client_sdk", "rappor_core", "privacy_audit")


def copy_client(tree: Path) -> None:
    """What an audit needs: links, so that what was compiled serves the copy."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, tree / name, copy_function=os.symlink)
    for name in CHECKS:
        for path in sorted((ROOT / "tests").glob(name)):
            (to := tree / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)


def text_with(fault: Fault, tree: Path = ROOT) -> str:
    """The file of the fault, which must stand in it once to be planted."""
    text = (tree / fault.file).read_text(encoding="utf-8")
    assert text.count(fault.old) == 1, (
        f"{fault.name}: {text.count(fault.old)} times in {fault.file}"
    )
    return text


def plant(fault: Fault, tree: Path) -> None:
    """Copy what an audit needs, with the fault in it."""
    copy_client(tree)
    text, path = text_with(fault, tree), tree / fault.file
    path.unlink()
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")


def broken_claims(
    tree: Path, metrics: str, trials: int, boxes: str, installations: int, alpha: float
) -> list[str]:
    """What the audit of that tree finds. boxes: parts of the audit, with commas between."""
    file = tree / "metrics.toml"
    file.write_text(metrics, encoding="utf-8")
    arguments = [str(file), str(trials), str(installations), boxes, str(alpha)]
    environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.privacy_audit.fault_run", *arguments],
        cwd=tree, env=environment, capture_output=True, text=True, timeout=1_500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    return list(json.loads(done.stdout.splitlines()[-1]))
