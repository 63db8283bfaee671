"""Check that no bytes of files reveal values: runs that devices with one value share.

Devices of two kinds differ in their values alone, and each has a secret of its own. What files hold
of a value must go through that secret, so nothing can stand in the files of all devices with one
value and of none with the other: raw values, any encoding of them, digests without the secret,
places of a period that is over. Every run of three bytes is looked at.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from privacy_audit.black_box.checks import Check, one_of, test

LENGTHS = (3, 6)


def file_checks(
    one: Sequence[bytes], other: Sequence[bytes], part: str, when: str = ""
) -> Iterator[Check]:
    """Check that files of devices with two values are alike. one, other: bytes of each device."""
    for length in LENGTHS:
        p_value, found = most_telling(one, other, length)
        yield test(
            "", f"no {length} bytes of the files tell values or places of periods that are over"
            + (f", {when}" if when else ""), part, p_value, found,
            one_of(len(one) + len(other), "devices' files, in which every value is held"),
        )  # fmt: skip


def most_telling(one: Sequence[bytes], other: Sequence[bytes], length: int) -> tuple[float, str]:
    """The run of bytes that best tells two groups apart: corrected p-value, and where it is.

    By the hypergeometric law of which devices' files hold it, over all runs that are in as many
    files as could tell anything.
    """
    runs = [_runs(data, length) for data in (*one, *other)]
    values, first = np.unique(np.concatenate(runs), return_inverse=True)
    ends = np.cumsum([0, *(len(run) for run in runs)])
    half = len(one)
    a = np.bincount(first[: ends[half]], minlength=len(values))
    b = np.bincount(first[ends[half] :], minlength=len(values))
    telling = np.abs(a - b)
    worst = int(np.argmax(telling))
    asked = int((((a + b) >= telling[worst]) & (a + b < len(runs))).sum())
    p_value = (
        2
        * max(asked, 1)
        * _tail(int(max(a[worst], b[worst])), int(min(a[worst], b[worst])), half, len(other))
    )
    text = int(values[worst]).to_bytes(8, "big")[8 - length :]
    return min(
        1.0, p_value
    ), f"{text!r} is in the files of {a[worst]} and {b[worst]} of {half} and {len(other)} devices"


def _runs(data: bytes, length: int) -> NDArray[np.int64]:
    raw = np.frombuffer(data, dtype=np.uint8).astype(np.int64)
    found = np.zeros(len(raw) - length + 1, dtype=np.int64)
    for place in range(length):
        found = found * 256 + raw[place : len(raw) - length + 1 + place]
    return np.unique(found)


def _tail(most: int, least: int, half: int, rest: int) -> float:
    """P(so uneven, or more) where which files hold a run does not depend on the values."""
    total = math.comb(half + rest, most + least)
    ways = sum(
        math.comb(half, x) * math.comb(rest, most + least - x)
        for x in range(most, min(half, most + least) + 1)
    )
    return ways / total
