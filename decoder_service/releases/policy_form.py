"""The policy of a release as fields of a form, and as the TOML that they stand for."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any

from decoder_service.shell.errors import FieldError, RequestError
from decoder_service.shell.web import Posted

TEXTS = {"owner": "Publisher", "audience": "Audience"}
NUMBERS = {  # name: label, default, unit
    "min_reports": ("Reports of a table, at least", "1000", "reports"),
    "min_low": ("Smallest lower end that is shown", "0.1", "%"),
    "rounding": ("Step of shares", "0.1", "%"),
    "reports_rounding": ("Step of numbers of reports", "100", "reports"),
    "sealed_after_days": ("Late reports are accepted for", "7", "days"),
}
_SHARES = {"min_low", "rounding"}  # in the file as shares
PREFIX = "policy_"


def policy_of_form(form: Posted) -> str:
    """The text of the policy: typed as TOML, or made of the fields. Raises FieldError."""
    typed = form.text("policy").replace("\r\n", "\n")
    return typed if typed or not form.text("fields") else toml_of_fields(form)


def toml_of_fields(form: Posted) -> str:
    """A release.toml of what the fields say. Raises FieldError for a number that is none."""
    lines = [f"{name} = {_quoted(form.text(PREFIX + name))}" for name in TEXTS]
    lines += [f"{name} = {_number(form, name)}" for name in NUMBERS]
    strata = [part.strip() for part in form.text(PREFIX + "strata").split(",") if part.strip()]
    return "\n".join([*lines, f"strata = [{', '.join(map(_quoted, strata))}]", ""])


def fields_of_toml(text: str) -> dict[str, list[str]]:
    """The fields of a policy in TOML. Raises RequestError where it says what no field can."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RequestError(f"the policy is no TOML: {error}") from None
    more = sorted(table.keys() - TEXTS.keys() - NUMBERS.keys() - {"strata"})
    if more:
        raise RequestError(f"the policy has {', '.join(more)}, which only release.toml can say")
    return {PREFIX + name: [_shown(name, value)] for name, value in table.items()}


def _shown(name: str, value: Any) -> str:
    if name in _SHARES and isinstance(value, int | float):
        return f"{100 * value:.12g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _number(form: Posted, name: str) -> str:
    label, _, unit = NUMBERS[name]
    typed = form.text(PREFIX + name).replace(",", "")
    try:
        number = float(typed) / 100 if name in _SHARES else int(typed)
    except ValueError:
        number = -1
    if not 0 <= number <= 10**15:
        what = "number of per cent" if unit == "%" else f"whole number of {unit}"
        raise FieldError(f"{label}: {typed[:20]!a} is not a {what}", PREFIX + name)
    return f"{number:.12g}" if name in _SHARES else str(number)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def default_fields() -> Mapping[str, list[str]]:
    """The fields of a new form."""
    return {PREFIX + name: [default] for name, (_, default, _) in NUMBERS.items()}
