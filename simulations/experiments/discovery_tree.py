"""TreeHist: prefixes bit by bit, with a group of devices for each length.

Bassily, Nissim, Stemmer, Thakurta, "Practical locally private heavy hitters", NIPS 2017,
arXiv:1707.04982: a device is assigned a level of the binary tree of all codes and reports its
prefix of that length; the server goes down the tree and keeps the children whose count stands out
of the noise; a last count decides on the leaves.

It gets what it can use of ours, which makes it stronger than the paper's: codes of 64 bits from the
compressed table in place of characters' bits, reports of 1,024 buckets in place of one bit of a
Hadamard row, joint fits, and devices of their own for the last count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from decoder.discovery.prefix_hash import Prefixes
from decoder.discovery.search import BEAM, LEAST_Z
from decoder.discovery.text import text_of
from decoder.typing import Floats
from rappor_core.codes.prefix_code import packaged_code
from rappor_core.hashing import normalise
from simulations.experiments.discovery_draws import KEY_BITS, Draw, significant

LEVELS = KEY_BITS  # bits of a code, one level each
GROUPS = LEVELS + 1


def treehist(strings: Sequence[str], draw: Draw) -> list[str]:
    """The strings that are found; one whose code is longer than 64 bits by its first 64.

    Args:
        strings: that devices hold.
        draw: reports of a group of devices, given the key of each string.
    """
    code = packaged_code("domains")
    codes = np.array([code.encode(normalise(string), KEY_BITS) for string in strings], np.uint64)
    beam, means, finished = np.zeros(1, dtype=np.uint64), np.zeros(1), list[int]()
    for level in range(LEVELS):
        group = draw(_prefixes(codes, level + 1))
        beam, means = _children(beam, means, level)
        z = group.pursue(beam, BEAM)
        means = (means * level + z) / (level + 1)
        kept = [i for i in np.argsort(-means)[:BEAM].tolist() if z[i] > LEAST_Z]
        ended = [_ended(int(beam[i]), level + 1) for i in kept]
        finished += [int(beam[i]) for i, done in zip(kept, ended, strict=True) if done]
        going = [i for i, done in zip(kept, ended, strict=True) if not done]
        beam, means = beam[going], means[going]
        if not len(beam):
            break
    found = np.array(finished, dtype=np.uint64)
    shown = found[significant(draw(codes), found)]
    order = reversed(list(zip(codes.tolist(), strings, strict=True)))
    held = {key: string.lower() for key, string in order}
    return [held.get(key) or _text(key) for key in shown.tolist()]


def _prefixes(codes: Prefixes, size: int) -> Prefixes:
    """The first `size` bits of each code, from the left, then zeros."""
    shift = np.uint64(KEY_BITS - size)
    return (codes >> shift << shift).astype(np.uint64)


def _children(beam: Prefixes, means: Floats, level: int) -> tuple[Prefixes, Floats]:
    """Both children of each prefix of `level` bits, if a string can have them; parents' means."""
    bit = np.uint64(1) << np.uint64(KEY_BITS - level - 1)
    both = np.concatenate([beam, beam | bit]).astype(np.uint64)
    parents = np.concatenate([means, means])
    valid = [i for i, key in enumerate(both.tolist()) if _valid(key, level + 1)]
    return both[valid], parents[valid]


def _valid(key: int, size: int) -> bool:
    return packaged_code("domains").decode(key >> (KEY_BITS - size), size).valid


def _ended(key: int, size: int) -> bool:
    ended = packaged_code("domains").decode(key >> (KEY_BITS - size), size).ended
    return ended or size == KEY_BITS


def _text(key: int) -> str:
    decoded = packaged_code("domains").decode(key, KEY_BITS)
    return text_of(decoded.data, whole=decoded.ended) or ""
