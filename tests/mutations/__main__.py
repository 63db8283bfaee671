"""Break the code on purpose, one guarantee at a time, and see that a test fails for each.

    python -m tests.mutations            # all; first the same tests on the code as it is
    python -m tests.mutations --list
    python -m tests.mutations --only NAME [NAME ...]

The tree is copied to a temporary directory; nothing is changed in place. Exit code 1 if a mutation
survived, or if a test fails without any.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.catalogue import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "build", "dist", "site", "node_modules", "*.sqlite"
)
SECONDS = 600  # of the tests of one mutation
KILLED, NOT_KILLED, NO_TESTS = 1, 0, 5  # exit codes of pytest: a test failed, all passed, none ran


def main() -> int:
    """Run what is asked for; return the exit code."""
    chosen, options = _chosen()
    if options.list:
        for one in chosen:
            print(f"{one.name:32} {one.file}: {one.guarantee}")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as directory:
        tree = Path(directory) / "tree"
        shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
        for one in chosen:  # one that no longer fits the code ends all now, not in ten minutes
            one.applied((tree / one.file).read_text(encoding="utf-8"))
        if not options.no_baseline and not _baseline(tree, chosen):
            return 1
        survived = [one.name for one in chosen if not _is_killed(tree, one)]
    print(f"{len(chosen) - len(survived)} of {len(chosen)} killed", *survived, sep="\n  SURVIVED ")
    return int(bool(survived))


def _chosen() -> tuple[list[Mutation], argparse.Namespace]:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("--list", action="store_true", help="list the mutations and leave")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these alone")
    parser.add_argument(
        "--no-baseline", action="store_true", help="do not run the tests on unchanged code first"
    )
    options = parser.parse_args()
    unknown = set(options.only or ()) - {one.name for one in MUTATIONS}
    if unknown:
        parser.error(f"no such mutation: {', '.join(sorted(unknown))}")
    return [one for one in MUTATIONS if not options.only or one.name in options.only], options


def _baseline(tree: Path, chosen: Sequence[Mutation]) -> bool:
    """Whether the tests pass on the code as it is: otherwise they kill everything."""
    tests = sorted({test for one in chosen for test in one.tests})
    done = _pytest(tree, tests)
    passed = done.returncode in (NOT_KILLED, NO_TESTS)  # none: all of them are long
    if not passed:
        print(done.stdout[-4_000:])
        print("the tests fail without a mutation")
    return passed


def _is_killed(tree: Path, one: Mutation) -> bool:
    """Apply a mutation to the copy, run its tests, and take it back."""
    started, path = time.monotonic(), tree / one.file
    before = path.read_text(encoding="utf-8")
    path.write_text(one.applied(before), encoding="utf-8")
    try:
        done = _pytest(tree, one.tests, SECONDS)
        if _code(done) in (NOT_KILLED, NO_TESTS):
            done = _pytest(tree, one.tests, SECONDS, "long")
    except subprocess.TimeoutExpired:
        print(f"{'TIMED OUT':10} {one.name}", flush=True)
        return False
    finally:
        path.write_text(before, encoding="utf-8")
    known = {KILLED: "killed", NOT_KILLED: "SURVIVED", NO_TESTS: "SURVIVED"}
    verdict = known.get(_code(done), f"NOT RUN ({done.returncode})")
    print(f"{verdict:10} {one.name:32} {time.monotonic() - started:5.1f} s", flush=True)
    if _code(done) not in known:
        print(done.stdout[-2_000:])
    return _code(done) == KILLED


def _code(done: subprocess.CompletedProcess[str]) -> int:
    """The exit code; that a file of tests cannot be imported shows nothing."""
    return 2 if "ERROR collecting" in done.stdout else done.returncode


def _pytest(
    tree: Path, tests: Sequence[str], seconds: float | None = None, marks: str = "not long"
) -> subprocess.CompletedProcess[str]:
    """Run tests in the copy, which comes before what is installed, also in child processes."""
    few = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    own = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    quiet = ["-x", "-q", "-m", marks, "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *quiet]
    return subprocess.run(
        [*command, *tests],
        cwd=tree,
        env=os.environ | few | own,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
