"""The encoders that convert a device's values to report bits, for one metric or for all.

A value becomes bits B. The permanent round turns them into B', the instantaneous round B' into S
(arXiv:1407.6981, section 2, steps 1 to 3). The permanent round is a pseudo-random function of
(secret, metric, params_id, bits): it stays the same over the device's lifetime and needs no
storage. The instantaneous round is fresh for each report. Both rounds use the same coin code with
different sources of random bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from hashlib import shake_256
from typing import TYPE_CHECKING, Any

from client_sdk.errors import UnknownMetricError
from client_sdk.randomization.key_derivation import (
    DIGEST_BYTES,
    SECRET_BYTES,
    Randomness,
    cohort_of,
    derive,
    jitter_of,
    keyed_input,
    system_randomness,
)
from rappor_core.errors import ParameterError, ValueRefusedError
from rappor_core.hashing import MAX_VALUE_CHARS
from rappor_core.mechanism import PROBABILITY_BITS, PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.metrics.metric import Metric

if TYPE_CHECKING:
    from datetime import date

    from rappor_core.wire.report import Report

MAX_REMEMBERED = 256  # the maximum number of values whose derivations are cached for speed
MAX_REMEMBERED_CHARS = 256
DRAW_BYTES = 2
_DRAWS = 1 << 8 * DRAW_BYTES


class MetricEncoder:
    """An encoder for one metric's values on one device.

    `cohort` is public. `line` is the name under which the ledger charges budget and responses are
    keyed. Sub-metrics `name/slot/level` share the line of `name`, so a value seen in several costs
    budget only once.
    """

    __slots__ = (
        "_bits_bytes",
        "_bits_of",
        "_digest_of",
        "_instantaneous",
        "_jitter",
        "_permanent",
        "_permanent_of",
        "cohort",
        "line",
        "metric",
        "params_id",
    )

    def __init__(self, metric: Metric, secret: bytes, randomness: Randomness) -> None:
        """Derive the cohort and prepare both rounds; `secret` has 32 bytes and is private."""
        params = metric.params
        self.metric = metric
        self.params_id = metric.params_id
        self.line = metric.base_name
        self.cohort = cohort_of(secret, self.line, params.num_cohorts)
        jittered = metric.rules.jittered(metric)
        self._jitter = jitter_of(secret, self.line, self.params_id) if jittered else 0.0
        self._bits_bytes = params.report_bytes
        mechanism, k, symbol = params.mechanism, params.num_bits, params.scheme.symbols
        self._permanent = PermanentRound(
            secret, self.line, self.params_id, mechanism, k, symbol=symbol
        )
        self._instantaneous = InstantaneousRound(mechanism, k, randomness, symbol=symbol)
        encode, cohort, width = params.scheme.value_bits, self.cohort, self._bits_bytes
        fields = self.line.encode(), bytes.fromhex(self.params_id)

        def digest(bloom_bits: int) -> bytes:
            bits = bloom_bits.to_bytes(width, "little")
            return derive(secret, b"ledger", *fields, bits, length=DIGEST_BYTES)

        self._bits_of = _Remembered(lambda value: encode(metric, value, cohort))
        self._permanent_of = _Remembered(self._permanent)
        self._digest_of = _Remembered(digest)

    def value_bits(self, value: object) -> int:
        """Return the k bits B of a value. Raises ValueRefusedError if it is invalid. Private."""
        if not ((type(value) is str and len(value) <= MAX_REMEMBERED_CHARS) or type(value) is bool):
            self._check_length(value)
            scheme = self.metric.params.scheme
            return scheme.jittered_bits(self.metric, value, self.cohort, self._jitter)
        bits: int = self._bits_of[value]
        return bits

    def cuts(self) -> list[float]:
        """Return the increasing thresholds with which this device compares its numbers. Private."""
        number, symbols = self.metric.details, self.metric.params.num_bits
        cuts: list[float] = number.thresholds(self.cohort, symbols, self._jitter)
        return cuts

    def _check_length(self, value: object) -> None:
        if isinstance(value, str) and len(value) > MAX_VALUE_CHARS:
            raise ValueRefusedError(
                f"metric {self.metric.name!r} takes strings of {MAX_VALUE_CHARS:,} characters at "
                "most; record a part of the value, or a digest of it"
            )

    def report_bits(self, bloom_bits: int) -> bytes:
        """Return the report bits S as sent; each call draws the second round again."""
        permanent_bits: int = self._permanent_of[bloom_bits]
        # calling `__call__` by name skips the interpreter's slower path for callable objects
        return self._instantaneous.__call__(permanent_bits).to_bytes(self._bits_bytes, "little")

    def permanent_bits(self, bloom_bits: int) -> int:
        """Return the permanent bits B' of B. Private; only for audits."""
        return self._permanent(bloom_bits)

    def digest(self, bloom_bits: int) -> bytes:
        """Return the keyed digest, 16 bytes, of a memoized response in the ledger. Private.

        Values with the same bits share one permanent response, and therefore one digest. If the
        encoding has `one_entry`, all values share one digest.
        """
        digest: bytes = self._digest_of[0 if self.metric.params.scheme.one_entry else bloom_bits]
        return digest

    def fallback_bits(self) -> int:
        """Return the bits B of the declared fallback. Requires a metric with a fallback."""
        return self.value_bits(self.metric.fallback)

    def reserved_bits(self) -> list[int]:
        """Return the bits B of the values to memoize first, which may be needed at any time.

        These are the bits of the fallback and of "no data", or of all values if there is no
        fallback. (Without a fallback, a metric has so few values that its cap covers all of them.)
        """
        metric = self.metric
        if metric.fallback is not None:
            always = (metric.fallback, metric.no_data)
            return [self.value_bits(value) for value in always if value is not None]
        return [self.value_bits(value) for value in metric.rules.all_values(metric)]


