"""What a relay costs: processor time of device and collector, and batches beside direct ones.

    python benchmarks/relay.py [--batches 2000]

One report a batch; collector on SQLite and senders in this process, so only the ratios carry over.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from collector.domain.operations import Collector
from collector.domain.relay_keys import create_relay_key
from collector.server import running_collector
from collector.settings import load_settings
from collector.store.database import CollectorDatabase, make_engine
from ohttp.binary_http import (
    SIZE_STEP,
    BinaryRequest,
    BinaryResponse,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from ohttp.encapsulation import REQUEST_TYPE, decapsulate, encapsulate
from ohttp.key_config import KeyConfig
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.report import BINARY_CONTENT_TYPE, Report, make_batch
from rappor_server.schema import prepare

FIELDS = ((b"content-type", BINARY_CONTENT_TYPE.encode()),)


def metric() -> Metric:
    """The metric of the README, kept for long enough."""
    return Metric(
        name="homepage",
        kind="string",
        description="Home page",
        owner="bench@example.org",
        expires=date(2099, 1, 1),
        params=RapporParams.rappor(
            num_bits=128, num_hashes=2, num_cohorts=32, prob_f=0.75, prob_p=0.5, prob_q=0.75
        ),
        max_memoized_values=3,
        fallback="other",
    )


def new_body(of: Metric) -> bytes:
    """A batch of one random report, as the device sends it."""
    today = datetime.now(UTC).date()
    report = Report(of.name, of.params_id, os.urandom(1)[0] % 32, today, os.urandom(16))
    return encode_binary(make_batch(os.urandom(16), [report]))


def request_of(body: bytes) -> bytes:
    """The padded binary request around a body."""
    request = BinaryRequest(b"POST", b"https", b"x.example", b"/v1/reports", FIELDS, body)
    return encode_request(request, SIZE_STEP)


def microseconds(act: Callable[[], object], times: int = 2_000) -> float:
    """Processor time of one call."""
    act()
    start = time.process_time()
    for _ in range(times):
        act()
    return (time.process_time() - start) / times * 1e6


def print_steps(body: bytes) -> None:
    """Processor time of each step, on either side."""
    key = X25519PrivateKey.generate()
    config = KeyConfig(1, key.public_key().public_bytes_raw())
    sealed, device = encapsulate(config, request_of(body))
    _, collector = decapsulate({1: key}, sealed)
    answer = BinaryResponse(200, FIELDS, bytes(110))
    back = collector.seal_response(encode_response(answer, SIZE_STEP))
    steps: dict[str, Callable[[], object]] = {
        "device: encapsulate": lambda: encapsulate(config, request_of(body)),
        "device: open the answer": lambda: decode_response(device.open_response(back)),
        "collector: decapsulate": lambda: decode_request(decapsulate({1: key}, sealed)[0]),
        "collector: seal the answer": lambda: collector.seal_response(
            encode_response(answer, SIZE_STEP)
        ),
    }
    for name, act in steps.items():
        print(f"{name:<28}{microseconds(act):6.0f} us of processor time")
    print(
        f"bytes of a batch: {len(body)} direct, {len(sealed)} through a relay; answer {len(back)}"
    )


async def rate(url: str, bodies: list[bytes], kind: str, path: str, at_once: int) -> float:
    """Batches a second with so many in flight."""
    limits = httpx.Limits(max_connections=at_once)
    waiting = iter(bodies)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as http:

        async def send() -> None:
            for body in waiting:
                answer = await http.post(path, content=body, headers={"content-type": kind})
                assert answer.status_code == 200, answer.text

        start = time.perf_counter()
        await asyncio.gather(*(send() for _ in range(at_once)))
    return len(bodies) / (time.perf_counter() - start)


def print_rates(of: Metric, folder: Path, batches: int) -> None:
    """Batches a second, directly and sealed, in turns."""
    file = folder / "keys.json"
    config = create_relay_key(file, datetime.now(UTC).date()).config
    url = f"sqlite:///{folder}/bench.sqlite"
    database = CollectorDatabase(make_engine(url))
    prepare(database)
    Collector(database).push_metrics([of], "bench")
    database.close()
    chosen = {"database": url, "port": 0, "require_keys": False, "ohttp_keys": file}
    settings = load_settings(**chosen, max_reports_per_address=0, refuse_implausible=False)
    with running_collector(settings) as address:
        for at_once in (1, 64):
            rates: dict[str, list[float]] = {"direct": [], "sealed": []}
            for _ in range(3):
                plain = [new_body(of) for _ in range(batches)]
                kind = BINARY_CONTENT_TYPE
                rates["direct"].append(
                    asyncio.run(rate(address, plain, kind, "/v1/reports", at_once))
                )
                sealed = [encapsulate(config, request_of(new_body(of)))[0] for _ in plain]
                rates["sealed"].append(
                    asyncio.run(rate(address, sealed, REQUEST_TYPE, "/v1/ohttp", at_once))
                )
            direct, through = (sorted(one)[1] for one in rates.values())
            print(
                f"{at_once} in flight: {direct:.0f} direct, {through:.0f} sealed a second, "
                f"{through / direct:.2f} of it"
            )


def main() -> None:
    """Print all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=2_000)
    batches = parser.parse_args().batches
    of = metric()
    print_steps(new_body(of))
    with tempfile.TemporaryDirectory() as folder:
        print_rates(of, Path(folder), batches)


if __name__ == "__main__":
    main()
