"""The cohort groups of a `discover` metric, each of which hashes a prefix of a different length."""

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
    """The division of a `discover` metric's cohorts into groups, and the code for its strings.

    Raises ParameterError if a field is invalid.
    """

    code: PrefixCode  # the code that converts a string to bits
    # The number of groups that hash the first 1, 2, ... `num_levels` parts of the code. One
    # additional group hashes the whole code again and is used only for counting.
    num_levels: int = 4
    bits_per_level: int = 16  # the bits in a part; num_levels * bits_per_level is at most 64
    packaged: bool = True  # whether the code table ships with the package and not in the definition

    def __post_init__(self) -> None:
        for name, lowest, most in (("num_levels", 2, 8), ("bits_per_level", 4, MAX_BITS_PER_LEVEL)):
            check_whole(name, getattr(self, name), lowest, most)
        if self.code_bits > MAX_CODE_BITS:
            raise ParameterError(
                f"num_levels = {self.num_levels} times bits_per_level = {self.bits_per_level} is "
                f"{self.code_bits} bits; the limit is {MAX_CODE_BITS}"
            )

    @property
    def num_groups(self) -> int:
        """Return the number of cohort groups: one for each level, and one for counting."""
        return self.num_levels + 1

    @property
    def code_bits(self) -> int:
        """Return the number of bits in a complete code."""
        return self.num_levels * self.bits_per_level

    def group_of(self, cohort: int, num_cohorts: int) -> int:
        """Return the group of a cohort; groups are equal runs of cohorts, in order.

        Args:
            cohort: The cohort, from 0.
            num_cohorts: The number of cohorts of the metric.

        Returns:
            The group, from 0; the last one is for counting.
        """
        return cohort * self.num_groups // num_cohorts

    def prefix_bits(self, group: int) -> int:
        """Return the number of code bits that a group hashes."""
        return self.bits_per_level * min(group + 1, self.num_levels)

    def prefix(self, data: bytes, group: int) -> int:
        """Return the first bits of a string's code: the prefix that a group hashes.

        Args:
            data: The string's bytes. Private on a device.
            group: The group, from 0.

        Returns:
            The bits as an integer. Private on a device.
        """
        return self.code.encode(data, self.prefix_bits(group))

    def key(self, prefix: int, group: int) -> bytes:
        """Pack a prefix into the bytes to hash, and fill the last byte with zeros.

        Args:
            prefix: The bits as an integer.
            group: The group, from 0, which determines the number of bits.

        Returns:
            The bytes; the first bit is the most significant.
        """
        num_bits = self.prefix_bits(group)
        num_bytes = (num_bits + 7) // 8
        return (prefix << (8 * num_bytes - num_bits)).to_bytes(num_bytes, "big")

    def to_dict(self) -> dict[str, Any]:
        """Return the groups as plain values, with the code table unless it is packaged."""
        return {
            "code": self.code.name,
            "code_sha256": self.code.digest,
            "code_table": None if self.packaged else self.code.text,
            "num_levels": self.num_levels,
            "bits_per_level": self.bits_per_level,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> PrefixGroups:
        """Read the plain values that `to_dict` returns.

        Raises ParameterError if they are invalid, or if the installed code table differs from the
        table in the definition.
        """
        if fields.keys() != _FIELDS:
            wrong = sorted(map(ascii, fields.keys() ^ _FIELDS))
            raise ParameterError(f"details lack or have unknown keys: {', '.join(wrong)}")
        name, table = fields["code"], fields["code_table"]
        code = packaged_code(name) if table is None else read_code(table)
        if (code.name, code.digest) != (name, fields["code_sha256"]):
            raise ParameterError(
                f"the code table {shown(name)} here has SHA-256 {code.digest}, the definition says "
                f"{shown(fields['code_sha256'])}: use the package version with which the metric "
                "was declared"
            )
        return cls(code, fields["num_levels"], fields["bits_per_level"], packaged=table is None)
