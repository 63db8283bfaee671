"""A job from POST to its page passes the modules that docs/architecture.md lists, and no other."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from decoder_service.jobs.kinds import job_kinds
from tests.architecture.test_walk import section
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.support import STRINGS, running, submit, upload
from tests.decoder_service.test_pages import signed_in

JOB = "## From a job to its page"
# What every request passes, statements, and records without behaviour.
ASIDE = re.compile(r"decoder_service\.(shell|people)\b|decoder_service\.\w+\.(rows|claims)$")


@contextmanager
def noted(found: set[str], into: list[set[str]]) -> Iterator[None]:
    """Modules of the service whose functions are called meanwhile, in any thread."""
    into.append(found)
    try:
        yield
    finally:
        into.pop()


@pytest.mark.long
def test_a_job_passes_the_modules_of_its_walk(tmp_path: Path) -> None:
    assert job_kinds()  # loads their modules, which is no step of the walk
    found: set[str] = set()
    into: list[set[str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not into:
            return
        name = str(frame.f_globals.get("__name__", ""))
        made = "<" in frame.f_code.co_filename + frame.f_code.co_name  # by a dataclass, by import
        if name.startswith("decoder_service.") and not made:
            into[0].add(name)

    before = threading.getprofile()
    threading.setprofile(note)
    try:
        with (
            running(f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0) as served,
            served.client("ana") as ana,
            signed_in(served, "ana") as browser,
        ):
            source = {"aggregates": [upload(ana, STRINGS)]}
            with noted(found, into):
                job = submit(ana, {"kind": "decode", "source": source,
                                   "candidates": {"numbers": [0, 9]}})  # fmt: skip
                sys.setprofile(note)
                assert do_jobs(served.service, tmp_path) == 1
                sys.setprofile(None)
            result = ana.get(f"/v1/jobs/{job}").json()["result_id"]
            with noted(found, into):
                assert browser.get(f"/results/{result}").status_code == 200
    finally:
        sys.setprofile(None)
        threading.setprofile(before)
    passed = {name for name in found if not ASIDE.search(name)}
    walk = re.findall(r"^\d+\. `([\w.]+)`", section(JOB), re.MULTILINE)
    assert (sorted(passed - set(walk)), sorted(set(walk) - passed)) == ([], [])
    assert len(walk) <= 14
