"""Writes tests/vectors/v2/linked.json. Run by hand when linked reports mean something else.

    python tests/vectors/make_linked_v2.py

Beside the vectors of version 1, none of which it changes: a batch that links nothing is of version
1, and a collector of version 1 refuses a batch of version 2 by its number (docs/protocol.md).
"""

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "v2"
sys.path.insert(0, str(HERE.parents[2]))

from client_sdk.randomisation.metric_encoder import MetricEncoder  # noqa: E402
from client_sdk.testing import FixedRandomness  # noqa: E402
from rappor_core.calendar import date_of  # noqa: E402
from rappor_core.metrics.compiled import compiled  # noqa: E402
from rappor_core.wire.linked import Pair, encode_linked_binary  # noqa: E402
from rappor_core.wire.linked_json import encode_linked_json  # noqa: E402
from rappor_core.wire.report import (  # noqa: E402
    BINARY_CONTENT_TYPE,
    JSON_CONTENT_TYPE,
    Report,
)
from tests.association_support import TEXT, linked_file  # noqa: E402

FILE = linked_file()
DAY = 20_778
BATCH_ID = bytes.fromhex("00112233445566778899aabbccddeeff")
VALUES = {"homepage": "https://example.org/", "engine": "b", "theme": "dark", "crashed": True}


def pair(names: tuple[str, str], seed: int) -> Pair:
    """Both reports of one device."""
    randomness = FixedRandomness(seed)
    secret = randomness(32)
    first, second = (
        Report(name, device.params_id, device.cohort, date_of(DAY), device.report_bits(bits))
        for name in names
        for device in [MetricEncoder(FILE.metrics[name], secret, randomness)]
        for bits in [device.value_bits(VALUES[name])]
    )
    return first, second


def batches() -> list[dict[str, Any]]:
    """Batches in both forms, and what stands in them."""
    pairs = [pair(one.of, seed) for one in FILE.associations for seed in (1, 2)]
    rows = []
    for name, some in (("one", pairs[:1]), ("a run and another", [*pairs[:2], pairs[3]])):
        rows.append(
            {
                "name": name,
                "json": encode_linked_json(BATCH_ID, some).hex(),
                "binary": encode_linked_binary(BATCH_ID, some).hex(),
                "reports": [
                    [
                        {
                            "metric": part.metric,
                            "params_id": part.params_id,
                            "cohort": part.cohort,
                            "day": part.day.isoformat(),
                            "bits": part.bits.hex(),
                        }
                        for part in both
                    ]
                    for both in some
                ],
            }
        )
    return rows


def bad() -> list[dict[str, str]]:
    """Bodies that must be refused, with a part of the message."""
    some = [pair(FILE.associations[0].of, 1)]
    text = encode_linked_json(BATCH_ID, some).decode()
    packed = encode_linked_binary(BATCH_ID, some)
    part = text[text.index('{"metric"') : text.index("},{") + 1]
    in_json = [
        ("version 3", text.replace('"version":2', '"version":3'), "version 3"),
        ("version as float", text.replace('"version":2', '"version":2.0'), "version 2.0"),
        (
            "a plain report in version 2",
            text[: text.index('"linked"')] + '"bits":"AA=="}]}',
            "bits",
        ),
        ("linked reports in version 1", text.replace('"version":2', '"version":1'), "'linked'"),
        ("one of two", text.replace(f"{part},", ""), "not a list of two"),
        ("three", text.replace(part, f"{part},{part}"), "not a list of two"),
        ("a cohort of its own", text.replace('"bits"', '"cohort":0,"bits"', 1), "'cohort'"),
        ("no cohort", text.replace('"cohort":', '"cohorts":'), "cohort"),
        ("no reports", text[: text.index("[") + 1] + "]}", "0 reports"),
        ("bits that are not base64", text.replace('"bits":"', '"bits":"*', 1), "base64"),
    ]
    in_binary = [
        ("cut", packed[:-1], "1 bytes early"),
        ("more", packed + b"\0", "1 bytes follow"),
        ("no groups", packed[:21] + b"\0\0", "0 reports"),
        ("as version 1", packed[:4] + b"\1" + packed[5:], "bytes"),
        ("no bits", packed.replace(b"\0\2\6engine", b"\0\0\6engine"), "0 bytes of bits"),
    ]
    return [
        {"name": name, "content_type": JSON_CONTENT_TYPE, "body": body.encode().hex(), "message": m}
        for name, body, m in in_json
    ] + [
        {"name": name, "content_type": BINARY_CONTENT_TYPE, "body": body.hex(), "message": m}
        for name, body, m in in_binary
    ]


def main() -> None:
    """Write the file."""
    content = {
        "metrics.toml": TEXT,
        "compiled": compiled(FILE),
        "batches": batches(),
        "bad": bad(),
    }
    HERE.mkdir(exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=True) + "\n"
    (HERE / "linked.json").write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
