"""Train a prefix code on a public list of strings. Not needed on a device."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from rappor_core.codes.prefix_code import DIGITS, MAX_SYMBOLS, PrefixCode
from rappor_core.errors import ParameterError

END, ESCAPE = 256, 257
MIN_OCCURRENCES = 8  # of a context, below which the shorter one serves as well
RAREST = 2.0**-22  # the least probability: code words stay below 36 bits
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

    Probabilities of a byte by the `order` bytes before it, each context smoothed by the shorter
    one (Witten and Bell 1991, method C); a Huffman code of each context.

    Args:
        values: normalized strings (`rappor_core.hashing.normalize`), each alike; a public list.
        name: of the table.
        order: bytes of context, 0 to 3.
        lower_case: whether A to Z are coded as a to z.
        min_occurrences: of a context that gets a separate code.

    Raises:
        ParameterError: no strings, or too many different bytes for a table.
    """
    counts = _count(values, order, lower_case)
    symbols = sorted(symbol for symbol in counts[b""] if symbol < END)
    if not symbols:
        raise ParameterError("a code is trained on strings; the list has none")
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
    """How often each symbol follows each context, of every length up to `order`."""
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
    """P(symbol | context), interpolated with the shorter context; the last with a flat one."""
    here = counts[context]
    total, kinds = here.total(), len(here)
    below = _probabilities(counts, context[1:], every) if context else [1 / len(every)] * len(every)
    return [
        (here[symbol] + kinds * p) / (total + kinds) for symbol, p in zip(every, below, strict=True)
    ]


def _huffman(probabilities: list[float]) -> list[int]:
    """Lengths of the code words; ties go to the first, so that a list gives one table."""
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
