"""Lives of flows under audit: honest devices keep their promises, and planted faults are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from client_sdk.location.flow_visits import FlowVisits
from privacy_audit.black_box import answers, flow_turns
from privacy_audit.black_box.attacks import attack
from privacy_audit.black_box.checks import Check
from privacy_audit.black_box.flow_scenarios import flow_scenarios, left_out_of_flows
from privacy_audit.black_box.flow_turns import flow_checks
from privacy_audit.black_box.lives import Life
from privacy_audit.black_box.scenarios import left_out, scenarios, why_not
from privacy_audit.black_box.sdk_client import SdkClient
from privacy_audit.black_box.trials import ClientSource, run_chunk
from privacy_audit.promises import promise_of
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.flow_kind import FlowSymbol
from rappor_core.metrics.metrics_file import MetricsFile
from tests.flow_support import LAGGED, YEARLY, flow_text

KINDS = {"once": {"spread": "3"}, "window": YEARLY, "moved": {**LAGGED, "spread": "2"}}
NEVER = 1e-6  # how often an honest device may fail a check


def declared(which: str, **more: str) -> MetricsFile:
    return parse_metrics(flow_text(**{**KINDS[which], **more}))


def checked(which: str) -> Iterator[Check]:
    """Checks one by one: what finds a fault is not followed by the others."""
    file = declared(which)
    return flow_checks(ClientSource(compiled_text(file)), file.metrics["commute"])


def is_found(words: str, which: str) -> bool:
    """Whether a check of that name is broken."""
    return any(words in check.what and check.broken(NEVER) for check in checked(which))


@pytest.mark.parametrize("which", KINDS)
def test_each_life_is_one_answer(which: str) -> None:
    file = declared(which)
    metric = file.metrics["commute"]
    found = list(scenarios(metric, upkeep=True))
    assert [one.name for one in found] == [
        "two places, 1 report", "a place, or no fix, 1 report",
        "data in one half of the periods or the other, 1 report",
    ]  # fmt: skip
    for one in found:
        assert one.claim == metric.epsilon_one
        for steps in one.worlds:
            lives = [Life(bytes([seed]) * 32, steps) for seed in range(8)]
            assert [len(seen) for seen in SdkClient(file).record("commute", lives)] == [1] * 8


@pytest.mark.long
@pytest.mark.parametrize("which", KINDS)
def test_silence_tells_the_claim_and_no_more(which: str) -> None:
    file = declared(which)
    _, silence, *_ = flow_scenarios(file.metrics["commute"])
    trials = run_chunk(ClientSource(compiled_text(file)), silence, 1_500)
    assert trials.wrong == 0
    found = attack(trials.features, trials.world, silence.claim, NEVER, 0.5)
    assert found.p_value > NEVER
    assert found.reached > 0.5 * silence.claim


@pytest.mark.parametrize(
    "which", ["once", *(pytest.param(one, marks=pytest.mark.long) for one in ("window", "moved"))]
)
def test_an_honest_device_passes_every_check(which: str) -> None:
    checks = list(checked(which))
    assert len(checks) == {"once": 4, "window": 5, "moved": 3}[which]
    assert [check.what for check in checks if check.broken(NEVER)] == []
    for check in checks:
        assert promise_of(check)


@pytest.mark.parametrize("which", KINDS)
def test_answers_are_those_that_the_declaration_asks_for(which: str) -> None:
    file = declared(which)
    source = ClientSource(compiled_text(file))
    lived = answers.live(source, "commute", 60, clear=True, upkeep=True)
    assert lived.total >= 60
    assert (lived.another, lived.extra) == (0, 0)


def test_month_periods_are_tried_long_ones_named() -> None:
    monthly = declared("once", period='"month"', spread="12").metrics["commute"]
    assert len(list(flow_scenarios(monthly))) == 3
    long = declared("once", spread="41").metrics["commute"]
    assert list(flow_scenarios(long)) == []
    assert "up to 41 periods" in left_out_of_flows(long)
    assert list(left_out(long, upkeep=True)) == [left_out_of_flows(long)]
    assert why_not(monthly, upkeep=False) == "the protocol of --command has no places"


# Faults, planted one at a time.

_report = FlowVisits._report


def _silent(self: FlowVisits, period: int) -> None:
    """No answer where nothing is known."""
    if self._dwell.rows() or self._known:
        _report(self, period)


def _of_the_place(self: FlowVisits, period: int) -> None:
    """Who lives in the first cell answers a day early."""
    send = self._send
    self._send = lambda name, value, day: send(name, value, day - value.startswith("1-0-0"))
    _report(self, period)
    self._send = send


def _swapped(self: FlowVisits, period: int) -> None:
    """Destination first."""
    send = self._send
    self._send = lambda name, value, day: send(name, ">".join(value.split(">")[::-1]), day)
    _report(self, period)
    self._send = send


def _first_one(self: FlowVisits, *_: object) -> None:
    """The first period of each block, for all devices."""
    self._every = self._flow.window or self._flow.spread
    self._turn = lambda _: 0


def _kept(self: FlowVisits, period: int) -> None:
    """First cells stay in the state."""


FAULTS: dict[str, tuple[str, str, Callable[..., None], str]] = {
    "silence for no data": ("once", "_report", _silent, "when a device answers"),
    "a period of the place": ("once", "_report", _of_the_place, "when a device answers"),
    "one turn for all": ("window", "_draw", _first_one, "the period of an answer is uniform"),
    "sides in another order": ("once", "_report", _swapped, "its two places in order"),
    "a cell that stays": ("moved", "_forget_known", _kept, "a state keeps nothing"),
}


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a fault that is planted for one test.

    60 devices show each: all of them answer otherwise, where an honest one never does.
    """
    monkeypatch.setattr(flow_turns, "DEVICES", 60)
    _, method, wrong, _ = FAULTS[request.param]
    monkeypatch.setattr(FlowVisits, method, wrong)
    name: str = request.param
    return name


def test_a_planted_fault_is_found(fault: str) -> None:
    which, _, _, words = FAULTS[fault]
    assert is_found(words, which)


def test_a_ledger_that_tells_the_symbol_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlowSymbol, "one_entry", False)
    monkeypatch.setattr(FlowSymbol, "max_permanent_responses", lambda *_: 8)
    assert is_found("a state keeps nothing", "once")


def test_a_swapped_move_gives_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlowVisits, "_report", _swapped)
    source = ClientSource(compiled_text(declared("moved")))
    assert answers.live(source, "commute", 60, clear=True, upkeep=True).another > 5
