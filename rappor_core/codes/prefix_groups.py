"""Groups of cohorts of a `discover` metric: each hashes a prefix of another length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rappor_core.codes.prefix_code import PrefixCode, packaged_code, read_code
from rappor_core.errors import ParameterError, check_whole, shown
from rappor_core.frozen import Frozen

MAX_CODE_BITS = 64
MAX_BITS_PER_LEVEL = 16
_FIELDS = {"code", "code_sha256", "code_table", "num_levels", "bits_per_level"}


class PrefixGroups(Frozen):
    """The public tables of a metric that finds strings.

    code: how a string becomes bits.
    num_levels: groups of cohorts that hash the first 1, 2, ... `num_levels` parts of the code; one
        group more hashes all of it again, and is only counted.
    bits_per_level: bits of a part; num_levels * bits_per_level is 64 at most.
    packaged: whether the table comes with the package, or is in the definition itself.

    Raises ParameterError.
    """

    code: PrefixCode
    num_levels: int = 4
    bits_per_level: int = 16
    packaged: bool = True

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, lowest, most in (("num_levels", 2, 8), ("bits_per_level", 4, MAX_BITS_PER_LEVEL)):
            check_whole(name, getattr(self, name), lowest, most)
        if self.code_bits > MAX_CODE_BITS:
            raise ParameterError(
                f"num_levels = {self.num_levels} of bits_per_level = {self.bits_per_level} are "
                f"{self.code_bits} bits; {MAX_CODE_BITS} at most"
            )

    @property
    def num_groups(self) -> int:
        """Number of groups of cohorts: one for each level, and one that counts."""
        return self.num_levels + 1

    @property
    def code_bits(self) -> int:
        """Number of bits of a whole code."""
        return self.num_levels * self.bits_per_level

    def group_of(self, cohort: int, num_cohorts: int) -> int:
        """Find the group of a cohort; groups are equal runs of cohorts, in order.

        Args:
            cohort: From 0.
            num_cohorts: Cohorts of the metric.

        Returns:
            The group, from 0; the last one counts.
        """
        return cohort * self.num_groups // num_cohorts

    def prefix_bits(self, group: int) -> int:
        """Return the number of bits of the code that a group hashes."""
        return self.bits_per_level * min(group + 1, self.num_levels)

    def prefix(self, data: bytes, group: int) -> int:
        """Compute the first bits of a string's code, as many as a group hashes.

        Args:
            data: The string's bytes. Private on a device.
            group: From 0.

        Returns:
            The bits as an integer. Private on a device.
        """
        return self.code.encode(data, self.prefix_bits(group))

    def key(self, prefix: int, group: int) -> bytes:
        """Pack a prefix into the bytes that are hashed, with zeros to the end of the last byte.

        Args:
            prefix: The bits as an integer.
            group: From 0; determines how many bits there are.

        Returns:
            The bytes, bits from the left.
        """
        num_bits = self.prefix_bits(group)
        num_bytes = (num_bits + 7) // 8
        return (prefix << (8 * num_bytes - num_bits)).to_bytes(num_bytes, "big")

    def to_dict(self) -> dict[str, Any]:
        """Return the groups as plain values; with the code table unless it comes with the
        package."""
        return {
            "code": self.code.name,
            "code_sha256": self.code.digest,
            "code_table": None if self.packaged else self.code.text,
            "num_levels": self.num_levels,
            "bits_per_level": self.bits_per_level,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> PrefixGroups:
        """Read the plain values that `to_dict` makes.

        Raises ParameterError, also for a table that is not the one of the definition.
        """
        if fields.keys() != _FIELDS:
            wrong = sorted(map(ascii, fields.keys() ^ _FIELDS))
            raise ParameterError(f"details lack or have unknown keys: {', '.join(wrong)}")
        name, table = fields["code"], fields["code_table"]
        code = packaged_code(name) if table is None else read_code(table)
        if (code.name, code.digest) != (name, fields["code_sha256"]):
            raise ParameterError(
                f"the code table {shown(name)} here has SHA-256 {code.digest}, the definition says "
                f"{shown(fields['code_sha256'])}: use the version of the package that it was "
                "declared with"
            )
        return cls(code, fields["num_levels"], fields["bits_per_level"], packaged=table is None)
