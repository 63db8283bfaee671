"""Run whole clients in a controlled process: `Client`, its files, and a collector that records
all bytes.

Imported once the process is controlled; see `environment`.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from logging import DEBUG, Handler, LogRecord, getLogger
from pathlib import Path
from threading import RLock, Thread
from typing import Any

from client_sdk import Client, Delivery
from client_sdk.delivery.transport import REPORTS_PATH
from client_sdk.errors import StateBusyError
from client_sdk.randomization.encoder import Encoder
from client_sdk.storage.directory import StateDirectory
from client_sdk.testing import MemoryCollector
from rappor_core.calendar import date_of, day_of
from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.metrics.compiled import read_compiled
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from tests.client.whole import environment
from tests.client.whole.alone import client_errors
from tests.client.whole.witness import (
    Influence,
    Sitting,
    Witnessed,
    WitnessedDevice,
    WitnessedRequest,
    WitnessTask,
)

SECONDS = 20.0  # to send what waits, at most
SECONDS_AFTER_ONE = 1.0  # the same, once a client of this process has not sent in time
LOOK = 0.25  # seconds between two looks at whether a client will ever send
PAUSE = 0.005  # seconds between two looks at another thread
PATIENCE = 20.0  # until a time of sending is planned
LOOKED = 256  # bytes of randomness whose bits are turned over, one at a time
SECRET_LOOKED = 64  # bytes, of which one bit each is
CERTAIN_BITS = 128  # more than a generator of this strength has need not show


class WatchingCollector(MemoryCollector):
    """A collector that records each request as it came, with its connection.

    troubles: what the next requests are answered with in place of an answer: a status, or 0 for
    the end of the connection.  strange: other requests than for reports.
    """

    def __init__(self) -> None:
        """Listen."""
        super().__init__()
        self.troubles: list[int] = []
        self.strange: list[str] = []
        self._kept: dict[int, tuple[WitnessedRequest, _Kept]] = {}
        self._refused: dict[int, tuple[WitnessedRequest, _Kept]] = {}
        outer, connections, order = self, count(), count()
        plain: Any = self._server.RequestHandlerClass

        class Watching(plain):  # type: ignore[misc]
            def setup(self) -> None:
                super().setup()
                self.number = next(connections)

            def parse_request(self) -> bool:
                good: bool = super().parse_request()
                if not good or (self.command, self.path) != ("POST", REPORTS_PATH):
                    outer.strange.append(str(self.raw_requestline, "latin-1").strip())
                return good

            def do_POST(self) -> None:  # noqa: N802 (of http.server)
                place = next(order)  # before it is answered: the next one comes after that
                headers = tuple((k, v) for k, v in self.headers.items() if k.lower() != "host")
                body = _Kept(self.rfile)  # type: ignore[has-type]
                self.rfile = body
                request = WitnessedRequest(self.number, self.requestline, headers, b"")
                trouble = outer.troubles.pop(0) if outer.troubles else None
                (outer._kept if trouble is None else outer._refused)[place] = request, body
                try:
                    if trouble is None:
                        super().do_POST()
                        return
                    body.read(int(self.headers["Content-Length"]))
                    if trouble:
                        self._write(trouble, {}, b"")
                    self.close_connection = True
                finally:
                    self.rfile = body.stream

        self._server.RequestHandlerClass = Watching

    @property
    def watched(self) -> list[WitnessedRequest]:
        """All answered requests so far, in the order of arrival."""
        return _in_order(self._kept)

    @property
    def refused(self) -> list[WitnessedRequest]:
        """All requests so far that were refused or cut off."""
        return _in_order(self._refused)


def _in_order(kept: dict[int, tuple[WitnessedRequest, _Kept]]) -> list[WitnessedRequest]:
    some = [kept[place] for place in sorted(kept)]
    return [request._replace(body=bytes(body.seen)) for request, body in some]


class _Kept:
    """A stream that keeps what is read of it."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.seen = stream, bytearray()

    def read(self, size: int) -> bytes:
        data: bytes = self.stream.read(size)
        self.seen += data
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class Said(Handler):
    """A logging handler that also captures printed output, of Python or of C code."""

    def __enter__(self) -> Said:
        self._lines: list[str] = []
        self._file = tempfile.TemporaryFile()
        self._before = os.dup(1), os.dup(2)
        for number in (1, 2):
            os.dup2(self._file.fileno(), number)
        getLogger().addHandler(self)
        getLogger().setLevel(DEBUG)
        return self

    def __exit__(self, *_: object) -> None:
        getLogger().removeHandler(self)
        self._flush()
        for number, before in zip((1, 2), self._before, strict=True):
            os.dup2(before, number)
            os.close(before)
        self._file.close()

    def emit(self, record: LogRecord) -> None:
        """Keep a log record, as `logging.Handler` asks."""
        self._lines += self.format(record).splitlines()

    def take(self, names: dict[str, str]) -> list[str]:
        """All lines since the last call, sorted; `names` are replaced by words."""
        self._flush()
        self._file.seek(0)
        lines = self._lines + self._file.read().decode(errors="replace").splitlines()
        self._lines = []
        self._file.seek(0)
        self._file.truncate()
        for name, word in names.items():
            lines = [line.replace(name, word) for line in lines]
        return sorted(lines)

    @staticmethod
    def _flush() -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()


