"""All errors of the product, in one hierarchy.

RapporError
|-- ParameterError           a parameter outside its range, or a combination that cannot work
|   `-- InformationLostError f = 1 or p = q: nothing can be learned from the reports
|-- ValueRefusedError        a value that the metric cannot encode
|-- MetricsFileError         a mistake in metrics.toml: the message names metric, key and value
|-- WireFormatError          bytes that are not a report or a batch of a known version
|-- AggregateError           aggregates that do not match, or impossible counts
`-- EncapsulationError       bytes that are not an encapsulated message
    `-- UnknownKeyError      a request for a key that its receiver does not have

Messages repeat the bad value and state the remedy. No message contains a secret.
"""

from collections.abc import Iterable
from reprlib import Repr

_SHOWN_CHARACTERS = 60


def shown(value: object) -> str:
    """Format a bad value for a message: ASCII without terminal escapes, shortened if long."""
    if type(value) is int and value.bit_length() > 1_000:
        return f"an integer of {value.bit_length()} bits"
    short = Repr()
    short.maxstring = short.maxother = _SHOWN_CHARACTERS
    short.maxlist = short.maxtuple = 8
    short.maxdict = short.maxlevel = 3
    return short.repr(value).encode("ascii", "backslashreplace").decode("ascii")


def meant(wrong: object, names: Iterable[str]) -> str:
    """Suggest the known word nearest to a wrong one, for the end of a message.

    Args:
        wrong: The wrong word.
        names: The valid words.

    Returns:
        A hint such as `; did you mean 'day'?`, or "" if no word is near.
    """
    from difflib import get_close_matches  # imported only when an error occurs

    name, words = str(wrong)[:_SHOWN_CHARACTERS], list(names)
    cut_short = [word for word in sorted(words) if len(name) > 3 and word.startswith(name)]
    near = sorted(cut_short, key=len) or get_close_matches(name, words, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def toml_problem(error: ValueError, text: str = "") -> str:
    """Explain in plain English why a text is not TOML.

    Args:
        error: The parser's error.
        text: The text, to show the line; leave it out if it may contain a secret.

    Returns:
        The reason, with the line if known.
    """
    message = str(error)
    where = message.rpartition("(at ")[2].rstrip(")") if "(at " in message else ""
    if not where:
        return "not TOML: a number in it has too many digits"
    twice = any(word in message for word in ("twice", "overwrite", "mutate"))
    what = "a key or a table appears twice" if twice else "it cannot be read"
    if "Invalid date" in message:
        what = "there is no such date or time"
    if text and where.startswith("line "):
        line = text.split("\n")[int(where[5:].partition(",")[0]) - 1]
        where += f": {shown(line.strip())}"
    return f"not TOML: {what} at {where.replace('end of document', 'the end')}"


def file_problem(error: OSError | UnicodeDecodeError) -> str:
    """Return why a file cannot be read, without error numbers or Python's terms."""
    if isinstance(error, OSError):
        return (error.strerror or "it is not a file").lower()
    return "it is not UTF-8"


class RapporError(Exception):
    """Base class of every error that this product raises on purpose."""


class ParameterError(RapporError, ValueError):
    """A parameter is outside its range, or the parameters contradict each other."""


class InformationLostError(ParameterError):
    """The parameters destroy all information (f = 1 or p = q), so nothing can be decoded."""


class ValueRefusedError(RapporError, ValueError):
    """A value that the metric cannot encode. The message names the type, never the value."""


class MetricsFileError(RapporError, ValueError):
    """A `metrics.toml` has a mistake or requests something impossible."""


class WireFormatError(RapporError, ValueError):
    """The bytes are not a report, a batch or an aggregate of a known version."""


class AggregateError(RapporError, ValueError):
    """Aggregates do not match, or have counts that no set of reports can produce."""


class EncapsulationError(RapporError):
    """The bytes are not an encapsulated message, or none of the keys opens it."""


class UnknownKeyError(EncapsulationError):
    """A request names a key that its receiver does not have, or no longer has."""


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Check that a value is a whole number from `least` to `most`. Raises ParameterError."""
    if type(value) is not int or not least <= value <= most:
        raise ParameterError(
            f"{name} = {shown(value)} is not a whole number from {least} to {most}"
        )
