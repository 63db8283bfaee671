"""Other ways to find strings without a list, re-implemented from their papers on one oracle.

Each device is in one of several groups and reports one value with the whole epsilon, hashed into k
buckets with its cohort's hash, as in ours (OUE). All take our clipped scores, pursuit and fits,
which makes them stronger than the originals. Text is cut into blocks of three characters of 40.

- PEM: prefixes of 1, 2, ... blocks (Wang, Li, Jha 2017, arXiv:1708.06674).
- SFP: block and position with an 8-bit hash of the string, put together by hash (Apple 2017,
  "Learning with privacy at scale"); a last group hashes the whole string.
- n-grams: frequent blocks by position, then edges between neighbouring blocks, then paths of the
  graph (Fanti, Pihur, Erlingsson 2016, arXiv:1503.01214). There a device splits epsilon among two
  n-grams and the string; here it reports one of them with all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product

import numpy as np

from decoder.discovery.bucket_shares import GroupShares
from decoder.discovery.prefix_hash import best_extensions, prefix_positions
from decoder.discovery.search import BEAM, FITTED, LEAST_Z
from rappor_core.hashing import value_hash
from simulations.experiments.discovery_draws import KEY_BITS, Draw, significant

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789.-_ "  # a blank stands after the end
BLOCK, BLOCKS = 3, 11
BLOCK_BITS = 16
LONGEST = BLOCK * BLOCKS  # characters of a string
MOST_PATHS = 20_000


def blocks_of(string: str) -> list[str]:
    """The string in blocks of three, filled with blanks; what is longer is cut."""
    padded = string.lower()[: BLOCK * BLOCKS].ljust(BLOCK * BLOCKS)
    return [padded[i : i + BLOCK] for i in range(0, len(padded), BLOCK)]


def block_number(block: str) -> int:
    """0 to 40^3 - 1, below 2^16; characters that are not of the alphabet are `_`."""
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


def sfp(strings: Sequence[str], draw: Draw) -> list[str]:
    """Blocks by position with a hash of the string; put together by that hash."""
    cut, tags = [blocks_of(string) for string in strings], [_tag(string) for string in strings]
    by_tag: dict[int, list[list[str]]] = {tag: [] for tag in range(256)}
    for level in range(BLOCKS):
        names = [f"{level}/{tag}" for tag in tags]
        keys = [key(name, blocks[level]) for name, blocks in zip(names, cut, strict=True)]
        group = draw(np.array(keys, dtype=np.uint64))
        contexts = [f"{level}/{tag}" for tag in range(256)]
        found = _frequent(group, contexts, 2 * BEAM)
        for tag in range(256):
            by_tag[tag].append([text for context, text in found if context == contexts[tag]])
    texts = {text for tag, lists in by_tag.items() for text in _joined(lists) if _tag(text) == tag}
    return accepted(strings, sorted(texts), draw)


def _tag(string: str) -> int:
    return value_hash(string.encode())[1] & 0xFF


def _frequent(group: GroupShares, contexts: Sequence[str], most: int) -> list[tuple[str, str]]:
    """The best blocks over some contexts."""
    bases = np.array([key(context, 0) >> BLOCK_BITS for context in contexts], dtype=np.uint64)
    origins, keys, values = best_extensions(
        bases, KEY_BITS, BLOCK_BITS, group.cohorts, group.scores(), 3.3, 0.35
    )
    places = [i for i in np.argsort(-values).tolist() if _is_text(int(keys[i]) & 0xFFFF)]
    places = places[:FITTED]
    z = group.pursue(keys[places], most) if places else np.zeros(0)
    return [
        (contexts[origins[places[i]]], block_text(int(keys[places[i]]) & 0xFFFF))
        for i in np.argsort(-z)[:most].tolist()
        if z[i] > LEAST_Z
    ]


def _joined(lists: Sequence[Sequence[str]]) -> Iterable[str]:
    """Strings from lists of blocks by position; one ends where a block has a blank."""
    whole, open_ = [], [""]
    for blocks in lists:
        longer = [text + block for text, block in product(open_, blocks)]
        whole += [text.rstrip(" ") for text in longer if text.endswith(" ")]
        open_ = [text for text in longer if not text.endswith(" ")][:MOST_PATHS]
    return [*whole, *open_][:MOST_PATHS]


def ngrams(strings: Sequence[str], draw: Draw) -> list[str]:
    """Frequent blocks by position, then edges between neighbours, then paths."""
    cut = [blocks_of(string) for string in strings]
    nodes = []
    for level in range(BLOCKS):
        places = np.array([key(f"{level}", blocks[level]) for blocks in cut], dtype=np.uint64)
        nodes.append([text for _, text in _frequent(draw(places), [f"{level}"], BEAM)])
    paths = {block: block for block in nodes[0]}
    whole: list[str] = [text for text in paths.values() if text.endswith(" ")]
    open_ = [text for text in paths.values() if not text.endswith(" ")]
    for level in range(1, BLOCKS):
        names = [f"{level}-{blocks[level - 1]}" for blocks in cut]
        keys = [key(name, blocks[level]) for name, blocks in zip(names, cut, strict=True)]
        group = draw(np.array(keys, dtype=np.uint64))
        edges = _edges(group, level, sorted({text[-BLOCK:] for text in open_}), nodes[level])
        longer = [text + block for text in open_ for block in edges.get(text[-BLOCK:], ())]
        whole += [text for text in longer if text.endswith(" ")]
        open_ = [text for text in longer if not text.endswith(" ")][:MOST_PATHS]
    return accepted(strings, [text.rstrip(" ") for text in [*whole, *open_]], draw)


def _edges(
    group: GroupShares, level: int, before: Sequence[str], after: Sequence[str]
) -> dict[str, list[str]]:
    """Which blocks follow which: the best `BEAM` pairs."""
    pairs = list(product(before, after))
    if not pairs:
        return {}
    keys = np.array([key(f"{level}-{one}", other) for one, other in pairs], dtype=np.uint64)
    positions = prefix_positions(keys, KEY_BITS, group.cohorts, group.shares.shape[1])
    rough = group.scores()[np.arange(len(group.cohorts)), positions].sum(axis=1)
    best = np.argsort(-rough)[:FITTED]
    z = group.pursue(keys[best], BEAM)
    edges: dict[str, list[str]] = {}
    for i in np.argsort(-z)[:BEAM].tolist():
        if z[i] > LEAST_Z:
            one, other = pairs[best[i]]
            edges.setdefault(one, []).append(other)
    return edges


def accepted(strings: Sequence[str], texts: Sequence[str], draw: Draw) -> list[str]:
    """Of the strings that were put together, those that a last group shows (Bonferroni)."""
    texts = list(dict.fromkeys(texts))
    whole = [key(f"whole/{''.join(blocks_of(string)).rstrip(' ')}", 0) for string in strings]
    group = draw(np.array(whole, dtype=np.uint64))
    keys = np.array([key(f"whole/{text}", 0) for text in texts], dtype=np.uint64)
    shown = significant(group, keys)
    return [text for text, named in zip(texts, shown.tolist(), strict=True) if named]


RIVALS: dict[str, tuple[Callable[[Sequence[str], Draw], list[str]], int]] = {
    "PEM": (pem, BLOCKS + 1),
    "SFP": (sfp, BLOCKS + 1),
    "n-grams": (ngrams, 2 * BLOCKS),
}
