"""The golden vectors against a second implementation, written from docs/protocol.md alone.

Nothing of ours is imported. Where others have published a value, it is in the test.
"""

import base64
import hashlib
import hmac
import json
import math
import struct
import tomllib
import unicodedata
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import mmh3
import pytest

FOLDER = Path(__file__).parents[1] / "vectors" / "v1"
HASHING = json.loads((FOLDER / "hashing.json").read_text())
METRICS = json.loads((FOLDER / "metrics.json").read_text())
BATCHES = json.loads((FOLDER / "batches.json").read_text())
TABLES = tomllib.loads(METRICS["metrics.toml"])["metrics"]
SCALE, WORD = 2**16, 2**64


def halves(data: bytes) -> tuple[int, int]:
    low, high = struct.unpack("<QQ", mmh3.hash_bytes(data, 0, True))
    return low, high


def mix64(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def mmh3_positions(data: bytes, cohort: int, num_bits: int, num_hashes: int) -> list[int]:
    low, high = halves(data)
    words = math.ceil(num_hashes / 2)
    found = []
    for i in range(words):
        word = mix64((low + (cohort * words + i + 1) * (high | 1)) % WORD)
        found += [(half * num_bits) >> 32 for half in divmod(word, 2**32)]
    return found[:num_hashes]


def md5_positions(data: bytes, cohort: int, num_bits: int, num_hashes: int) -> list[int]:
    digest = hashlib.md5(struct.pack(">I", cohort) + data, usedforsecurity=False).digest()
    return [digest[i] % num_bits for i in range(num_hashes)]


POSITIONS = {"mmh3": mmh3_positions, "md5": md5_positions}


@pytest.mark.parametrize("row", HASHING, ids=lambda row: ascii(row["value"])[:12])
def test_positions(row: dict[str, Any]) -> None:
    data = unicodedata.normalize("NFC", row["value"]).encode("utf-8")
    assert data.hex() == row["normalised"]
    assert [f"{half:016x}" for half in halves(data)] == [row["mmh3_low"], row["mmh3_high"]]
    for case in row["positions"]:
        shape = case["cohort"], case["num_bits"], case["num_hashes"]
        assert POSITIONS[case["hash"]](data, *shape) == case["positions"]


def solved(table: dict[str, Any], num_hashes: int) -> list[int]:
    share = 2 if table["kind"] == "boolean" else 1 / num_hashes
    big, small = table["epsilon_infinity"] * share, table["epsilon_one"] * share

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    if table.get("mechanism") == "l-osue":
        p1, q1 = 2**15, math.ceil(SCALE * sigmoid(-big))
        t = (SCALE * sigmoid(small) - q1) / (SCALE - 2 * q1)
    else:
        p1 = math.floor(SCALE * sigmoid(big / 2))
        q1 = SCALE - p1
        t = (SCALE * sigmoid(small / 2) - q1) / (p1 - q1)
    p2 = math.floor(SCALE * t)
    return [p1, q1, p2, SCALE - p2]


def meaning(table: dict[str, Any]) -> dict[str, Any]:
    kind = table["kind"]
    categories = [unicodedata.normalize("NFC", name) for name in table.get("categories", [])]
    num_hashes = table.get("num_hashes", 1)
    if "prob_f" in table:
        q1 = round(SCALE * table["prob_f"] / 2)
        second = round(SCALE * table["prob_q"]), round(SCALE * table["prob_p"])
        rounds = [SCALE - q1, q1, *second]
    else:
        rounds = solved(table, num_hashes)
    return {
        "meaning_version": 1,
        "kind": kind,
        "categories": categories,
        "encoding": {"string": "bloom", "category": "one_hot", "boolean": "boolean"}[kind],
        "hash": table.get("hash", "mmh3"),
        "num_bits": {"category": len(categories), "boolean": 1}.get(kind) or table["num_bits"],
        "num_hashes": num_hashes,
        "num_cohorts": table.get("num_cohorts", 1),
        **dict(zip(("p1", "q1", "p2", "q2"), rounds, strict=True)),
    }


@pytest.mark.parametrize("name", TABLES)
def test_params_id(name: str) -> None:
    mine = meaning(TABLES[name])
    assert mine == METRICS["expected"][name]["meaning"]
    text = json.dumps(mine, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    assert digest[:32] == METRICS["expected"][name]["params_id"]


def binary(batch: dict[str, Any]) -> bytes:
    """The binary form of a batch in JSON; neighbors that differ in cohort and bits are grouped."""
    groups: list[tuple[tuple[Any, ...], list[bytes]]] = []
    for report in batch["reports"]:
        bits = base64.b64decode(report["bits"], validate=True)
        key = report["metric"], report["params_id"], report["day"], len(bits)
        if not groups or groups[-1][0] != key:
            groups.append((key, []))
        groups[-1][1].append(struct.pack(">H", report["cohort"]) + bits)
    body = b"RAPR" + struct.pack(">B", 1) + bytes.fromhex(batch["batch_id"])
    body += struct.pack(">H", len(groups))
    for (metric, params_id, day, size), rows in groups:
        name = metric.encode("utf-8")
        days = (date.fromisoformat(day) - date(1970, 1, 1)) // timedelta(days=1)
        body += struct.pack(">B", len(name)) + name + bytes.fromhex(params_id)
        body += struct.pack(">IHI", days, size, len(rows)) + b"".join(rows)
    return body


@pytest.mark.parametrize("vector", BATCHES)
def test_batches(vector: dict[str, str]) -> None:
    batch = json.loads(vector["json"])
    assert set(batch) == {"version", "batch_id", "reports"}
    assert batch["version"] == 1
    for report in batch["reports"]:
        assert set(report) == {"metric", "params_id", "cohort", "day", "bits"}
    assert binary(batch).hex() == vector["binary"]


def test_mmh3_is_the_published_function() -> None:
    """SMHasher's verification value of MurmurHash3_x64_128: a hash over 256 lengths and seeds."""
    keys = bytes(range(256))
    hashes = b"".join(mmh3.hash_bytes(keys[:n], 256 - n, True) for n in range(256))
    assert struct.unpack("<I", mmh3.hash_bytes(hashes, 0, True)[:4]) == (0x6384BA69,)


def test_md5_positions_reproduce_googles_published_report() -> None:
    """client/python/rappor_test.py of google/rappor: "abc" in cohort 0 is reported as 64493.

    With k = 16, h = 2, f = p = 1/2, q = 3/4, the secret "secret", and draws of 0, .6, 0, in turn:
    coins of p then fall 1, 0, 1, ..., and coins of q always 1. The permanent response takes a byte
    of HMAC-SHA256 for each bit: the lowest bit is the lie, told where the rest is below 64. Four of
    the 256 pairs of positions would give this report.
    """
    bits = sum(1 << place for place in set(md5_positions(b"abc", 0, 16, 2)))
    noise = hmac.digest(b"secret", struct.pack(">I", bits), "sha256")
    report = 0
    for place in range(16):
        lies = noise[place] >> 1 < 64
        permanent = noise[place] & 1 if lies else bits >> place & 1
        report |= (1 if permanent else int(place % 3 != 1)) << place
    assert report == 64493
