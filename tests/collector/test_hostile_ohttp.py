"""Hostile encapsulations over real HTTP: refusals by name, never a 5xx, memory bounded."""

import gc
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from rappor_core.errors import EncapsulationError
from rappor_core.ohttp.binary_http import BinaryRequest, decode_response, encode_request
from rappor_core.ohttp.encapsulation import Exchange, KeyConfig, encapsulate
from rappor_core.ohttp.hpke import PUBLIC_KEY_BYTES
from tests.collector.support import Clock, Server, make_metric, running_server
from tests.collector.test_hostile import CORPUS, MAX_GROWTH
from tests.relay_support import JSON, Behind, new_keys, opened

METRIC = make_metric(min_reports=1)
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
