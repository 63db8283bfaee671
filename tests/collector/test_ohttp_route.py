"""`POST /v1/ohttp`: batches through a relay are counted as others; hostile ones get no 5xx."""

import gc
import gzip
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import psutil
import pytest

from collector.domain.access import Scope
from collector.domain.relay_keys import (
    MAX_KEYS,
    RelayKeys,
    create_relay_key,
    read_relay_keys,
    retire_relay_keys,
)
from collector.routes.ohttp import UNKNOWN_KEY
from collector.store.database import back_up
from rappor_cli.store import opened as opened_store
from rappor_core.errors import EncapsulationError
from rappor_core.ohttp.binary_http import SIZE_STEP, BinaryRequest, decode_response, encode_request
from rappor_core.ohttp.encapsulation import OVERHEAD, Exchange, KeyConfig, encapsulate
from rappor_core.ohttp.hpke import PUBLIC_KEY_BYTES
from rappor_server.errors import NotFoundError, RequestError, SettingsError
from tests.collector.support import Clock, Server, ServerMaker, make_metric, running_server
from tests.collector.test_hostile import CORPUS, MAX_GROWTH
from tests.relay_support import JSON, Behind, new_keys, opened

METRIC = make_metric(min_reports=1)


@pytest.fixture
def keyed(tmp_path: Path, serving: ServerMaker) -> Iterator[tuple[Server, Behind, Path]]:
    file, (config,) = new_keys(tmp_path)
    with serving([METRIC], ohttp_keys=file) as server:
        yield server, Behind(server.http, config), file


def metrics_text(server: Server) -> str:
    return server.http.get("/metrics").text


def test_a_batch_through_a_relay_is_counted_once(keyed: tuple[Server, Behind, Path]) -> None:
    server, behind, _ = keyed
    body = server.sender.body(server.sender.reports(METRIC, 7))
    first = behind.post(body)
    assert first.status == 200
    answer = json.loads(first.content)
    assert (answer["duplicate"], len(answer["results"])) == (False, 7)
    again = json.loads(behind.post(body).content)  # a fresh encapsulation of the same batch
    assert (again["duplicate"], again["results"]) == (True, answer["results"])
    direct = server.post_body(body).json()
    assert direct["duplicate"] is True
    assert "rappor_reports_accepted_total 7.0" in metrics_text(server)


def test_gzip_and_sizes_hold_inside(tmp_path: Path, serving: ServerMaker) -> None:
    file, (config,) = new_keys(tmp_path)
    with serving([METRIC], ohttp_keys=file, max_body_bytes=4096, max_inflated_bytes=8192) as server:
        behind = Behind(server.http, config)
        body = server.sender.body(server.sender.reports(METRIC, 2))
        packed = JSON | {b"content-encoding": b"gzip"}
        assert behind.post(gzip.compress(body), packed).status == 200
        bomb = behind.post(gzip.compress(bytes(1 << 20)), packed)
        assert (bomb.status, json.loads(bomb.content)["type"][-14:]) == (413, "body-too-large")
        assert behind.post(bytes(5000)).status == 413  # within, more than the bound
        assert behind.pass_on(bytes(20_000)).status_code == 413  # before anything is decrypted
        sealed, _ = behind.seal(bytes(20_000))
        assert behind.pass_on(sealed).status_code == 413


def test_answers_have_fixed_sizes_whatever_they_say(keyed: tuple[Server, Behind, Path]) -> None:
    server, behind, _ = keyed
    good = server.sender.body(server.sender.reports(METRIC, 1))
    bad = server.sender.body([server.sender.report(METRIC, params_id="0" * 32)])
    sizes = set()
    for body in (good, good, bad, b"{", b"x" * 100):
        sealed, _ = behind.seal(body)
        assert (len(sealed) - OVERHEAD) % SIZE_STEP == 0
        sizes.add(len(behind.pass_on(sealed).content))
    assert sizes == {SIZE_STEP + 32}


