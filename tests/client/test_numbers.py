"""Metrics of numbers on the device: periods, counters, refusals, kills, clocks, withdrawal."""

import json
import math
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, Delivery, MemoryState, Recorder
from client_sdk.numbers import NumberRecorder
from client_sdk.randomization.key_derivation import derive, jitter_of
from client_sdk.storage.directory import STATE_FILE
from client_sdk.storage.interface import NUMBERS
from client_sdk.testing import MemoryCollector
from rappor_core.errors import ValueRefusedError
from rappor_core.metrics.file import parse_metrics
from tests.client.lock_support import until_nothing_is_held
from tests.metric_texts import declaration

DAY = 86_400.0
NOWHERE = "http://127.0.0.1:9"
START = 20_500 * DAY + 3_600  # a Sunday
MEMO = 'mode = "memo"\nepsilon_infinity = 15.0\nepsilon_one = 8.0'  # answers are rarely lies

WEB = f'{MEMO}\nmax_reports = 4\nplatforms = ["web"]\nlives = 2'


def table(name: str, of: str, edges: str = "[1, 2, 4]", none: str = "zero", more: str = "") -> str:
    keys = {"unit": "things", "of_period": of, "none": none}
    return f"{declaration(name, 'number', **keys)}edges = {edges}\n{more or MEMO}\n"


TEXT = table("crashes", "sum") + table("startup", "median", "[100, 400]", "apart")


class Device:
    """Over a state in memory; answers are read off the encoder, before any noise."""

    def __init__(self, text: str, secret: bytes = bytes(32)) -> None:
        self.metrics = parse_metrics(text).metrics
        self.state = MemoryState(secret)
        self.recorder = Recorder(self.metrics, self.state)
        self.numbers = NumberRecorder(self.metrics, self.state, self.recorder)
        self.sent: list[tuple[str, int, int]] = []
        inner = self.recorder.record_bits

        def noted(name: str, bits: int, day: int) -> Any:
            outcome = inner(name, bits, day)
            if outcome == "queued":
                self.sent.append((name, bits.bit_length() - 1, day))
            return outcome

        self.recorder.record_bits = noted  # type: ignore[method-assign]

    def answer(self, name: str, number: float | None) -> int:
        """The symbol that represents a number on this device."""
        return self.recorder.device(name).value_bits(number).bit_length() - 1


def secrets(number: int) -> Iterator[bytes]:
    rng = random.Random(3)
    return (rng.randbytes(32) for _ in range(number))


def test_a_life_of_distinct_numbers_charges_two_answers() -> None:
    for secret in secrets(5):
        device = Device(table("m", "last", "[50, 100]", "apart"), secret)
        for day in range(180):
            device.numbers.record("m", day + 0.5, START + day * DAY)
        device.numbers.roll(START + 180 * DAY)
        assert len(device.sent) == 180
        assert len(device.state.entries("m")) == 2
        assert not [name for name in device.state.counters() if "closed" in name]


ONCE = 'mode = "once"\nepsilon = 4.0\nspread = 5'


def test_a_period_that_is_not_due_keeps_nothing() -> None:
    for secret in secrets(10):
        device = Device(table("m", "last", "[1, 2]", "apart", ONCE), secret)
        device.numbers.record("m", 2.5, START)
        phase = int.from_bytes(derive(secret, b"phase", b"m", length=8), "big") * 5 >> 64
        due = phase == 20_500 % 5
        saved = json.loads(str(device.state.note(NUMBERS + "m")))
        assert bool(saved["kept"]) == due


@pytest.mark.parametrize(("bound", "reports"), [({"budget": 1.0}, 0), ({"level": "strict"}, 1)])
def test_the_one_answer_waits_for_budget(bound: dict[str, Any], reports: int) -> None:
    """The ledger asked for a fallback that the metric has not, and the recorder raised."""
    metrics = parse_metrics(table("m", "last", "[1, 2, 3, 4]", "apart", ONCE)).metrics
    state = MemoryState(bytes(32))
    numbers = NumberRecorder(metrics, state, Recorder(metrics, state, **bound))
    for day in range(8):
        numbers.record("m", 2.5, START + day * DAY)
    assert len(state.take_reports()) == reports
    assert state.counters().get("closed:m:nothing_left", 0) == 1 - reports


