"""A copy of the tree in which a fault is planted, and the audit of the program in it."""

import os
import shutil
import sys
from pathlib import Path

from privacy_audit.audit import AuditOptions, audit
from privacy_audit.black_box.program_client import OWN_MODULE
from rappor_core.metrics.file import parse_metrics
from tests.privacy_audit.faults import Fault

ROOT = Path(__file__).parents[2]
PACKAGES = ("client_sdk", "rappor_core", "privacy_audit")


def copy_client(tree: Path) -> str:
    """Link what a program with the SDK needs, so that what was compiled serves the copy; return
    the command that runs it."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, tree / name, copy_function=os.symlink)
    return f"env -C {tree} {sys.executable} -m {OWN_MODULE}"


def text_with(fault: Fault, tree: Path = ROOT) -> str:
    """The file of the fault, which must hold the text once for the fault to be planted."""
    text = (tree / fault.file).read_text(encoding="utf-8")
    assert text.count(fault.old) == 1, (
        f"{fault.name}: {text.count(fault.old)} times in {fault.file}"
    )
    return text


def plant(fault: Fault, tree: Path) -> str:
    """Copy the client with the fault in it; return the command that runs it."""
    command = copy_client(tree)
    text, path = text_with(fault, tree), tree / fault.file
    path.unlink()
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    return command


def broken_claims(
    command: str, metrics: str, trials: int, parts: tuple[str, ...], alpha: float, apps: int = 0
) -> list[str]:
    """What an audit of the program, as a client and as an app, finds."""
    options = AuditOptions(trials=trials, processes=1, parts=parts, alpha=alpha, apps=apps)
    result = audit(parse_metrics(metrics), options, command=command, app=command)
    for check in result.checks:  # what pytest shows of a fault that was not found
        print(check.what, check.p_value, check.found)
    return [f"{check.part}: {check.what}: {check.found}" for check in result.broken]