SHOWING = (  # ten that passed a list of forbidden ones, and some of that list
    "x-appengine-user-ip", "x-azure-clientip", "x-forwarded-proto", "x-nf-client-connection-ip",
    "x-remote-addr", "x-request-id", "traceparent", "user-agent", "origin", "dnt",
    "cf-connecting-ip", "cookie", "forwarded", "via", "x-forwarded-for", "x-real-ip",
)  # fmt: skip


def test_a_request_that_shows_its_sender_is_refused(keyed: tuple[Server, Behind, Path]) -> None:
    server, behind, _ = keyed
    sealed, exchange = behind.seal(server.sender.body(server.sender.reports(METRIC, 1)))
    for number, name in enumerate(SHOWING, 1):
        answer = behind.pass_on(sealed, **{name: "192.0.2.77"})
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert name in answer.json()["detail"]
        assert "192.0.2.77" not in answer.text
        counted = f'rappor_ohttp_refused_total{{status="503"}} {number}.0'
        assert counted in metrics_text(server)
    assert opened(behind.pass_on(sealed), exchange).status == 200


def test_only_the_route_for_batches_is_there(keyed: tuple[Server, Behind, Path]) -> None:
    server, behind, _ = keyed
    for method, path in ((b"GET", b"/v1/reports"), (b"POST", b"/v1/ohttp"), (b"GET", b"/metrics")):
        assert behind.post(b"", {}, method, path).status == 404
    for path in (b"/v1/reports?x=1", b"/v1/days/2026-11-21/close", b"//v1/reports"):
        assert behind.post(b"{}", JSON, b"POST", path).status == 404
    strange = behind.post(b"{}", JSON | {b"cookie": b"a=1"})
    assert (strange.status, "cookie" in strange.content.decode()) == (422, True)
    assert server.http.get("/v1/ohttp").status_code == 405


def test_what_cannot_be_opened_is_named(keyed: tuple[Server, Behind, Path], tmp_path: Path) -> None:
    server, behind, _ = keyed
    sealed, _ = behind.seal(b"{}")
    assert behind.pass_on(sealed[:-1]).status_code == 400
    assert behind.pass_on(b"").status_code == 400
    wrong = behind.pass_on(sealed, **{"content-type": "application/json"})
    assert wrong.status_code == 415
    other = tmp_path / "other"
    other.mkdir()
    _, (_, stranger) = new_keys(other, 2)
    unknown = Behind(server.http, stranger).pass_on(Behind(server.http, stranger).seal(b"{}")[0])
    assert unknown.status_code == 422
    assert unknown.json()["type"] == UNKNOWN_KEY
    assert unknown.headers["content-type"] == "application/problem+json"


def test_the_inner_report_key_has_its_limit(tmp_path, serving, seconds) -> None:
    file, (config,) = new_keys(tmp_path)
    with serving([METRIC], ohttp_keys=file, require_keys=True, max_reports_per_key=2) as server:
        with opened_store(server.settings.database) as service:
            key = service.create_key(Scope.REPORT, "app", "test").text
        seconds.passed += 2  # until a new key is known
        behind = Behind(server.http, config)
        body = server.sender.body(server.sender.reports(METRIC, 1))
        assert behind.post(body).status == 401
        named = JSON | {b"authorization": f"Bearer {key}".encode()}

        def send(number: int) -> int:
            reports = server.sender.reports(METRIC, number)
            return behind.post(server.sender.body(reports), named).status

        statuses = [send(60) for _ in range(4)]
        assert statuses[0] == 200
        assert statuses[-1] == 429


def test_new_keys_hold_and_retired_ones_end(keyed, monkeypatch) -> None:
    server, behind, file = keyed
    monkeypatch.setattr("collector.domain.relay_keys.RELOAD_SECONDS", 0.0)
    newer = Behind(server.http, create_relay_key(file, date(2026, 11, 22)).config)
    body = server.sender.body(server.sender.reports(METRIC, 1))
    assert newer.post(body).status == 200
    assert retire_relay_keys(file, lambda row: row.key_id == 1, date(2026, 11, 22)) == [1]
    assert behind.pass_on(behind.seal(body)[0]).status_code == 422
    assert newer.post(body).status == 200
    text = metrics_text(server)
    assert 'rappor_ohttp_requests_total{key="2"} 2.0' in text
    assert 'rappor_ohttp_refused_total{status="422"} 1.0' in text