def test_a_median_keeps_counts_and_no_number() -> None:
    device = Device(TEXT)
    for number in (123.0, 456.0, 457.0):
        device.numbers.record("startup", number, START)
    saved = json.loads(str(device.state.note(NUMBERS + "startup")))
    assert len(saved["kept"]) == 2
    assert all(kept <= 3 for kept in saved["kept"])


def test_what_a_changed_definition_means_is_started_anew() -> None:
    device = Device(TEXT)
    device.numbers.record("crashes", 4, START)
    text = TEXT.replace("[1, 2, 4]", "[1, 2, 5]")
    metrics = parse_metrics(text).metrics
    later = NumberRecorder(metrics, device.state, Recorder(metrics, device.state))
    later.record("crashes", 0, START)
    saved = json.loads(str(device.state.note(NUMBERS + "crashes")))
    assert saved["kept"] == [0.0]


def test_a_damaged_note_is_counted_and_begun_anew() -> None:
    device = Device(TEXT)
    device.state.put_note(NUMBERS + "crashes", "[1]")
    device.numbers.record("crashes", 2, START)
    device.numbers.roll(START + DAY)
    assert device.state.counters()["numbers_damaged:crashes"] > 0
    assert device.sent[0] == ("crashes", device.answer("crashes", 2.0), 20_500)


def test_sums_stay_finite_and_other_metrics_are_refused() -> None:
    device = Device(TEXT)
    for _ in range(3):
        device.numbers.record("crashes", 1.7e308, START)
    assert math.isfinite(json.loads(str(device.state.note(NUMBERS + "crashes")))["kept"][0])
    with pytest.raises(ValueRefusedError, match="not a NoneType"):
        device.numbers.record("crashes", None, START)
    with pytest.raises(ValueRefusedError, match="is not a counter: its of_period is 'median'"):
        device.numbers.check_sum("startup")


def test_no_number_is_kept_for_browser_metrics(path: Path) -> None:
    text = table("crashes", "sum", more=WEB) + table("startup", "median", "[100, 400]", "apart")
    device = Device(text)
    assert device.numbers.record("crashes", 3, START) == "elsewhere"
    assert device.numbers.roll(START) is False
    assert device.numbers.roll(START + DAY) is True
    assert device.state.note(NUMBERS + "crashes") is None
    assert [name for name, _, _ in device.sent] == ["startup"]
    path.write_text(text)
    with opened(path, NOWHERE, [START]) as client:
        assert not client.add("crashes", 2)
        assert "declared for other platforms" in client.last_refusal


def test_a_bound_on_reports_ends_them_at_random() -> None:
    device = Device(table("crashes", "sum", more=f"{MEMO}\nmax_reports = 2"))
    for day in range(5):
        if day != 1:
            device.numbers.record("crashes", 3, START + day * DAY)
        device.numbers.roll(START + day * DAY)
    assert [day for _, _, day in device.sent] == [20_500, 20_501]


def test_the_jitter_is_uniform_constant_and_keyed() -> None:
    drawn = [jitter_of(secret, "m", "00" * 16) for secret in secrets(2_000)]
    assert all(0 <= u < 1 for u in drawn)
    assert drawn == [jitter_of(secret, "m", "00" * 16) for secret in secrets(2_000)]
    # Kolmogorov-Smirnov: 1.95 / sqrt(n) is exceeded once in 1,000
    gaps = [abs(u - i / 2_000) for i, u in enumerate(sorted(drawn))]
    assert max(gaps) < 1.95 / math.sqrt(2_000) + 1 / 2_000
    assert jitter_of(bytes(32), "m", "00" * 16) != jitter_of(bytes(32), "n", "00" * 16)
    assert jitter_of(bytes(32), "m", "00" * 16) != jitter_of(bytes(32), "m", "01" * 16)


def test_a_device_keeps_its_cut_over_periods() -> None:
    edges = '{ scale = "linear", from = 0, to = 240, bins = 4 }'
    text = table("minutes", "sum", edges, more=f'ask = "mean"\nnum_cohorts = 10\n{MEMO}')
    answers = set()
    for secret in secrets(60):
        device = Device(text, secret)
        for day in range(8):
            device.numbers.record("minutes", 90.0, START + day * DAY)
        own = {symbol for _, symbol, _ in device.sent}
        assert own == {device.answer("minutes", 90.0)}
        answers |= own
        rising = [device.answer("minutes", number) for number in (62.0, 75.0, 90.0, 105.0, 118.0)]
        assert rising == sorted(rising)  # one cut for all numbers
    assert answers == {0, 1}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "numbers.toml"
    file.write_text(TEXT)
    return file


