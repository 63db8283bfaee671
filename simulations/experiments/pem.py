"""The best of the published methods that find strings without a list, on the same reports: PEM.

Prefixes of 1, 2, ... blocks (Wang, Li, Jha 2017, arXiv:1708.06674). Each device is in one of
several groups and reports one value with the whole epsilon, hashed into k buckets with its cohort's
hash, as in ours (OUE). It takes our clipped scores, pursuit and fits, which makes it stronger than
the original. Text is cut into blocks of three characters of 40.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from decoder.discovery.bucket_shares import GroupShares
from decoder.discovery.prefix_hash import best_extensions
from decoder.discovery.search import BEAM, FITTED, LEAST_Z
from rappor_core.hashing import value_hash
from simulations.experiments.discovery_draws import KEY_BITS, Draw, significant

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789.-_ "  # a blank stands after the end
BLOCK, BLOCKS = 3, 11
BLOCK_BITS = 16
GROUPS = BLOCKS + 1  # of devices: one a block, and one that counts
LONGEST = BLOCK * BLOCKS  # characters of a string


def blocks_of(string: str) -> list[str]:
    """The string in blocks of three, filled with blanks; what is longer is cut."""
    padded = string.lower()[: BLOCK * BLOCKS].ljust(BLOCK * BLOCKS)
    return [padded[i : i + BLOCK] for i in range(0, len(padded), BLOCK)]


def block_number(block: str) -> int:
    """The number of a block of characters, 0 to 40^3 - 1, below 2^16; characters outside the
    alphabet are `_`."""
    number = 0
    for character in block:
        number = number * len(ALPHABET) + (
            ALPHABET.find(character) if character in ALPHABET else ALPHABET.find("_")
        )
    return number


def block_text(number: int) -> str:
    """The inverse; a number of 64,000 or more stands for nothing."""
    size = len(ALPHABET)
    places = number // size**2, number // size % size, number % size
    return "".join(ALPHABET[place] for place in places)


def key(context: str, block: str | int) -> int:
    """64 bits: 48 of a hash of what the block stands in, 16 of the block."""
    number = block_number(block) if isinstance(block, str) else block
    return (value_hash(context.encode())[0] >> BLOCK_BITS) << BLOCK_BITS | number


def pem(strings: Sequence[str], draw: Draw) -> list[str]:
    """Prefixes by three characters; a last group counts."""
    cut = [blocks_of(string) for string in strings]
    beam, finished = [("", 0.0)], list[tuple[str, float]]()
    for level in range(BLOCKS):
        keys = [key("".join(blocks[:level]), blocks[level]) for blocks in cut]
        group = draw(np.array(keys, dtype=np.uint64))
        wanted = _best(group, [text for text, _ in beam], [mean for _, mean in beam], level)
        beam = []
        for text, mean in wanted:
            done = text.endswith(" ") or level == BLOCKS - 1
            (finished if done else beam).append((text, mean))
        if not beam:
            break
    return accepted(strings, [text.rstrip(" ") for text, _ in finished], draw)


def _best(
    group: GroupShares, texts: Sequence[str], means: Sequence[float], level: int
) -> list[tuple[str, float]]:
    """The best extensions by a block: text, and the mean of the scores so far."""
    contexts = np.array([key(text, 0) >> BLOCK_BITS for text in texts], dtype=np.uint64)
    origins, keys, values = best_extensions(
        contexts, KEY_BITS, BLOCK_BITS, group.cohorts, group.scores(), 2.8, 0.35
    )
    parents = np.array(means)
    lead = 0.5 * np.minimum(parents[origins], values + 1.5) * bool(level)
    order = [i for i in np.argsort(-(values + lead)).tolist() if _is_text(int(keys[i]) & 0xFFFF)][
        :FITTED
    ]
    if not order:
        return []
    z = group.pursue(keys[order], BEAM)
    ranks = z + 0.5 * np.minimum(parents[origins[order]], z + 1.5) * bool(level)
    return [
        (
            texts[origins[order[i]]] + block_text(int(keys[order[i]]) & 0xFFFF),
            (means[origins[order[i]]] * level + z[i]) / (level + 1),
        )
        for i in np.argsort(-ranks)[:BEAM].tolist()
        if z[i] > LEAST_Z
    ]


def _is_text(number: int) -> bool:
    """A block of the alphabet, with blanks at its end only."""
    if number >= len(ALPHABET) ** BLOCK:
        return False
    text = block_text(number)
    return " " not in text.rstrip(" ")


def accepted(strings: Sequence[str], texts: Sequence[str], draw: Draw) -> list[str]:
    """The assembled strings that a last group of devices confirms (Bonferroni)."""
    texts = list(dict.fromkeys(texts))
    whole = [key(f"whole/{''.join(blocks_of(string)).rstrip(' ')}", 0) for string in strings]
    group = draw(np.array(whole, dtype=np.uint64))
    keys = np.array([key(f"whole/{text}", 0) for text in texts], dtype=np.uint64)
    shown = significant(group, keys)
    return [text for text, named in zip(texts, shown.tolist(), strict=True) if named]
