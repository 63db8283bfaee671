"""Every planted fault is found. An honest client fails each of these audits once in 100 runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from privacy_audit.audit import BOXES
from tests.privacy_audit.fault_support import broken_claims, plant
from tests.privacy_audit.faults import FAULTS, Fault

TRIALS = 4_000
QUICK = (
    "never-clears-a-bit",
    "permanent-response-of-the-process",
    "permanent-response-redrawn",
    "last-digits-of-coins-lost",
    "seeded-randomness",
    "cap-off-by-one",
    "one-secret-for-all-installations",
)  # found in the ordinary suite: at least one of each part of the audit

pytestmark = pytest.mark.long  # minutes in all
WHOLE = ("no-fresh-noise", "no-cap", "batch-id-of-the-device")
BY_NAME = {fault.name: fault for fault in FAULTS}


def found(fault: Fault, tree: Path, boxes: str, installations: int) -> None:
    plant(fault, tree)
    broken = broken_claims(tree, fault, TRIALS, boxes, installations)
    assert any(fault.seen_by in claim for claim in broken), broken


@pytest.mark.parametrize("name", QUICK)
def test_a_fault_is_found_by_its_part_of_the_audit(name: str, tmp_path: Path) -> None:
    fault = BY_NAME[name]
    found(fault, tmp_path, fault.box, fault.installations)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in QUICK])
def test_each_other_fault_is_found_by_its_part(name: str, tmp_path: Path) -> None:
    fault = BY_NAME[name]
    found(fault, tmp_path, fault.box, fault.installations)


@pytest.mark.long
@pytest.mark.parametrize("name", WHOLE)
def test_a_fault_is_found_at_the_level_of_a_whole_audit(name: str, tmp_path: Path) -> None:
    found(BY_NAME[name], tmp_path, ",".join(BOXES), 30)


def test_names_are_unique_and_many() -> None:
    assert len(BY_NAME) == len(FAULTS) >= 30
    assert {BY_NAME[name].box for name in QUICK} == set(BOXES)