def opened(path: Path, collector: str, now: list[float], **choices: Any) -> Client:
    folder = path.parent / "state"
    delivery = Delivery(mean_delay=0, first_pause=0.05)
    return Client.open(path, state_dir=folder, collector=collector, consent=True,
                       clock=lambda: now[0], delivery=delivery, **choices)  # fmt: skip


def test_a_client_counts_delivers_and_says_why_not(path: Path) -> None:
    metrics = parse_metrics(TEXT).metrics
    now = [START]
    with MemoryCollector(metrics) as collector, opened(path, collector.url, now) as client:
        assert client.record("startup", 812.0)
        assert client.add("crashes")
        assert client.add("crashes", 2)
        for value, said in (
            ("812", "takes an int or a float, not a str"),
            (math.nan, "not NaN"),
            (-1, "no negative numbers"),
        ):
            assert not client.record("startup", value)
            assert said in client.last_refusal
        assert not client.add("startup", 1)
        assert "is not a counter" in client.last_refusal
        assert not client.add("nothing", 1)
        assert client.inspect()["counters"]["mistake:ValueRefusedError"] == 4
        now[0] += DAY
        assert client.flush(20)
        assert collector.counted() == {"startup": 1, "crashes": 1}
        now[0] = 90_000 * DAY  # after `expires`
        assert not client.add("crashes")
        assert client.last_refusal.startswith("crashes expired on 2099-06-30")


def kept(path: Path) -> Any:
    """The notes of the state file, read as another program would."""
    with closing(sqlite3.connect(path.parent / "state" / STATE_FILE)) as database:
        rows = database.execute("SELECT name, text FROM notes").fetchall()
    return {name: json.loads(text) for name, text in rows}


def test_a_withdrawal_wipes_what_was_collected(path: Path) -> None:
    with opened(path, NOWHERE, [START]) as client:
        assert client.add("crashes", 77)
        client.set_consent(False)
        assert not client.add("crashes", 1)
    everything = b"".join(p.read_bytes() for p in (path.parent / "state").rglob("*") if p.is_file())
    assert b"numbers:" not in everything
    with opened(path, NOWHERE, [START]) as client:
        assert client.add("crashes", 1)
    assert kept(path)[NUMBERS + "crashes"]["kept"] == [1.0]


def test_two_processes_add_to_one_sum(path: Path) -> None:
    one, other = (opened(path, NOWHERE, [START]) for _ in range(2))
    with one, other:
        for client in (one, other) * 20:
            assert client.add("crashes") or "waits in memory" in client.last_refusal
        for client in (one, other):
            until_nothing_is_held(client)
    assert kept(path)[NUMBERS + "crashes"]["kept"] == [40.0]


@pytest.mark.parametrize("later", ["", table("crashes", "sum", more=WEB)], ids=["none", "web"])
def test_a_metric_no_longer_declared_leaves_no_trace(path: Path, later: str) -> None:
    with opened(path, NOWHERE, [START]) as client:
        assert client.add("crashes", 5)
    path.write_text(later + table("startup", "median", "[100, 400]", "apart"))
    opened(path, NOWHERE, [START]).close()
    assert kept(path).keys() <= {NUMBERS + "startup"}


def test_a_process_ahead_by_a_period_is_followed() -> None:
    device = Device(TEXT)
    device.numbers.record("crashes", 4, START)
    other = NumberRecorder(device.metrics, device.state, device.recorder)
    other.record("crashes", 1, START + DAY)  # closes the first day
    device.numbers.record("crashes", 1, START)  # its clock is behind: drops the second day's
    other.record("crashes", 2, START + DAY)
    other.roll(START + 2 * DAY)
    result = [(answer, day) for name, answer, day in device.sent if name == "crashes"]
    assert result == [
        (device.answer("crashes", 4.0), 20_500),
        (device.answer("crashes", 2.0), 20_501),
    ]
