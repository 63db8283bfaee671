"""Whole clients under controlled randomness, and the rounds with all their draws.

`tests.client.whole` and `tests.client.exact_checks` look into the SDK: at its randomness, clock,
threads and state. Each planted fault must be seen by the check that is named beside it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.privacy_audit.fault_support import broken_claims, copy_client, plant
from tests.privacy_audit.faults import FAULTS, INSIDE, METRICS

ALPHA, SMALL_ALPHA = 0.01, 1e-7
BY_NAME = {fault.name: fault for fault in FAULTS if fault.box in INSIDE}


@pytest.mark.slow
@pytest.mark.parametrize("box", INSIDE)
def test_an_honest_client_passes(tmp_path: Path, box: str) -> None:
    copy_client(tmp_path)
    assert broken_claims(tmp_path, METRICS, 0, box, 2, SMALL_ALPHA) == []


@pytest.mark.long
@pytest.mark.parametrize("name", BY_NAME)
def test_every_fault_is_found(tmp_path: Path, name: str) -> None:
    fault = BY_NAME[name]
    plant(fault, tmp_path)
    broken = broken_claims(tmp_path, fault.metrics, 0, fault.box, fault.installations, ALPHA)
    assert any(fault.seen_by in claim for claim in broken), broken
