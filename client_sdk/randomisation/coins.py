"""The noise of symbols: one of g symbols is kept or exchanged for another, exactly over 2**16."""

from __future__ import annotations

DRAW_BYTES = 2
_DRAWS = 1 << 8 * DRAW_BYTES


class SymbolCoin:
    """The randomised response of one round over g symbols, each written as one set bit of a
    word.

    kept: P(the symbol itself); lie: P(each other one); over 2**16, kept + (g - 1) * lie = 2**16.
    num_bytes: how many random bytes one `toss` takes. (Kairouz, Bonawitz, Ramage 2016, "Discrete
    distribution estimation under local privacy": k-ary randomised response.)
    """

    __slots__ = ("_kept", "_lie", "num_bytes")

    def __init__(self, kept: int, lie: int, num_symbols: int) -> None:
        """Raises ValueError where the chances do not add up (`RapporParams` has checked them)."""
        if kept + (num_symbols - 1) * lie != _DRAWS:
            raise ValueError(f"{kept} + {num_symbols - 1} * {lie} is not {_DRAWS}")
        self._kept = kept
        self._lie = lie
        self.num_bytes = DRAW_BYTES

    def toss(self, bits: int, random_bytes: bytes) -> int:
        """Keep the symbol, or replace it by one of the others; a single uniform number decides
        both."""
        draw = int.from_bytes(random_bytes, "little")
        if draw < self._kept:
            return bits
        other = (draw - self._kept) // self._lie
        own = bits.bit_length() - 1
        return 1 << (other + (other >= own))
