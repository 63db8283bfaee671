"""`bloom`: k bits, h hashes, by cohort (arXiv:1407.6981, section 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rappor_core.encodings.interface import Encoding
from rappor_core.errors import ParameterError
from rappor_core.hashing import bloom_bits, normalise
from rappor_core.params import MD5_MAX_BITS, MD5_MAX_HASHES, RapporParams

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric


class HashedEncoding(Encoding):
    """An encoding whose bit positions are hashes of the value as a string."""

    hashed = True

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """The bits of a value: hashes of its normalised text in a cohort."""
        text = metric.rules.text(metric, value)
        return bloom_bits(normalise(text), cohort, metric.params)


class Bloom(HashedEncoding):
    """The encoding of any string as a Bloom filter."""

    name = "bloom"

    def check(self, params: RapporParams) -> None:
        """Require two bits or more; for `md5` no more hashes than a digest has bytes. Raises
        ParameterError."""
        if params.num_bits < 2:
            raise ParameterError(f"num_bits = {params.num_bits}: a Bloom filter needs 2 or more")
        too_large = params.num_bits > MD5_MAX_BITS or params.num_hashes > MD5_MAX_HASHES
        if params.hash == "md5" and too_large:
            raise ParameterError(
                f"hash = 'md5' allows num_bits <= {MD5_MAX_BITS} and num_hashes <= "
                f"{MD5_MAX_HASHES}, not {params.num_bits} and {params.num_hashes}; use 'mmh3'"
            )


ENCODING = Bloom()