def test_a_file_that_is_damaged_later_changes_nothing(tmp_path: Path) -> None:
    file, _ = new_keys(tmp_path)
    passed = [0.0]
    keys = RelayKeys(file, seconds=lambda: passed[0])
    assert set(keys.private_keys()) == {1}
    file.write_text("{")
    passed[0] = 2.0
    assert set(keys.private_keys()) == {1}
    assert "is not a file" in keys.trouble
    file.unlink()
    passed[0] = 4.0
    assert set(keys.private_keys()) == {1}
    new_keys(tmp_path, 2)
    passed[0] = 6.0
    assert set(keys.private_keys()) == {1, 2}
    assert keys.trouble == ""


def test_the_file_of_keys_is_private_and_bounded(tmp_path: Path) -> None:
    file, _ = new_keys(tmp_path, MAX_KEYS)
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(RequestError, match="has 8 keys"):
        create_relay_key(file, date(2026, 11, 21))
    secrets = [row.private.hex() for row in read_relay_keys(file) if row.private]
    with pytest.raises(RequestError, match="no key would be left"):
        retire_relay_keys(file, lambda _: True, date(2026, 11, 21))
    retire_relay_keys(file, lambda row: row.key_id <= 6, date(2026, 11, 21))
    assert [secret in file.read_text() for secret in secrets] == [False] * 6 + [True] * 2
    with pytest.raises(NotFoundError):
        retire_relay_keys(file, lambda row: row.key_id == 1, date(2026, 11, 21))
    assert create_relay_key(file, date(2026, 11, 21)).key_id == 9
    file.chmod(0o644)
    with pytest.raises(SettingsError, match="everyone on this machine can read it: chmod o="):
        read_relay_keys(file)


def test_a_backup_holds_no_relay_key(keyed: tuple[Server, Behind, Path], tmp_path: Path) -> None:
    server, behind, file = keyed
    behind.post(server.sender.body(server.sender.reports(METRIC, 1)))
    copy = tmp_path / "copy.sqlite"
    back_up(server.settings.database, copy)
    (row,) = read_relay_keys(file)
    assert row.private is not None
    data = copy.read_bytes()
    assert row.private not in data
    assert row.private.hex().encode() not in data
    assert os.fsencode(file) not in data


ENCAPSULATIONS = [250, pytest.param(20_000, marks=pytest.mark.long)]
WARM_UP = 150  # until the allocator of the process has its size
SEED = 34


@dataclass(frozen=True)
class Line:
    """A collector, and a device that is not honest. rng: seeded."""

    server: Server
    behind: Behind
    rng: random.Random

    def good(self) -> bytes:
        return self.server.sender.body(self.server.sender.reports(METRIC, 1))


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    folder: Path = tmp_path_factory.mktemp("hostile_ohttp")
    file, (config,) = new_keys(folder)
    database = f"sqlite:///{folder}/collector.sqlite"
    with running_server([METRIC], Clock(), database=database, ohttp_keys=file) as server:
        yield Line(server, Behind(server.http, config), random.Random(SEED))


Made = tuple[bytes, Exchange | None]


def flipped_bit(line: Line) -> Made:
    sealed, exchange = line.behind.seal(line.good())
    changed = bytearray(sealed)
    changed[line.rng.randrange(len(sealed))] ^= 1 << line.rng.randrange(8)
    return bytes(changed), exchange


def flipped_inside(line: Line) -> Made:
    """Encrypted as it should be, with a message within that is damaged."""
    fields = tuple(JSON.items())
    plain = bytearray(
        encode_request(BinaryRequest(b"POST", b"https", b"", b"/v1/reports", fields, line.good()))
    )
    for _ in range(line.rng.randrange(1, 4)):
        plain[line.rng.randrange(len(plain))] = line.rng.randrange(256)
    return encapsulate(line.behind.config, bytes(plain))


def random_inside(line: Line) -> Made:
    return encapsulate(line.behind.config, line.rng.randbytes(line.rng.randrange(400)))


