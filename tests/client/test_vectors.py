"""The vectors of a device: our code, and a second one by docs/porting.md alone, bit by bit."""

import hashlib
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from client_sdk.randomization.key_derivation import cohort_of, derive, keyed_input, secret_check
from client_sdk.randomization.metric_encoder import CoinPair, MetricEncoder
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_core.calendar import EPOCH_ORDINAL, period_number
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric

FOLDER = Path(__file__).parents[1] / "vectors" / "v1"
VECTORS = json.loads((FOLDER / "device.json").read_text())
METRICS = parse_metrics(json.loads((FOLDER / "metrics.json").read_text())["metrics.toml"]).metrics


def plain_derive(secret: bytes, purpose: str, fields: list[bytes], length: int) -> bytes:
    message = b""
    for part in (b"rappor-telemetry v1", purpose.encode(), secret, *fields):
        message += len(part).to_bytes(4, "big") + part
    return hashlib.shake_256(message).digest(length)


def bit(data: bytes, place: int) -> int:
    return data[place // 8] >> (place % 8) & 1


def plain_toss(if_one: int, if_zero: int, num_bits: int, bits: bytes, random: bytes) -> bytes:
    """Each bit by itself: its 16-digit uniform number, from the words, against its threshold."""
    used = [t for t in (if_one, if_zero) if t not in (0, 65_536)]
    digits = 16 - min(((t & -t).bit_length() - 1 for t in used), default=16)
    size = (num_bits + 7) // 8
    assert len(random) == digits * size
    result = bytearray(size)
    for place in range(num_bits):
        threshold = if_one if bit(bits, place) else if_zero
        uniform = 0  # the last word holds the most significant digit
        for word in reversed(range(digits)):
            uniform = uniform << 1 | (1 - bit(random[word * size : (word + 1) * size], place))
        if uniform << (16 - digits) < threshold:
            result[place // 8] |= 1 << (place % 8)
    return bytes(result)


@pytest.mark.parametrize("row", VECTORS["derivations"])
def test_derivations(row: dict[str, Any]) -> None:
    secret, fields = bytes.fromhex(row["secret"]), [bytes.fromhex(f) for f in row["fields"]]
    purpose, output = row["purpose"], bytes.fromhex(row["output"])
    assert keyed_input(secret, purpose.encode(), *fields).hex() == row["input"]
    assert derive(secret, purpose.encode(), *fields, length=len(output)) == output
    assert plain_derive(secret, purpose, fields, len(output)) == output


def test_secret_checks() -> None:
    for row in VECTORS["secret_checks"]:
        secret = bytes.fromhex(row["secret"])
        assert secret_check(secret).hex() == row["check"]
        assert plain_derive(secret, "check", [], 8).hex() == row["check"]


def test_cohorts() -> None:
    for row in VECTORS["cohorts"]:
        secret, name, number = bytes.fromhex(row["secret"]), row["metric"], row["num_cohorts"]
        assert cohort_of(secret, name, number) == row["cohort"]
        draw = int.from_bytes(plain_derive(secret, "cohort", [name.encode()], 8), "big")
        assert draw * number // 2**64 == row["cohort"]


@pytest.mark.parametrize("row", VECTORS["coins"])
def test_coins(row: dict[str, Any]) -> None:
    bits, random = bytes.fromhex(row["bits"]), bytes.fromhex(row["random"])
    pair = CoinPair(row["if_one"], row["if_zero"], row["num_bits"])
    tossed = pair.toss(int.from_bytes(bits, "little"), random)
    assert tossed.to_bytes(len(bits), "little").hex() == row["result"]
    plain = plain_toss(row["if_one"], row["if_zero"], row["num_bits"], bits, random)
    assert plain.hex() == row["result"]


def check_response(metric: Metric, row: dict[str, Any]) -> None:
    """A device with a row's secret and draw has what the row says of it and of its report."""
    random = bytes.fromhex(row["random"])
    device = MetricEncoder(metric, bytes.fromhex(row["secret"]), lambda number: random[:number])
    bits, size = device.value_bits(row["value"]), metric.params.report_bytes
    found = {
        "params_id": device.params_id,
        "cohort": device.cohort,
        "encoded_bits": bits.to_bytes(size, "little").hex(),
        "permanent_bits": device.permanent_bits(bits).to_bytes(size, "little").hex(),
        "ledger_digest": device.digest(bits).hex(),
        "report_bits": device.report_bits(bits).hex(),
    }
    stated = {"encoded_bits" if name == "bloom_bits" else name: row[name] for name in row}
    assert len(found.keys() & stated) >= 4
    assert {name: stated.get(name, found[name]) for name in found} == found


@pytest.mark.parametrize("row", VECTORS["reports"])
def test_reports(row: dict[str, Any]) -> None:
    check_response(METRICS[row["metric"]], row)
    assert plain_report(row) == (row["permanent_bits"], row["ledger_digest"], row["report_bits"])


def plain_report(row: dict[str, Any]) -> tuple[str, str, str]:
    """Both rounds and the digest, from the Bloom bits on."""
    params = METRICS[row["metric"]].params
    mechanism, k = params.mechanism, params.num_bits
    bloom, secret = bytes.fromhex(row["bloom_bits"]), bytes.fromhex(row["secret"])
    fields = [row["metric"].encode(), bytes.fromhex(row["params_id"]), bloom]
    stream = plain_derive(secret, "permanent", fields, 16 * len(bloom))
    used = [t for t in (mechanism.p1, mechanism.q1) if t not in (0, 65_536)]
    digits = 16 - min(((t & -t).bit_length() - 1 for t in used), default=16)
    permanent = plain_toss(mechanism.p1, mechanism.q1, k, bloom, stream[: digits * len(bloom)])
    random = bytes.fromhex(row["random"])
    report = plain_toss(mechanism.p2, mechanism.q2, k, permanent, random)
    digest = plain_derive(secret, "ledger", fields, 16)
    return permanent.hex(), digest.hex(), report.hex()


def test_periods() -> None:
    for row in VECTORS["periods"]:
        day = date.fromisoformat(row["day"]).toordinal() - EPOCH_ORDINAL
        assert period_number(row["period"], day) == row["number"]


def test_the_ledgers_decisions() -> None:
    script = VECTORS["ledger"]
    metrics = parse_metrics(script["metrics.toml"])
    state = MemoryState(bytes.fromhex(script["secret"]))
    recorder = Recorder(metrics.metrics, state, budget=metrics.budget)
    for operation in script["operations"]:
        day = date.fromisoformat(operation["day"]).toordinal() - EPOCH_ORDINAL
        outcome = recorder.record(operation["metric"], operation["value"], day * 86_400.0)
        assert outcome == operation["outcome"], operation
