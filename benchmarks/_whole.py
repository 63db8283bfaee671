"""Everything that a release needs, one after another on a machine that does nothing else.

    make whole                                   # what has not passed yet in this state of the code
    python benchmarks/_whole.py test bench       # these steps
    python benchmarks/_whole.py --list           # what has passed, with times

A step that fails does not stop those after it; all that it printed is in build/whole/STEP.log.
The last run of each step stands in docs/evaluation/steps.jsonl, to be committed with the figures,
with a digest of all committed files but those with figures (`FIGURES`). So a run that was cut off,
or that only wrote figures, goes on where it was, on another machine, too, and what stands there of
other code is dropped. Exit code 1 where a step failed. Uncommitted changes are refused: nobody
could say what was tested.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "whole"
RECORDS = ROOT / "docs" / "evaluation" / "steps.jsonl"
PYTHON = str(ROOT / ".venv" / "bin" / "python")
RAPPOR = str(ROOT / ".venv" / "bin" / "rappor")
SOAK_MINUTES = "60"
JS_CLIENT = "client_js/bin/rappor-client-vectors.mjs"
SOAK_SERVICE = (  # the seconds are those of kills on each of two databases
    "env", "RAPPOR_TEST_KILL_SECONDS=1700", PYTHON, "-m", "pytest", "-qs",
    "-o", "faulthandler_timeout=3600", "tests/decoder_service/test_worker_deaths.py",
)  # fmt: skip
STEPS: Mapping[str, Sequence[str]] = {
    "test": ("make", "test"),
    "docs": ("make", "docs"),
    "release": ("make", "release"),
    "simulate": ("make", "simulate"),
    "audit": (RAPPOR, "audit"),
    "audit-typescript": (RAPPOR, "audit", "--command", f"node {JS_CLIENT}"),
    "bench": ("make", "bench"),
    "growth": (PYTHON, "benchmarks/_growth.py", "--page", "docs/growth.md"),
    "soak-collector": (PYTHON, "benchmarks/_soak.py", "--minutes", SOAK_MINUTES),
    "soak-service": SOAK_SERVICE,
    "mutations": (PYTHON, "-m", "tests.mutations"),
    "test-long": ("make", "test-long"),
    "versions": ("make", "versions"),
}
FIGURES = (  # written by the steps, or about what they found; the last two name steps alone
    "docs/benchmarks.", "docs/growth.md", "docs/assets/growth.svg", "docs/evaluation/",
    ".ci/", "benchmarks/_whole.py",
)  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Run what is asked for; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--list", action="store_true", help="what has passed, and leave")
    given = parser.parse_args(words)
    if unknown := set(given.steps) - set(STEPS):
        parser.error(f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    if not given.list and (changed := changes()):
        parser.error(f"commit first, or undo: {', '.join(changed[:5])}")
    code = digest()
    done = records(code)
    left = [name for name in STEPS if name not in done or done[name]["exit"]]
    failed = False
    for name in [] if given.list else given.steps or left:
        done[name] = step(name, STEPS[name], code)
        failed |= bool(done[name]["exit"])
    for name in STEPS:
        print(line(name, done.get(name)))
    return int(failed)


def changes() -> list[str]:
    """Tracked files that differ from the commit, but those that the steps themselves write."""
    told = _git("status", "--porcelain", "--untracked-files=no").splitlines()
    paths = [row[3:] for row in told]
    return [path for path in paths if not path.startswith(FIGURES)]


def digest() -> str:
    """Of all committed files but those with figures."""
    rows = _git("ls-tree", "-r", "HEAD").splitlines()
    kept = [row for row in rows if not row.partition("\t")[2].startswith(FIGURES)]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:12]


def step(name: str, command: Sequence[str], code: str) -> dict[str, Any]:
    """Run one; its record, which is also kept."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    began, start = datetime.now(UTC), time.monotonic()
    print(f"{began:%H:%M:%S} {name}: {' '.join(command)}", flush=True)
    with (FOLDER / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    record = {
        "step": name,
        "code": code,
        "began": f"{began:%Y-%m-%d %H:%M}",
        "exit": process.returncode,
        "seconds": round(time.monotonic() - start),
        "processor": round(used.ru_utime + used.ru_stime),
        "load": round(load, 1),
    }
    kept = {**records(code), name: record}.values()
    RECORDS.write_text("".join(json.dumps(one) + "\n" for one in kept), encoding="utf-8")
    print(line(name, record), flush=True)
    return record


def records(code: str) -> dict[str, dict[str, Any]]:
    """The last record of each step in this state of the code."""
    lines = RECORDS.read_text(encoding="utf-8").splitlines() if RECORDS.exists() else []
    return {one["step"]: one for one in map(json.loads, lines) if one["code"] == code}


def line(name: str, record: Mapping[str, Any] | None) -> str:
    """One step in words."""
    if record is None:
        return f"{name:18} not run in this state of the code"
    minutes, seconds = divmod(record["seconds"], 60)
    verdict = f"failed ({record['exit']})" if record["exit"] else "passed"
    used = f"{record['processor'] / 60:.1f} min of processor, load {record['load']} at its start"
    return f"{name:18} {verdict}, {minutes} min {seconds:02d} s, {used}, {record['began']}"


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
