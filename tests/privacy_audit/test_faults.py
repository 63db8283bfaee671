"""Every planted fault is found; a few of them, and an honest client, in the ordinary suite.

In the ordinary suite an honest client fails an audit once in ten million runs; in the long tests,
where only faults are audited, the rate is the usual one, once in 100.
"""

from pathlib import Path

import pytest

from privacy_audit.audit import PARTS
from tests.privacy_audit.fault_support import broken_claims, copy_client, plant, text_with
from tests.privacy_audit.faults import (
    APP_DEVICES,
    APP_FAULTS,
    CLIENT,
    FAULTS,
    METRICS,
    Fault,
)

TRIALS, ALPHA = 4_000, 0.01
FEW_TRIALS, SMALL_ALPHA = 2_000, 1e-7
QUICK = "noise-from-a-seed-of-sixteen-bits"  # every other is found by its part in the long tests
WHOLE = ("no-fresh-noise", "no-cap")
BY_NAME = {fault.name: fault for fault in FAULTS}
AUDITED = [name for name, fault in BY_NAME.items() if fault.part != CLIENT]


def check_found(fault: Fault, broken: list[str]) -> None:
    assert any(fault.seen_by in claim for claim in broken), broken


@pytest.mark.parametrize("fault", [*FAULTS, *APP_FAULTS[-2:]], ids=lambda fault: fault.name)
def test_a_fault_can_be_planted(fault: Fault) -> None:
    """Two faults were of text that had moved, and no test of the ordinary suite said so."""
    text_with(fault)


def test_a_small_audit_finds_the_fault(tmp_path: Path) -> None:
    fault = BY_NAME[QUICK]
    command = plant(fault, tmp_path)
    found = broken_claims(command, fault.metrics, FEW_TRIALS, (fault.part,), SMALL_ALPHA)
    check_found(fault, found)


@pytest.mark.long
def test_a_small_audit_passes_an_honest_client(tmp_path: Path) -> None:
    assert broken_claims(copy_client(tmp_path), METRICS, FEW_TRIALS, PARTS, SMALL_ALPHA) == []


@pytest.mark.long
@pytest.mark.parametrize("name", AUDITED)
def test_every_fault_is_found_by_its_part(name: str, tmp_path: Path) -> None:
    fault = BY_NAME[name]
    command = plant(fault, tmp_path)
    check_found(fault, broken_claims(command, fault.metrics, TRIALS, (fault.part,), ALPHA))


@pytest.mark.long
@pytest.mark.parametrize("name", WHOLE)
def test_a_fault_is_found_by_whole_audits(name: str, tmp_path: Path) -> None:
    fault = BY_NAME[name]
    command = plant(fault, tmp_path)
    check_found(fault, broken_claims(command, fault.metrics, TRIALS, PARTS, ALPHA))


@pytest.mark.long
@pytest.mark.parametrize("fault", APP_FAULTS, ids=[fault.name for fault in APP_FAULTS])
def test_an_app_shows_the_fault(fault: Fault, tmp_path: Path) -> None:
    """By its requests and files alone, in a program that is run as any other client's."""
    command = plant(fault, tmp_path)
    check_found(fault, broken_claims(command, fault.metrics, 0, ("app",), ALPHA, APP_DEVICES))


@pytest.mark.long
def test_an_app_with_an_honest_client_passes(tmp_path: Path) -> None:
    command = copy_client(tmp_path)
    assert broken_claims(command, METRICS, 0, ("app",), SMALL_ALPHA, 2) == []


def test_names_are_unique_and_many() -> None:
    assert len(BY_NAME) == len(FAULTS) >= 101
    assert {fault.part for fault in FAULTS} == {*PARTS, CLIENT} - {"app"}