class Encoder:
    """An encoder for one device's values, without a ledger to limit values and reports.

    `metrics` are the declared metrics, by name. `secret` has 32 bytes and is private. `randomness`
    is the source of the instantaneous responses.
    """

    __slots__ = ("_encoders", "_report")

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        secret: bytes,
        randomness: Randomness = system_randomness,
    ) -> None:
        """Prepare the encoder. Raises ParameterError if the secret does not have 32 bytes."""
        from rappor_core.wire.report import Report  # a device in an app does not need it

        if len(secret) != SECRET_BYTES:
            raise ParameterError(
                f"a secret has {SECRET_BYTES} bytes, not {len(secret)}: make it with "
                "new_secret(system_randomness), once per device"
            )

        @cache  # unlimited, so that no metric is prepared more than once
        def prepared(name: str) -> MetricEncoder:
            if name not in metrics:
                raise UnknownMetricError(name, metrics)
            return MetricEncoder(metrics[name], secret, randomness)

        self._report = Report
        self._encoders = prepared

    def encode(self, name: str, value: object, day: date) -> Report:
        """Return a fresh report for a value, from both rounds.

        Args:
            name: The name of a declared metric.
            value: The value, in the form that the metric's kind accepts. Private.
            day: The day of the report, UTC.

        Returns:
            The report; every call draws its instantaneous response again.

        Raises:
            UnknownMetricError: The metric is not declared.
            ValueRefusedError: The metric cannot encode the value.
        """
        encoder = self._encoders(name)
        bits = encoder.report_bits(encoder.value_bits(value))
        # like Report(...), whose generated constructor is half as fast
        return tuple.__new__(self._report, (name, encoder.params_id, encoder.cohort, day, bits))

    def metric(self, name: str) -> MetricEncoder:
        """Return the encoder of one metric on this device. Raises UnknownMetricError if unknown."""
        return self._encoders(name)


class _Remembered(dict[Any, Any]):
    """A cache of derived values by input, which is cleared when full."""

    __slots__ = ("_derive",)

    def __init__(self, derive: Callable[[Any], Any]) -> None:
        self._derive = derive

    def __missing__(self, key: Any) -> Any:
        if len(self) >= MAX_REMEMBERED:
            self.clear()
        value = self[key] = self._derive(key)
        return value


class PermanentRound:
    """The permanent randomized response (B to B') of one device and metric. Private."""

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
        """Prepare the keyed input before the bits; `symbol`: exactly one of k bits is set."""
        coins = _coins(mechanism.p1, mechanism.q1, num_bits, symbol)
        self._toss, self._num_bytes = coins.toss, coins.num_bytes
        self._bits_bytes = (num_bits + 7) // 8
        fields = keyed_input(secret, b"permanent", metric.encode(), bytes.fromhex(params_id))
        self._prefix = fields + self._bits_bytes.to_bytes(4, "big")

    def __call__(self, bits: int) -> int:
        """Return B' of k bits, which is always the same for the same B."""
        keyed = self._prefix + bits.to_bytes(self._bits_bytes, "little")
        toss = self._toss  # a local name, because an attribute look-up costs as much as a coin
        return toss(bits, shake_256(keyed).digest(self._num_bytes))