_WAITED: list[str] = []  # what was said each time that a thread found the state held by another


def _notice_waiting() -> None:
    """Keep count of `StateBusyError`, which the client itself takes care of."""
    first = StateBusyError.__init__

    def noticed(self: StateBusyError, *arguments: Any, **named: Any) -> None:
        first(self, *arguments, **named)
        _WAITED.append(str(self))

    StateBusyError.__init__ = noticed  # type: ignore[method-assign]


def run(asked: WitnessTask) -> Witnessed:
    """Run all devices, one after the other. Raises AuditedClientError."""
    _notice_waiting()
    file = read_compiled(asked.metrics)
    found: list[WitnessedDevice] = []
    environment.files_read()
    collector = WatchingCollector()
    with client_errors(), collector, Said() as said:
        for number, life in enumerate(asked.lives):
            directory = Path(asked.root) / str(number)
            shutil.rmtree(directory, ignore_errors=True)
            device, waited = WitnessedDevice(), len(_WAITED)
            host, port = collector.url.removeprefix("http://").split(":")
            acts = environment.watch(str(directory), (host, int(port)))
            seen = len(collector.watched), len(collector.refused), len(collector.strange)
            late = any(one.stuck for one in found)
            for place, sitting in enumerate(life):
                environment.stream().at(f"{number}/{place}")
                _sit(file, collector, str(directory), sitting, device, dict(asked.delivery),
                     SECONDS_AFTER_ONE if late else SECONDS)  # fmt: skip
                if device.stuck:
                    break  # nothing after that would be sent, and each sitting would wait for it
            device.disturbed = len(_WAITED) > waited
            device.refused = collector.refused[seen[1] :]
            device.strange = collector.strange[seen[2] :]
            requests = len(collector.watched) - seen[0] + len(device.refused + device.strange)
            device.silent = acts.connections - requests
            device.spoken, device.written = acts.spoken, acts.written
            names = {f"{host}:{port}": "COLLECTOR", str(directory): "STATE"}
            device.said = said.take(names)
            found.append(device)
    return Witnessed(found, environment.files_read())


def _sit(
    file: MetricsFile, collector: WatchingCollector, directory: str, sitting: Sitting,
    device: WitnessedDevice, delivery: dict[str, Any], seconds: float,
) -> None:  # fmt: skip
    """Open, send what is left, record, see that nothing leaves by itself, send, close.

    seconds: to send, at most. A client that does not is `device.stuck`.
    """
    start = len(collector.watched)

    def opened(*, consent: bool) -> Client:
        return Client.open(
            file, state_dir=directory, collector=collector.url, consent=consent,
            delivery=Delivery(**delivery), clock=lambda: sitting.now,
        )  # fmt: skip

    if sitting.withdrawn == "closed":
        with opened(consent=False) as client:
            _between(client, directory, device)
    with opened(consent=True) as client:
        until_idle(client, sitting.now)
        if sitting.withdrawn == "open":
            client.set_consent(False)
            _between(client, directory, device)
            client.set_consent(True)
            until_idle(client, sitting.now)
        if sitting.withdrawn:
            device.unwanted += collector.watched[start:]
            device.since = len(device.requests)
        elif sitting.sent:
            device.stuck = _sent(client, seconds)
            if not device.stuck:
                until_idle(client, sitting.now)
            device.requests.append(collector.watched[start:])
            if device.stuck:
                return
        before = len(collector.watched)
        for name, value in sitting.recorded:
            if isinstance(value, tuple):
                at = datetime.fromtimestamp(sitting.now, UTC)
                client.record_location(name, value[0], value[1], at)
            else:
                client.record(name, value)
            _written(client)
        planned = until_idle(client, sitting.now)
        if sitting.alone:
            device.delays.append(planned)
        device.early += len(collector.watched) - before
        if sitting.sent:
            collector.troubles = list(sitting.refused)
            device.stuck = _sent(client, seconds)
            collector.troubles = []
    device.requests.append(collector.watched[before:])
    if sitting.looked:
        device.files.append(_bytes_of(Path(directory)))
    device.last_secret = _secret(directory)
    device.secret = device.secret or device.last_secret


def _between(client: Client, directory: str, device: WitnessedDevice) -> None:
    """After a no: nothing to send, and what is left in the files is looked at."""
    client.flush(SECONDS_AFTER_ONE)
    device.wiped.append(_bytes_of(Path(directory)))


def _sent(client: Client, seconds: float) -> str:
    """Send what waits: "" once all of it is answered; otherwise why it is not, in words.

    An exception in the sending thread is not waited for: it would come again. Another process that
    holds the state, or a connection that fails, is.
    """
    end = time.monotonic() + seconds
    sending = Thread(target=client.flush, args=(seconds,), daemon=True)
    sending.start()
    while sending.is_alive() and time.monotonic() < end:
        sending.join(LOOK)
        session = client._life.session
        trouble = session.worker._trouble if session is not None else ""
        if sending.is_alive() and trouble and trouble not in _WAITED:
            return trouble
    late = sending.is_alive() or time.monotonic() >= end
    return client.last_error or f"not sent within {seconds:g} seconds" if late else ""


