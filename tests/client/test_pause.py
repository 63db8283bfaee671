"""Remote pause: with a real collector, straight and through a relay; and attacks on the list."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from client_sdk import Delivery, Relay
from client_sdk.pause import PausableClient, PausedMetrics
from ohttp.key_config import KeyConfig, encode_keys
from ohttp.pause_list import (
    CONTEXT,
    MOST_DAYS,
    PauseList,
    PauseListError,
    sign,
)
from ohttp.pause_wire import MOST_BYTES, SIGNATURE_BYTES
from rappor_core.errors import ParameterError
from rappor_core.metrics.file import MetricsFile
from tests.client.conftest import AT_ONCE
from tests.client.conftest import Clock as DeviceClock
from tests.collector.support import Clock, Server, running_server
from tests.relay_support import PassingRelay, new_keys

APP = "org.example.app"
PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
PEM = PRIVATE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
TODAY = datetime.fromtimestamp(DeviceClock()(), UTC).date()


def days(number: int) -> date:
    return TODAY + timedelta(days=number)


def listed(number: int = 1, expires: int = 30, app: str = APP, **paused: int) -> PauseList:
    return PauseList(app, number, days(expires), {name: days(n) for name, n in paused.items()})


def pauses(folder: Path, now: Callable[[], float] | None = None) -> PausedMetrics:
    made = PausedMetrics(PEM, app=APP, file=folder / "paused.list")
    made.clock = now or DeviceClock()
    return made


class World:
    """A collector that serves a list, with a relay before it or without."""

    def __init__(self, server: Server, folder: Path, metrics: MetricsFile, relay: Any) -> None:
        self.server, self.folder, self.metrics, self.relay = server, folder, metrics, relay
        self.list = folder / "served.list"

    def client(self, **changes: Any) -> PausableClient:
        made = PausedMetrics(PEM, app=APP, file=self.folder / "paused.list", relay=self.relay)
        given: dict[str, Any] = {
            "state_dir": self.folder / "state",
            "collector": str(self.server.http.base_url),
            "consent": True,
            "delivery": AT_ONCE,
            "clock": DeviceClock(),
            "pauses": made,
        }
        return PausableClient.open(self.metrics, **{**given, **changes})

    def serve(self, pauses: PauseList, private: Ed25519PrivateKey = PRIVATE) -> None:
        self.list.write_bytes(sign(private, pauses))

    def counted(self) -> int:
        text = self.server.http.get("/metrics").text
        (line,) = [one for one in text.splitlines() if one.startswith("rappor_reports_accepted_t")]
        return int(float(line.split()[1]))


@pytest.fixture(params=["relay"])
def world(request: Any, tmp_path: Path, metrics: MetricsFile) -> Iterator[World]:
    file, (config,) = new_keys(tmp_path)
    known = list(metrics.metrics.values())
    served = tmp_path / "served.list"
    served.write_bytes(sign(PRIVATE, listed()))  # a collector does not start without one
    settings: dict[str, Any] = {"ohttp_keys": file, "paused_list": served}
    database = f"sqlite:///{tmp_path}/collector.sqlite"
    with (
        running_server(known, Clock(), database=database, **settings) as server,
        PassingRelay(str(server.http.base_url)) as passing,
    ):
        served.unlink()
        relay = Relay(passing.url, encode_keys([config])) if request.param == "relay" else None
        yield World(server, tmp_path, metrics, relay)


@pytest.mark.parametrize("world", ["straight", "relay"], indirect=True)
def test_a_paused_metric_is_neither_recorded_nor_sent(world: World) -> None:
    """What waits when the list comes is deleted; the other metric goes on; so does a restart."""
    world.serve(listed(homepage=5))
    with world.client() as client:
        assert client.record("homepage", "a")
        assert client.record("theme", "dark")
        assert not client.flush(20)
        assert client.inspect()["counters"] == {"accepted:theme": 1, "dropped:paused": 1}
    assert world.counted() == 1
    with world.client() as client:
        assert not client.record("homepage", "b")
        assert "paused by the operator until" in client.last_refusal
        told = client.inspect()
        assert [(one["metric"], one["until"]) for one in told["paused"]] == [
            ("homepage", days(5).isoformat())
        ]
        assert told["counters"]["paused:homepage"] == 1
        assert client.record("crashed", True)
        assert client.flush(20), client.last_error
    assert world.counted() == 2


def test_without_a_list_everything_goes_on(world: World) -> None:
    with world.client() as client:
        assert client.record("homepage", "a")
        assert client.flush(20), client.last_error
        assert client.inspect()["paused"] == []
    assert world.counted() == 1


def test_a_forged_list_pauses_nothing(world: World) -> None:
    world.serve(listed(homepage=5), OTHER)
    with world.client() as client:
        assert client.record("homepage", "a")
        assert client.flush(20), client.last_error
    assert world.counted() == 1


def test_a_pause_ends_by_day_or_later_list(world: World) -> None:
    world.serve(listed(homepage=5, theme=5))
    now = DeviceClock()
    with world.client() as client:
        client.record("theme", "dark")
        client.flush(20)
        assert not client.record("homepage", "a")
    later = now() + 86_400
    world.serve(listed(number=2, theme=5))
    with world.client(clock=lambda: later) as client:
        assert client.record("crashed", True)
        client.flush(20)
        assert client.record("homepage", "a")
        assert not client.record("theme", "dark")
    after = now() + 6 * 86_400
    world.list.unlink()
    with world.client(clock=lambda: after) as client:
        assert client.record("theme", "dark")


def test_a_sending_device_asks_once_a_day(world: World) -> None:
    asked = []
    first = PausedMetrics.take
    world.serve(listed())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            PausedMetrics, "take", lambda self, data: asked.append(data) or first(self, data)
        )
        with world.client() as client:
            client.flush(5)
            assert asked == []
            for _ in range(3):
                client.record("homepage", "a")
                assert client.flush(20), client.last_error
    assert len(asked) == 1


ATTACKS: dict[str, Callable[[], bytes]] = {
    "wrong key": lambda: sign(OTHER, listed(2, homepage=5)),
    "other app": lambda: sign(PRIVATE, listed(2, app="org.example.other", homepage=5)),
    "expired": lambda: sign(PRIVATE, listed(2, expires=-1, homepage=5)),
    "ends too far ahead": lambda: sign(PRIVATE, listed(2, expires=MOST_DAYS + 1, homepage=5)),
    "older": lambda: sign(PRIVATE, listed(1, homepage=5)),
    "same number, other words": lambda: sign(PRIVATE, listed(1, theme=5)),
    "truncated": lambda: sign(PRIVATE, listed(2, homepage=5))[:-1],
    "no signature": lambda: listed(2, homepage=5).text(),
    "empty": lambda: b"",
    "huge": lambda: bytes(MOST_BYTES + 1),
    "huge and signed": lambda: signed(b"[" * MOST_BYTES),
    "nested": lambda: signed(b"[" * (MOST_BYTES - SIGNATURE_BYTES)),
    "another version": lambda: signed(listed(2).text().replace(b'"version":1', b'"version":2')),
    "a key more": lambda: signed(listed(2).text().replace(b'{"version"', b'{"p":1,"version"')),
    "a day that is none": lambda: signed(listed(2, a=5).text().replace(b'"a":"2', b'"a":"x')),
    "number true": lambda: signed(listed(2).text().replace(b'"number":2', b'"number":true')),
    "no UTF-8": lambda: signed(b"\xff\xfe"),
}  # fmt: skip


def signed(text: bytes) -> bytes:
    return PRIVATE.sign(CONTEXT + text) + text


def test_a_list_refused_by_a_full_disk_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    held = pauses(tmp_path)
    held.take(sign(PRIVATE, listed(1, crashed=5)))
    monkeypatch.setattr(Path, "write_bytes", half)
    held.take(sign(PRIVATE, listed(2, homepage=5)))
    assert held.until("homepage") == days(5)
    assert [file.name for file in tmp_path.iterdir()] == ["paused.list"]
    assert pauses(tmp_path).until("crashed") == days(5)  # the list before it is whole


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_older_or_foreign_list_changes_nothing(attack: str, tmp_path: Path) -> None:
    held = pauses(tmp_path)
    held.take(sign(PRIVATE, listed(1, crashed=5)))
    with pytest.raises(PauseListError):
        held.take(ATTACKS[attack]())
    assert held.until("homepage") is None
    assert held.until("crashed") == days(5)
    assert pauses(tmp_path).until("crashed") == days(5)


def test_a_signature_of_another_document_is_none(tmp_path: Path) -> None:
    text = listed(homepage=5).text()
    with pytest.raises(PauseListError, match="not signed"):
        pauses(tmp_path).take(PRIVATE.sign(text) + text)


def test_each_byte_of_a_list_is_signed(tmp_path: Path) -> None:
    data = sign(PRIVATE, listed(homepage=5))
    for place in range(len(data)):
        with pytest.raises(PauseListError):
            pauses(tmp_path).take(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


def test_the_same_list_again_is_no_error(tmp_path: Path) -> None:
    held, data = pauses(tmp_path), sign(PRIVATE, listed(homepage=5))
    held.take(data)
    held.take(data)
    assert held.until("homepage") == days(5)


def test_an_expired_list_still_forbids_older_ones(tmp_path: Path) -> None:
    clock = [DeviceClock()()]
    held = pauses(tmp_path, lambda: clock[0])
    held.take(sign(PRIVATE, listed(7, expires=10, homepage=30)))
    assert held.until("homepage") == days(10)
    clock[0] += 11 * 86_400
    assert held.until("homepage") is None
    again = pauses(tmp_path, lambda: clock[0])
    with pytest.raises(PauseListError, match="older list"):
        again.take(sign(PRIVATE, listed(6, expires=40, homepage=30)))


def test_a_clock_set_back_leaves_pauses_alone(tmp_path: Path) -> None:
    clock = [DeviceClock()()]
    held = pauses(tmp_path, lambda: clock[0])
    held.take(sign(PRIVATE, listed(1, expires=30, homepage=30)))
    clock[0] -= 40 * 86_400
    assert held.until("homepage") == days(30)
    clock[0] -= 365 * 86_400
    assert held.until("homepage") is None


def test_unknown_names_are_passed_over_slots_follow_metrics(
    tmp_path: Path,
) -> None:
    held = pauses(tmp_path)
    held.take(sign(PRIVATE, listed(nobody=5, place=5)))
    assert held.until("place/night/0") == days(5)
    assert held.until("places") is None
    assert held.account(["homepage", "place"])[0]["metric"] == "place"
    assert len(held.account(["homepage", "place"])) == 1


def test_the_fullest_list_is_read(tmp_path: Path) -> None:
    names = {f"metric{number:03}": 5 for number in range(600)}
    held = pauses(tmp_path)
    held.take(sign(PRIVATE, listed(**names)))
    assert held.until("metric599") == days(5)
    with pytest.raises(ParameterError, match="bytes of text"):
        sign(PRIVATE, listed(**{f"metric{number:04}": 5 for number in range(1_000)}))


def test_a_damaged_file_is_no_list(tmp_path: Path) -> None:
    (tmp_path / "paused.list").write_bytes(b"damaged")
    assert pauses(tmp_path).until("homepage") is None


@pytest.mark.parametrize("key", [b"", b"-----BEGIN PUBLIC KEY-----\n", "/nowhere/key.pem", None])
def test_a_key_that_is_none_is_named(key: Any, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="key"):
        PausedMetrics(key, app=APP, file=tmp_path / "paused.list")


def test_a_relay_is_given_once_for_single_metrics(world: World) -> None:
    """One that `PausedMetrics` does not know of would be passed by."""
    other = Relay("https://relay.example.net/ohttp", encode_keys([KeyConfig(1, bytes(32))]))
    for changes in ({"relay": other}, {"delivery": Delivery(relay=other)}):
        with pytest.raises(ParameterError, match="give it to PausedMetrics"):
            world.client(**changes)
    with pytest.raises(ParameterError, match="isolate_metrics"):
        world.client(delivery=Delivery(isolate_metrics=False))


def test_vectors_of_lists_are_read_as_they_say(tmp_path: Path) -> None:
    """Lists that hold and lists that do not, for another implementation to read."""
    vectors = json.loads(
        (Path(__file__).parents[1] / "vectors" / "v1" / "pause_list.json").read_text()
    )
    for one in vectors["lists"]:
        held = PausedMetrics(
            vectors["public_key"].encode(), app=vectors["app"], file=tmp_path / "x"
        )
        stamp = datetime.fromisoformat(one["today"]).replace(tzinfo=UTC).timestamp()
        held.clock = lambda stamp=stamp: stamp
        data = bytes.fromhex(one["bytes"])
        if one["until"] is None:
            with pytest.raises(PauseListError):
                held.take(data)
        else:
            held.take(data)
            assert {
                name: None if (day := held.until(name)) is None else day.isoformat()
                for name in one["until"]
            } == one["until"]
        (tmp_path / "x").unlink(missing_ok=True)
