"""The text of a metric in `metrics.toml`, from its keys."""

import json
from typing import Any

ALWAYS = {"description": "d", "owner": "o@example.org", "expires": "2099-06-30"}


def declaration(name: str, kind: str, **keys: Any) -> str:
    """A metric of a kind. What is said of people and of time has a value unless it is given."""
    given = {"kind": kind} | ALWAYS | keys
    return f"\n[metrics.{name}]\n" + "".join(f"{key} = {_toml(key, given[key])}\n" for key in given)


def _toml(key: str, value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{one} = {_toml(one, value[one])}" for one in value) + " }"
    return str(value) if key == "expires" else json.dumps(value)


def word(name: str) -> str:
    """A metric of strings that 40,000 devices show well."""
    return declaration(
        name, "string", description="A word", num_bits=64, num_hashes=1, num_cohorts=8,
        fallback="other", mechanism="l-sue",
        epsilon_infinity=4.0, epsilon_one=2.0, max_memoized_values=2,
    )  # fmt: skip
