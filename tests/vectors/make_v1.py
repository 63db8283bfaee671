"""Writes tests/vectors/v1. Run by hand when a new version of the protocol is made, never by tests.

    python tests/vectors/make_v1.py

The files are the contract: a change of any line in them is a change of the protocol.
"""

import json
from datetime import date
from hashlib import md5
from pathlib import Path
from typing import Any

from rappor_core.aggregate import Aggregate
from rappor_core.hashing import bloom_positions, mmh3_positions, normalise, value_hash
from rappor_core.metrics.file import parse_metrics
from rappor_core.params import RapporParams
from rappor_core.wire import report as wire
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.json import encode_json
from rappor_core.wire.report import Batch, Report

HERE = Path(__file__).parent / "v1"
VALUES = [
    "",
    "abc",
    "https://example.org/",
    "cafe\u0301",
    "caf\u00e9",
    "\u6771\u4eac",
    "\U0001f5fa",
    "x" * 300,
]

METRICS = """
budget = 40.0

[metrics.homepage]
kind = "string"
description = "Home page of the browser"
owner = "web-team@example.org"
expires = 2027-06-30
num_bits = 128
num_hashes = 2
num_cohorts = 32
prob_f = 0.75
prob_p = 0.5
prob_q = 0.75
max_memoized_values = 3
fallback = "other"

[metrics.theme]
kind = "category"
description = "Colour theme"
owner = "web-team@example.org"
expires = 2027-06-30
categories = ["light", "dark", "caf\u00e9"]
epsilon_infinity = 3.0
epsilon_one = 1.0
max_memoized_values = 3

[metrics.crashed]
kind = "boolean"
description = "Did the app crash today"
owner = "core-team@example.org"
expires = 2027-06-30
prob_f = 0.5
prob_p = 0.25
prob_q = 0.75

[metrics.once]
kind = "string"
description = "Asked once"
owner = "core-team@example.org"
expires = 2027-06-30
hash = "md5"
num_bits = 32
num_hashes = 1
num_cohorts = 64
prob_f = 0
prob_p = 0.5
prob_q = 0.75
max_reports = 1
max_memoized_values = 1
fallback = ""

[metrics.usual_cell]
kind = "category"
mechanism = "l-osue"
description = "Asymmetric permanent response"
owner = "maps@example.org"
expires = 2027-06-30
categories = ["north", "south", "other"]
epsilon_infinity = 2.0
epsilon_one = 0.5
max_memoized_values = 2
fallback = "other"
"""


def hashing() -> list[dict[str, Any]]:
    rows = []
    for value in VALUES:
        data = normalise(value)
        low, high = value_hash(data)
        row: dict[str, Any] = {
            "value": value,
            "normalised": data.hex(),
            "mmh3_low": f"{low:016x}",
            "mmh3_high": f"{high:016x}",
            "positions": [],
        }
        for family, bits, hashes, cohorts in (
            ("mmh3", 128, 2, 16),
            ("mmh3", 32, 1, 64),
            ("mmh3", 1000, 5, 3),
            ("md5", 128, 2, 16),
            ("md5", 16, 2, 64),
        ):
            params = RapporParams.rappor(
                num_bits=bits, num_hashes=hashes, num_cohorts=cohorts, hash=family,  # type: ignore[arg-type]
                prob_f=0.5, prob_p=0.5, prob_q=0.75,
            )  # fmt: skip
            row["positions"].extend(
                {
                    "hash": family,
                    "num_bits": bits,
                    "num_hashes": hashes,
                    "cohort": cohort,
                    "positions": list(bloom_positions(data, cohort, params)),
                }
                for cohort in (0, 1, cohorts - 1)
            )
        rows.append(row)
    assert rows[1]["positions"][0]["positions"] == list(mmh3_positions(b"abc", 0, 128, 2))
    assert rows[1]["positions"][-3]["positions"] == [
        byte % 16 for byte in md5(b"\0\0\0\0abc", usedforsecurity=False).digest()[:2]
    ]
    return rows


def metrics() -> dict[str, Any]:
    file = parse_metrics(METRICS)
    return {
        "metrics.toml": METRICS,
        "expected": {
            name: {
                "params_id": metric.params_id,
                "meaning": metric.meaning,
                "q_star": metric.params.q_star,
                "p_star": metric.params.p_star,
                "epsilon_infinity": _finite(metric.params.epsilon_infinity),
                "epsilon_one": metric.params.epsilon_one,
                "epsilon_30": metric.params.epsilon_n(30),
                "lifetime_epsilon": metric.lifetime_epsilon,
            }
            for name, metric in file.metrics.items()
        },
    }


