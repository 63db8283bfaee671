"""Positions: golden vectors, and cohorts that behave as independent."""

import hmac
import json
import struct
from pathlib import Path

import mmh3
import pytest

from rappor_core.errors import ValueRefusedError
from rappor_core.hashing import bloom_positions, mix64, normalize, value_hash
from rappor_core.params import RapporParams

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "hashing.json").read_text())


def make(hash: str, num_bits: int, num_hashes: int) -> RapporParams:
    keys = {"num_cohorts": 1000, "prob_f": 0.5, "prob_p": 0.5, "prob_q": 0.75, "hash": hash}
    return RapporParams.rappor(num_bits=num_bits, num_hashes=num_hashes, **keys)


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: ascii(row["value"])[:12])
def test_golden_positions(row: dict) -> None:
    data = normalize(row["value"])
    assert data.hex() == row["normalised"]
    low, high = value_hash(data)
    assert (f"{low:016x}", f"{high:016x}") == (row["mmh3_low"], row["mmh3_high"])
    for case in row["positions"]:
        params = make(case["hash"], case["num_bits"], case["num_hashes"])
        assert list(bloom_positions(data, case["cohort"], params)) == case["positions"]


def test_mmh3_is_the_published_function() -> None:
    """SMHasher's verification value of MurmurHash3_x64_128: a hash over 256 lengths and seeds."""
    keys = bytes(range(256))
    hashes = b"".join(mmh3.hash_bytes(keys[:n], 256 - n, True) for n in range(256))
    assert struct.unpack("<I", mmh3.hash_bytes(hashes, 0, True)[:4]) == (0x6384BA69,)


def test_md5_positions_reproduce_googles_published_report() -> None:
    """client/python/rappor_test.py of google/rappor: "abc" in cohort 0 is reported as 64493.

    k = 16, h = 2, f = p = 1/2, q = 3/4; draws of 0, .6, 0 make coins of p fall 1, 0, 1, ... and
    coins of q always 1. The permanent response takes a byte of HMAC-SHA256 for each bit: its lowest
    bit is the lie, used if the rest is below 64. 4 of 256 pairs of positions give this report.
    """
    bits = sum(1 << place for place in set(bloom_positions(b"abc", 0, make("md5", 16, 2))))
    noise = hmac.digest(b"secret", struct.pack(">I", bits), "sha256")
    report = 0
    for place in range(16):
        lies = noise[place] >> 1 < 64
        permanent = noise[place] & 1 if lies else bits >> place & 1
        report |= (1 if permanent else int(place % 3 != 1)) << place
    assert report == 64493


def test_the_published_splitmix64_stream() -> None:
    """First outputs of SplitMix64 seeded with 1234567 (as listed by other implementations)."""
    golden_gamma = 0x9E3779B97F4A7C15
    stream = [mix64((1234567 + i * golden_gamma) % 2**64) for i in (1, 2, 3)]
    assert stream == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_composed_and_decomposed_letters_are_one_value() -> None:
    assert normalize("cafe\u0301") == normalize("caf\u00e9")
    with pytest.raises(ValueRefusedError, match="surrogate"):
        normalize("\ud800")


@pytest.mark.statistical
@pytest.mark.parametrize(("hash", "num_bits"), [("mmh3", 8), ("mmh3", 12), ("md5", 8)])
def test_positions_are_uniform_and_independent(hash: str, num_bits: int) -> None:
    """Chi-square over pairs of positions, for related inputs (v1, v2, ...).

    Six tables; each statistic is within 5 standard deviations of its mean, so the test fails by
    chance less than once in 100,000. MD5 modulo 12 would not pass: a byte is not a multiple of 12.
    """
    params = make(hash, num_bits, 4)
    rows = [
        (bloom_positions(b"v%d" % i, c, params), bloom_positions(b"v%d" % i, c + 1, params),
         bloom_positions(b"v%d" % (i + 1), c, params))
        for i in range(4000) for c in (0, 1, 7)
    ]  # fmt: skip
    pairs = {
        "two hashes, one word": [(here[0], here[1]) for here, _, _ in rows],
        "two hashes, two words": [(here[0], here[2]) for here, _, _ in rows],
        "next cohort": [(here[0], there[0]) for here, there, _ in rows],
        "next cohort, last hash": [(here[3], there[0]) for here, there, _ in rows],
        "next value": [(here[0], other[0]) for here, _, other in rows],
        "next value, other hash": [(here[1], other[2]) for here, _, other in rows],
    }
    cells = num_bits**2
    for name, observed in pairs.items():
        counts = [0] * cells
        for one, two in observed:
            counts[one * num_bits + two] += 1
        expected = len(observed) / cells
        statistic = sum((count - expected) ** 2 / expected for count in counts)
        assert abs(statistic - (cells - 1)) < 5 * (2 * (cells - 1)) ** 0.5, name