class InstantaneousRound:
    """The instantaneous randomized response (B' to S). S is public once sent."""

    __slots__ = ("_num_bytes", "_randomness", "_toss")

    def __init__(
        self,
        mechanism: TwoRoundMechanism,
        num_bits: int,
        randomness: Randomness,
        *,
        symbol: bool = False,
    ) -> None:
        """Prepare the coins for p2 and q2; `symbol` means that exactly one of k bits is set."""
        coins = _coins(mechanism.p2, mechanism.q2, num_bits, symbol)
        self._toss, self._num_bytes = coins.toss, coins.num_bytes
        self._randomness = randomness

    def __call__(self, permanent_bits: int) -> int:
        """Return S of k bits, drawn again at each call."""
        toss, randomness = self._toss, self._randomness
        return toss(permanent_bits, randomness(self._num_bytes))


def _coins(if_one: int, if_zero: int, num_bits: int, symbol: bool) -> CoinPair | SymbolCoin:
    coin = SymbolCoin if symbol else CoinPair
    return coin(if_one, if_zero, num_bits)


class CoinPair:
    """Biased coins for all bits of a word: one for bits that are 1, and one for bits that are 0.

    Attributes:
        if_one, if_zero: P(result 1) for a 1 and for a 0, times 2**16.
        num_bits: The number of bits, k.
        num_bytes: The number of random bytes that one `toss` uses.

    The two coins share the uniform words. Each bit uses only one of them, so the coins may depend
    on each other. Bits stay independent of one another.
    """

    __slots__ = ("_digits", "_mask", "_start", "_word_bits", "num_bytes")

    def __init__(self, if_one: int, if_zero: int, num_bits: int) -> None:
        """Prepare the binary digits of `if_one` and `if_zero`, the coins' thresholds."""
        zeros = min(_trailing_zeros(if_one), _trailing_zeros(if_zero))
        # a coin that is always 1 starts with an endless word of ones, -1, and uses only ORs
        self._start = one, zero = -(if_one >> PROBABILITY_BITS), -(if_zero >> PROBABILITY_BITS)
        self._digits = tuple(
            (bool(if_one + one >> place & 1), bool(if_zero + zero >> place & 1))
            for place in range(zeros, PROBABILITY_BITS)
        )
        self._mask = (1 << num_bits) - 1
        word_bytes = (num_bits + 7) // 8
        self._word_bits = 8 * word_bytes
        self.num_bytes = len(self._digits) * word_bytes

    def toss(self, bits: int, random_bytes: bytes) -> int:
        """Toss the coins for a word of k bits, using `num_bytes` uniform bytes.

        The bytes contain uniform words of ceil(k / 8) bytes, little-endian; the first word belongs
        to the least significant digit that matters. Surplus high bits of a word are ignored.
        """
        words = int.from_bytes(random_bytes, "little")  # bits above k are masked at the end
        ones, zeros = self._start
        word_bits = self._word_bits
        for digit_one, digit_zero in self._digits:
            ones = ones | words if digit_one else ones & words
            zeros = zeros | words if digit_zero else zeros & words
            words >>= word_bits
        return (zeros ^ (bits & (ones ^ zeros))) & self._mask


def _trailing_zeros(threshold: int) -> int:
    """Return how many low binary digits of a threshold need no random word; 16 if constant."""
    if threshold in (0, PROBABILITY_SCALE):
        return PROBABILITY_BITS
    return (threshold & -threshold).bit_length() - 1


class SymbolCoin:
    """Randomized response over g symbols, each represented by one set bit in a word.

    `keep` is P(the symbol itself) and `lie` is P(each other symbol), times 2**16, with keep + (g -
    1) * lie = 2**16. One `toss` uses `num_bytes` random bytes. (Kairouz, Bonawitz, Ramage 2016,
    "Discrete distribution estimation under local privacy": k-ary randomized response.)
    """

    __slots__ = ("_kept", "_lie", "num_bytes")

    def __init__(self, keep: int, lie: int, num_symbols: int) -> None:
        if keep + (num_symbols - 1) * lie != _DRAWS:
            raise ValueError(f"{keep} + {num_symbols - 1} * {lie} is not {_DRAWS}")
        self._kept = keep
        self._lie = lie
        self.num_bytes = DRAW_BYTES

    def toss(self, bits: int, random_bytes: bytes) -> int:
        """Keep or replace the symbol; one uniform number decides whether and by which other."""
        draw = int.from_bytes(random_bytes, "little")
        if draw < self._kept:
            return bits
        other = (draw - self._kept) // self._lie
        symbol = bits.bit_length() - 1
        return 1 << (other + (other >= symbol))