def _finite(value: float) -> float | str:
    return "inf" if value == float("inf") else value


def batches() -> list[Batch]:
    day = date(2026, 11, 21)
    first = Report("homepage", "0123456789abcdef" * 2, 5, day, bytes(range(16)))
    return [
        Batch("00112233445566778899aabbccddeeff", (first,)),
        Batch(
            "ff" * 16,
            (
                first,
                Report("homepage", "0123456789abcdef" * 2, 31, day, b"\xff" * 16),
                Report("theme", "fe" * 16, 0, date(1970, 1, 1), b"\x04"),
                Report("homepage", "0123456789abcdef" * 2, 65_535, date(9999, 12, 31), b"\x80\x01"),
            ),
        ),
    ]


def bad_batches() -> list[dict[str, str]]:
    good = encode_json(batches()[0]).decode()
    packed = encode_binary(batches()[0])
    day_at = packed.index(b"homepage") + 8 + 16
    json_cases = [
        ("not JSON", "hello", "not JSON"),
        ("nothing", "", "not JSON"),
        ("a list", "[]", "the batch is not a JSON object"),
        ("unknown version", good.replace('"version":1', '"version":2'), "version 2"),
        ("version as boolean", good.replace('"version":1', '"version":true'), "version True"),
        ("version as float", good.replace('"version":1', '"version":1.0'), "version 1.0"),
        ("NaN", good.replace('"cohort":5', '"cohort":NaN'), "NaN"),
        ("infinity", good.replace('"cohort":5', '"cohort":-Infinity'), "-Infinity"),
        ("duplicate key", good.replace('"cohort":5', '"cohort":5,"cohort":6'), "'cohort'"),
        ("unknown field", good.replace('"cohort":5', '"cohort":5,"ip":"::1"'), "'ip'"),
        ("missing field", good.replace('"cohort":5,', ""), "'cohort'"),
        ("unknown top field", good.replace('"version":1', '"version":1,"x":0'), "'x'"),
        ("cohort as boolean", good.replace('"cohort":5', '"cohort":true'), "cohort True"),
        ("cohort as text", good.replace('"cohort":5', '"cohort":"5"'), "cohort '5'"),
        ("cohort as float", good.replace('"cohort":5', '"cohort":5.0'), "cohort 5.0"),
        ("negative cohort", good.replace('"cohort":5', '"cohort":-1'), "cohort -1"),
        ("cohort too large", good.replace('"cohort":5', '"cohort":65536'), "cohort 65536"),
        ("no reports", good[: good.index("[")] + "[]}", "0 reports"),
        ("reports as object", good[: good.index("[")] + "{}}", "reports is not a list"),
        ("report as number", good[: good.index("[")] + "[1]}", "report 0 is not a JSON object"),
        ("short batch id", good.replace("ccddeeff", ""), "batch_id"),
        ("upper-case batch id", good.replace("ccddeeff", "CCDDEEFF"), "batch_id"),
        ("params_id not hex", good.replace("0123", "zzzz"), "params_id"),
        ("empty metric", good.replace('"homepage"', '""'), "metric ''"),
        ("long metric", good.replace("homepage", "h" * 129), "metric"),
        ("lone surrogate", good.replace("homepage", "\\ud800"), "surrogate"),
        ("day with time", good.replace("2026-11-21", "2026-11-21T10:00:00"), "day"),
        ("day that is none", good.replace("2026-11-21", "2026-02-30"), "day '2026-02-30'"),
        ("day before 1970", good.replace("2026-11-21", "1969-12-31"), "from 1970 on"),
        ("day as number", good.replace('"2026-11-21"', "20261121"), "day 20261121"),
        ("bits not base64", good.replace("AAECAw", "AAEC*w"), "not base64"),
        ("bits without padding", good.replace("=", ""), "not base64"),
        ("bits empty", good[: good.index('"bits":')] + '"bits":""}]}', "not base64"),
        ("bits too long", good.replace("AAEC", "AAEC" * 2731), "8192 bytes"),
        ("bits with spare bits", good.replace("Dw==", "Dx=="), "not base64"),
        ("trailing text", good + "x", "not JSON"),
        ("byte order mark", "\ufeff" + good, "not JSON"),
    ]
    binary_cases = [
        ("empty", b"", "ends early"),
        ("wrong magic", b"XAPR" + packed[4:], "b'XAPR'"),
        ("unknown version", packed[:4] + b"\2" + packed[5:], "version 2"),
        ("no groups", packed[:21] + b"\0\0", "0 reports"),
        ("cut", packed[:-1], "1 bytes early"),
        ("trailing byte", packed + b"\0", "1 bytes follow"),
        ("name cut", packed[:30], "ends early"),
        ("empty name", packed[:23] + b"\0" + packed[32:], "metric ''"),
        ("name not UTF-8", packed.replace(b"homepage", b"home\xff\xfege"), "not valid UTF-8"),
        ("day after 9999", packed[:day_at] + b"\xff" * 4 + packed[day_at + 4 :], "year 9999"),
        ("no bits", packed[: day_at + 4] + b"\0\0" + packed[day_at + 6 :], "0 bytes of bits"),
        ("bits too long", packed[: day_at + 4] + b"\x20\x01" + packed[day_at + 6 :], "8193 bytes"),
        ("no report", packed[: day_at + 6] + b"\0" * 4 + packed[day_at + 10 :], "0 reports"),
        ("too many", packed[: day_at + 6] + b"\xff" * 4 + packed[day_at + 10 :], "4294967295"),
    ]
    return [
        *(_bad(name, body.encode(), wire.JSON_CONTENT_TYPE, why) for name, body, why in json_cases),
        _bad(
            "not UTF-8",
            good.encode().replace(b"homepage", b"\xff"),
            wire.JSON_CONTENT_TYPE,
            "UTF-8",
        ),
        *(_bad(name, body, wire.BINARY_CONTENT_TYPE, why) for name, body, why in binary_cases),
        _bad("unknown content type", good.encode(), "text/plain", "content type 'text/plain'"),
    ]


