"""Every planted fault is found. An honest client fails the quick form with probability .01."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.privacy_audit.fault_support import broken_claims, plant
from tests.privacy_audit.faults import FAULTS, Fault

TRIALS = 10_000


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault, tmp_path: Path) -> None:
    plant(fault, tmp_path)
    broken = broken_claims(tmp_path, fault, TRIALS)
    assert any(fault.seen_by in claim for claim in broken), broken


def test_names_are_unique_and_many() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 20
