"""Modules of Unix alone are imported where they are used, so that the rest runs on Windows."""

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ["rappor_server", "collector", "decoder", "decoder_service", "rappor_cli"]
PROGRAM = """
import builtins, pkgutil, sys
from importlib import import_module

OURS = (
    "rappor_", "client_sdk", "collector", "decoder", "metric_design",
    "disclosure", "privacy_audit",
)  # fmt: skip
real = builtins.__import__

def without(name, given=None, local=None, wanted=(), *more):
    ours = (given or {}).get("__name__", "").startswith(OURS)
    if ours and (name in ("fcntl", "resource") or "ForkServerContext" in (wanted or ())):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return real(name, given, local, wanted, *more)

builtins.__import__ = without
for package in sys.argv[1:]:
    for found in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
        if "migrations" not in found.name and not found.name.endswith("__main__"):
            import_module(found.name)
"""
SENTENCE = """
from decoder_service.shell.errors import UnavailableError
from decoder_service.worker.process_limits import Reader
from decoder_service.shell.server import _prepare_to_serve, work
from decoder_service.shell.settings import load_settings

settings = load_settings(database="sqlite:///d.sqlite", job_slots=2)
large = b" " * (1 << 20)
for call in (lambda: work(settings), lambda: _prepare_to_serve(settings),
             lambda: Reader().read(len, large)):
    try:
        call()
    except UnavailableError as error:
        print(error)
"""


@pytest.mark.long
def test_all_but_jobs_runs_without_them(tmp_path: Path) -> None:
    """What needs them says so in a sentence, with the remedy."""
    words = [sys.executable, "-c", PROGRAM + SENTENCE, *PACKAGES]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout.splitlines()
    assert [one.partition(", ")[0].partition(":")[0] for one in said] == [
        "no worker starts here",
        "job_slots = 2",
        "a file of more than 256 KiB is not read here",
    ]
    assert all("use Linux or macOS, or on Windows WSL or a container" in one for one in said)