def until_idle(client: Client, now: float) -> float:
    """Until the sending thread sleeps: seconds until what waits is sent; infinite if nothing does.

    Otherwise it would draw its delay, or close a period, or not, as it happens to run.
    """
    session = client._life.session
    end = time.monotonic() + PATIENCE
    while session is not None and time.monotonic() < end:
        worker = session.worker
        if worker._changed._waiters and not worker._news:  # type: ignore[attr-defined]
            with suppress(StateBusyError):
                planned = session.state.get("send_at")
                return math.inf if planned is None else float(planned) - now
        time.sleep(PAUSE)
    return math.inf


def _written(client: Client) -> None:
    """Until nothing waits in memory, where the sending thread would write it in its own order."""
    session = client._life.session
    end = time.monotonic() + PATIENCE
    while session is not None and session.overflow.calls and time.monotonic() < end:
        time.sleep(PAUSE)


def _bytes_of(directory: Path) -> bytes:
    """Names and contents of all files."""
    found = []
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            found += [path.name.encode(), path.read_bytes()]
    return b"\0".join(found)


def _secret(directory: str) -> bytes:
    state = StateDirectory(directory).open(RLock())
    try:
        return state.identity().secret or b""
    finally:
        state.close()


def influences(asked: WitnessTask) -> list[Influence]:
    """Turn over bits that the system gives, and see which show. Raises AuditedClientError."""
    file = read_compiled(asked.metrics)
    found = []
    with client_errors():
        found.append(_of_secret(file, asked.root))
        for metric in file.declared:
            value = _a_value(metric)
            if value is None:
                continue
            device = Encoder(file.metrics, bytes(range(32)))
            day = date_of(day_of(metric.expires) - 1)

            def report(
                device: Encoder = device,
                metric: Metric = metric,
                value: Any = value,
                day: Any = day,
            ) -> bytes:
                return device.encode(metric.name, value, day).bits

            permanent = device.metric(metric.name).permanent_bits(
                device.metric(metric.name).value_bits(value)
            )
            found.append(_of_report(metric, permanent, report))
    return found


def _a_value(metric: Metric) -> Any:
    if metric.location is not None:
        return metric.location.grid.cells(metric.location.level)[0]
    if metric.rules.takes_fixes:
        return metric.no_data
    if metric.rules.collected:
        return metric.details.edges[-1]
    values = None if metric.num_values is None else metric.rules.all_values(metric)
    return "audit.example.org" if values is None else next(iter(values))


def _of_report(metric: Metric, permanent: int, report: Callable[[], bytes]) -> Influence:
    """The bits that one report asks for, and how many of them show."""
    stream, base = environment.stream(), os.urandom(LOOKED)
    usual, drawn = _scripted(report, base)
    changing = sum(
        _scripted(report, _turned(base, bit))[0] != usual for bit in range(8 * min(drawn, LOOKED))
    )
    stream.script = None
    return Influence("report", metric.base_name, _entropy(metric, permanent), drawn, changing)


def _of_secret(file: MetricsFile, root: str) -> Influence:
    """How many bytes of the system's randomness show in a secret."""

    def make() -> bytes:
        directory = Path(root) / "secret"
        shutil.rmtree(directory, ignore_errors=True)
        Client.open(
            file, state_dir=str(directory), collector="http://127.0.0.1:9", consent=True
        ).close()
        return _secret(str(directory))

    base = os.urandom(LOOKED)
    usual, drawn = _scripted(make, base)
    again, _ = _scripted(make, base)
    places = range(0, 8 * min(drawn, SECRET_LOOKED), 8)
    changing = sum(_scripted(make, _turned(base, bit + bit // 8 % 8))[0] != usual for bit in places)
    environment.stream().script = None
    return Influence(
        "secret" if again == usual else "secret that depends on more", "", 32.0, drawn, changing
    )


def _scripted(make: Callable[[], bytes], base: bytes) -> tuple[bytes, int]:
    stream = environment.stream()
    stream.script, before = bytearray(base), stream.drawn
    return make(), stream.drawn - before


def _turned(base: bytes, bit: int) -> bytes:
    found = bytearray(base)
    found[bit // 8] ^= 1 << bit % 8
    return bytes(found)


def _entropy(metric: Metric, permanent: int) -> float:
    """Bits that a report's noise has, given its permanent response."""
    m, k = metric.params.mechanism, metric.params.num_bits
    p2, q2 = m.p2 / PROBABILITY_SCALE, m.q2 / PROBABILITY_SCALE
    if metric.params.scheme.symbols:
        return _bits(p2) + (k - 1) * _bits(q2)
    ones = permanent.bit_count()
    return ones * (_bits(p2) + _bits(1 - p2)) + (k - ones) * (_bits(q2) + _bits(1 - q2))


def _bits(p: float) -> float:
    return -p * math.log2(p) if p > 0 else 0.0