def aggregates() -> dict[str, Any]:
    theme = parse_metrics(METRICS).metrics["theme"]
    good = Aggregate(
        metric="theme",
        params=theme.params,
        params_id=theme.params_id,
        definition=theme.to_dict(),
        first_day=date(2026, 11, 20),
        last_day=date(2026, 11, 21),
        reports_per_cohort=(1200,),
        bit_counts=((400, 1200, 0),),
    ).to_json()
    bad = [
        ("unknown version", good.replace('"version":1', '"version":2'), "version 2"),
        ("version as boolean", good.replace('"version":1', '"version":true'), "version"),
        ("unknown field", good.replace('"version":1', '"version":1,"x":0'), "'x'"),
        ("duplicate key", good.replace('"version":1', '"version":1,"version":1'), "stands twice"),
        ("count above total", good.replace("1200,0]", "1201,0]"), "1201"),
        ("negative count", good.replace("[400", "[-1"), "-1"),
        ("count as float", good.replace("[400", "[400.0"), "400.0"),
        ("count too large", good.replace("[1200]", "[9007199254740993]"), "9007199254740993"),
        ("too few bits", good.replace("[400,", "["), "num_bits = 3"),
        ("too many cohorts", good.replace("[1200]", "[1200,0]"), "num_cohorts = 1"),
        ("one end of a window", good.replace('"2026-11-20"', "null"), "one end"),
        ("backwards", good.replace("2026-11-20", "2026-11-22"), "backwards"),
        ("compact day", good.replace("2026-11-20", "20261120"), "20261120"),
        ("another metric", good.replace('"metric":"theme"', '"metric":"other"'), "other"),
        ("reordered categories", good.replace('"light","dark"', '"dark","light"'), "params_id"),
    ]
    assert all(text != good for _, text, _ in bad)
    return {
        "good": good,
        "bad": [{"name": name, "json": text, "message": why} for name, text, why in bad],
    }


def _bad(name: str, body: bytes, content_type: str, message: str) -> dict[str, str]:
    return {"name": name, "content_type": content_type, "body": body.hex(), "message": message}


def main() -> None:
    golden = [
        {"json": encode_json(b).decode(), "binary": encode_binary(b).hex()} for b in batches()
    ]
    files = {
        "hashing.json": hashing(),
        "metrics.json": metrics(),
        "batches.json": golden,
        "bad_batches.json": bad_batches(),
        "aggregates.json": aggregates(),
    }
    HERE.mkdir(exist_ok=True)
    for name, content in files.items():
        (HERE / name).write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