def corpus_inside(line: Line) -> Made:
    return line.behind.seal(CORPUS[line.rng.choice(sorted(CORPUS))])


def truncated(line: Line) -> Made:
    sealed, exchange = line.behind.seal(line.good())
    return sealed[: line.rng.randrange(len(sealed))], exchange


def truncated_inside(line: Line) -> Made:
    request = BinaryRequest(b"POST", b"https", b"", b"/v1/reports", tuple(JSON.items()))
    plain = encode_request(request._replace(content=line.good()))
    return encapsulate(line.behind.config, plain[: line.rng.randrange(len(plain))])


def wrong_key(line: Line) -> Made:
    public = line.rng.choice([line.rng.randbytes(PUBLIC_KEY_BYTES), b"\1" + bytes(31)])
    key_id = line.rng.choice([1, 1, 0, 255])
    try:
        return encapsulate(KeyConfig(key_id, public), line.good())
    except EncapsulationError:  # of small order: sent as the device's own value
        sealed, _ = line.behind.seal(line.good())
        return sealed[:7] + public + sealed[7 + PUBLIC_KEY_BYTES :], None


def huge(line: Line) -> Made:
    size = line.rng.choice([60_000, 1 << 20, (1 << 20) + 40_000])
    return line.behind.seal(bytes(size))


def nested(line: Line) -> Made:
    sealed, _ = line.behind.seal(line.good())
    kind = {b"content-type": b"message/ohttp-req"}
    for _ in range(line.rng.randrange(1, 4)):
        path = line.rng.choice([b"/v1/ohttp", b"/v1/reports"])
        sealed, exchange = line.behind.seal(sealed, kind, b"POST", path)
    return sealed, exchange


def other_request(line: Line) -> Made:
    name = line.rng.choice([b"GET", b"POST", b"", b"DELETE", b"POST\r\nx: y"])
    path = line.rng.choice([b"", b"/", b"/v1/keys", b"/v1/reports/", b"\xff\xfe", b"x" * 9_000])
    header = line.rng.choice([b"authorization", b"content-encoding", b"content-length", b"te"])
    fields = JSON | {header: line.rng.choice([b"", b"gzip", b"\xff", b"9" * 5_000])}
    return line.behind.seal(line.good(), fields, name, path)


def noise(line: Line) -> Made:
    return line.rng.randbytes(line.rng.randrange(300)), None


KINDS: list[Callable[[Line], Made]] = [
    flipped_bit, flipped_inside, random_inside, corpus_inside, truncated, truncated_inside,
    wrong_key, nested, other_request, noise,
]  # fmt: skip


def statuses(line: Line, make: Callable[[Line], Made]) -> tuple[int, int]:
    """The status that the relay sees, and the one within; 0 where nothing is."""
    sealed, exchange = make(line)
    answer = line.behind.pass_on(sealed)
    if answer.status_code != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert json.loads(answer.content)["status"] == answer.status_code
        return answer.status_code, 0
    return 200, decode_response(exchange.open_response(answer.content)).status


@pytest.mark.parametrize("number", ENCAPSULATIONS)
def test_hostile_encapsulations_get_no_5xx_and_no_memory(line: Line, number: int) -> None:
    seen: Counter[tuple[str, int, int]] = Counter()
    process, before = psutil.Process(), 0
    for count in range(number):
        make = huge if count % 100 == 99 else line.rng.choice(KINDS)
        seen[make.__name__, *statuses(line, make)] += 1
        if count == WARM_UP:
            gc.collect()
            before = process.memory_info().rss
    gc.collect()
    assert process.memory_info().rss - before < MAX_GROWTH
    assert not [one for one in seen if one[1] >= 500 or one[2] >= 500], seen
    assert {name for name, _, _ in seen} == {make.__name__ for make in [*KINDS, huge]}
    for name in ("flipped_bit", "truncated", "noise", "wrong_key"):
        assert not [one for one in seen if one[0] == name and one[1] == 200], seen
    sealed, exchange = line.behind.seal(line.good())
    assert opened(line.behind.pass_on(sealed), exchange).status == 200
    print(dict(seen))
