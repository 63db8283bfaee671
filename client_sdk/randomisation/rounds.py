"""The two rounds of the randomised response (arXiv:1407.6981, section 2, steps 2 and 3).

The permanent one is a pseudo-random function of (secret, metric, params_id, bits): the same for
life, with nothing to store. The instantaneous one is fresh for every report. Both toss the coins
of `randomness.CoinPair`; they differ in where the uniform bytes come from.
"""

from __future__ import annotations

from hashlib import shake_256

from client_sdk.randomisation.key_derivation import CoinPair, Randomness, keyed_input
from rappor_core.mechanism import TwoRoundMechanism

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


class PermanentRound:
    """The permanent randomized response (B to B') for one device, metric and set of parameters.
    All of it is private."""

    __slots__ = ("_bits_bytes", "_num_bytes", "_prefix", "_toss")

    def __init__(
        self,
        secret: bytes,
        metric: str,
        params_id: str,
        mechanism: TwoRoundMechanism,
        num_bits: int,
        *,
        symbol: bool = False,
    ) -> None:
        """Prepare the keyed input up to the bits, which come last. symbol: one bit of k is set."""
        coins = _coins(mechanism.p1, mechanism.q1, num_bits, symbol)
        self._toss, self._num_bytes = coins.toss, coins.num_bytes
        self._bits_bytes = (num_bits + 7) // 8
        fields = keyed_input(secret, b"permanent", metric.encode(), bytes.fromhex(params_id))
        self._prefix = fields + self._bits_bytes.to_bytes(4, "big")

    def __call__(self, bits: int) -> int:
        """B' of k bits, always the same for the same B."""
        keyed = self._prefix + bits.to_bytes(self._bits_bytes, "little")
        toss = self._toss  # a local name: calling a slot by its attribute costs as much as a coin
        return toss(bits, shake_256(keyed).digest(self._num_bytes))


class InstantaneousRound:
    """The instantaneous randomized response (B' to S). S is public once sent; its random bytes
    are not kept."""

    __slots__ = ("_num_bytes", "_randomness", "_toss")

    def __init__(
        self,
        mechanism: TwoRoundMechanism,
        num_bits: int,
        randomness: Randomness,
        *,
        symbol: bool = False,
    ) -> None:
        """Prepare the coins for p2 and q2. symbol: one bit of k is set."""
        coins = _coins(mechanism.p2, mechanism.q2, num_bits, symbol)
        self._toss, self._num_bytes = coins.toss, coins.num_bytes
        self._randomness = randomness

    def __call__(self, permanent_bits: int) -> int:
        """S of k bits, drawn anew at each call."""
        toss, randomness = self._toss, self._randomness
        return toss(permanent_bits, randomness(self._num_bytes))


def _coins(if_one: int, if_zero: int, num_bits: int, symbol: bool) -> CoinPair | SymbolCoin:
    """Toss each bit on its own, or one symbol for another."""
    coin = SymbolCoin if symbol else CoinPair
    return coin(if_one, if_zero, num_bits)
