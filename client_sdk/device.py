"""One device and one metric: its cohort, both rounds, and the ledger's digests.

Kept apart from `rappor_core.report`, so that an app that records does not load the wire format.
"""

from __future__ import annotations

from functools import lru_cache

from client_sdk.identity import DIGEST_BYTES, cohort_of, derive
from client_sdk.randomness import Randomness
from client_sdk.responses import InstantaneousRound, PermanentRound
from rappor_core.metrics import Metric

MAX_REMEMBERED = 256  # values whose permanent response is kept in memory, for speed alone


class MetricDevice:
    """What one device does with values of one metric.

    cohort: public.
    line: the name that the ledger charges and by which responses are keyed: sub-metrics
        `name/slot/level` share that of `name`, so that a value seen in several is paid once.
    """

    __slots__ = (
        "_bits_bytes",
        "_instantaneous",
        "_permanent",
        "_remembered",
        "_secret",
        "cohort",
        "line",
        "metric",
        "params_id",
    )

    def __init__(self, metric: Metric, secret: bytes, randomness: Randomness) -> None:
        """Derive the cohort and prepare both rounds. secret: 32 bytes, private."""
        params = metric.params
        self.metric = metric
        self.params_id = _params_id(metric)
        self.line = base_name(metric.name)
        self.cohort = cohort_of(secret, self.line, params.num_cohorts)
        self._secret = secret
        self._bits_bytes = params.report_bytes
        mechanism, k, symbol = params.mechanism, params.num_bits, params.encoding == "symbol"
        self._permanent = PermanentRound(
            secret, self.line, self.params_id, mechanism, k, symbol=symbol
        )
        self._instantaneous = InstantaneousRound(mechanism, k, randomness, symbol=symbol)
        self._remembered: dict[int, tuple[int, bytes]] = {}

    def value_bits(self, value: object) -> int:
        """B of a value, k bits. Raises ValueRefusedError. Private."""
        return self.metric.value_bits(value, self.cohort)

    def report_bits(self, bloom_bits: int) -> bytes:
        """S as on the wire: both rounds over B, fresh at each call."""
        report_bits = self._instantaneous(self._permanent(bloom_bits))
        return report_bits.to_bytes(self._bits_bytes, "little")

    def report_and_digest(self, bloom_bits: int) -> tuple[bytes, bytes]:
        """As `report_bits`, with the digest of the permanent response that it was made from.

        Both derivations are remembered for the values seen last.
        """
        known = self._remembered.get(bloom_bits)
        if known is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            known = self._permanent(bloom_bits), self.digest(bloom_bits)
            self._remembered[bloom_bits] = known
        permanent_bits, digest = known
        report_bits = self._instantaneous(permanent_bits)
        return report_bits.to_bytes(self._bits_bytes, "little"), digest

    def permanent_bits(self, bloom_bits: int) -> int:
        """B' of B. Private: for audits."""
        return self._permanent(bloom_bits)

    def digest(self, bloom_bits: int) -> bytes:
        """16 bytes that stand for a memoised response in the ledger. Private, and keyed.

        Two values with the same bits share one permanent response, and so one digest.
        """
        line, params_id = self.line.encode(), bytes.fromhex(self.params_id)
        bits = bloom_bits.to_bytes(self._bits_bytes, "little")
        return derive(self._secret, b"ledger", line, params_id, bits, length=DIGEST_BYTES)

    def fallback_bits(self) -> int:
        """B of the declared fallback. Only for a metric that has one."""
        return self.value_bits(self.metric.fallback)

    def reserved_bits(self) -> list[int]:
        """What must be memoised before any value: the fallback, or all values where there is none.

        (A metric without a fallback has so few values that all fit in its cap.)
        """
        metric = self.metric
        if metric.fallback is not None:
            return [self.fallback_bits()]
        if metric.kind == "boolean":
            return [self.value_bits(value) for value in (False, True)]
        return [self.value_bits(category) for category in metric.categories]


def base_name(name: str) -> str:
    """The metric that a sub-metric `name/slot/level` belongs to; a plain name is its own."""
    return name.partition("/")[0]


@lru_cache(maxsize=4096)
def _params_id(metric: Metric) -> str:
    """Digested once a metric, not once a device."""
    return metric.params_id
