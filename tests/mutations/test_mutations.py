"""Break the code on purpose, one guarantee at a time, and see that a test fails for each.

The tree is copied to a temporary directory; nothing is changed in place. One mutation alone:
`python -m pytest -m long tests/mutations -k NAME`.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
IGNORED = shutil.ignore_patterns(
    ".*", "__pycache__", "build", "dist", "site", "node_modules", "*.sqlite"
)
MAX_SECONDS = 600  # for the tests of one mutation
PASSED, FAILED = 0, 1  # exit codes of pytest


class Mutation(NamedTuple):
    """One guarantee, broken, and the test that must fail. old: exact, once in the file."""

    name: str
    guarantee: str
    file: str
    test: str
    old: str
    new: str


MUTATIONS = [
    Mutation(**row)
    for row in tomllib.loads((Path(__file__).parent / "mutations.toml").read_text())["mutations"]
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code and its tests."""
    copy = tmp_path_factory.mktemp("mutations") / "tree"
    shutil.copytree(ROOT, copy, ignore=IGNORED)
    return copy


def run_tests(tree: Path, tests: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """Run tests in a copy, which comes before what is installed, also in child processes."""
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-q", "-m", "not long", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )


@pytest.mark.long
def test_the_tests_pass_without_a_mutation(tree: Path) -> None:
    done = run_tests(tree, sorted({mutation.test for mutation in MUTATIONS}))
    assert done.returncode == PASSED, done.stdout[-4_000:]


@pytest.mark.long
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_noticed(mutation: Mutation, tree: Path) -> None:
    path = tree / mutation.file
    before = path.read_text(encoding="utf-8")
    assert before.count(mutation.old) == 1
    path.write_text(before.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        done = run_tests(tree, [mutation.test])
    finally:
        path.write_text(before, encoding="utf-8")
    assert "ERROR collecting" not in done.stdout, done.stdout[-4_000:]
    assert done.returncode == FAILED, f"no test noticed: {mutation.guarantee}"
