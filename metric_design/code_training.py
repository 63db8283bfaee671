"""Training of a prefix code on a public list of strings; devices do not need this module."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from rappor_core.codes.prefix_code import DIGITS, MAX_SYMBOLS, PrefixCode
from rappor_core.errors import ParameterError

END, ESCAPE = 256, 257
MIN_OCCURRENCES = 8  # A rarer context uses the code of the shorter context
RAREST = 2.0**-22  # The lowest probability, so that code words stay below 36 bits
_Counts = Mapping[bytes, Counter[int]]


def train_code(
    values: Iterable[bytes],
    name: str,
    *,
    order: int = 2,
    lower_case: bool = True,
    min_occurrences: int = MIN_OCCURRENCES,
) -> PrefixCode:
    """Train a prefix code in which strings such as `values` are short.

    The probability of a byte depends on the `order` bytes before it, and each context is smoothed
    with the next shorter context (Witten and Bell 1991, method C). Each context has a Huffman code.

    Args:
        values: The normalized strings of a public list (`rappor_core.hashing.normalize`), weighted
            equally.
        name: The name of the code table.
        order: The number of context bytes, 0 to 3.
        lower_case: Whether A to Z are encoded as a to z.
        min_occurrences: The minimum number of occurrences of a context with its own code.

    Raises:
        ParameterError: There are no strings.
    """
    counts = _count(values, order, lower_case)
    symbols = sorted(symbol for symbol in counts[b""] if symbol < END)
    if not symbols:
        raise ParameterError("a code is trained on strings, and the list is empty")
    if len(symbols) > MAX_SYMBOLS:
        symbols = sorted(sorted(symbols, key=lambda s: -counts[b""][s])[:MAX_SYMBOLS])
    every = [*symbols, END, ESCAPE]
    contexts = {}
    for context in sorted(counts, key=lambda c: (len(c), c)):
        if context and counts[context].total() < min_occurrences:
            continue
        lengths = _huffman(_probabilities(counts, context, every))
        contexts[context] = "".join(DIGITS[length] for length in lengths)
    return PrefixCode(name, order, lower_case, bytes(symbols), contexts)


def _count(values: Iterable[bytes], order: int, lower_case: bool) -> _Counts:
    """Count how often each symbol follows each context, of every length up to `order`."""
    counts: defaultdict[bytes, Counter[int]] = defaultdict(Counter)
    for value in values:
        data = bytes(order) + (value.lower() if lower_case else value)
        for place in range(order, len(data) + 1):
            symbol = data[place] if place < len(data) else END
            for length in range(order + 1):
                counts[data[place - length : place]][symbol] += 1
    counts[b""][ESCAPE] += 1
    return counts


def _probabilities(counts: _Counts, context: bytes, every: list[int]) -> list[float]:
    """Return P(symbol | context), smoothed with the shorter context, or uniform if it is empty."""
    here = counts[context]
    total, kinds = here.total(), len(here)
    below = _probabilities(counts, context[1:], every) if context else [1 / len(every)] * len(every)
    return [
        (here[symbol] + kinds * p) / (total + kinds) for symbol, p in zip(every, below, strict=True)
    ]


def _huffman(probabilities: list[float]) -> list[int]:
    """Return the length of each symbol's code word; ties go to the first symbol."""
    queue: list[tuple[float, int, tuple[int, ...]]]
    queue = [(max(p, RAREST), place, (place,)) for place, p in enumerate(probabilities)]
    heapq.heapify(queue)
    lengths = [0] * len(probabilities)
    while len(queue) > 1:
        (p, first, left), (other, _, right) = heapq.heappop(queue), heapq.heappop(queue)
        for place in (*left, *right):
            lengths[place] += 1
        heapq.heappush(queue, (p + other, first, (*left, *right)))
    return lengths
