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
    """Suggest the valid word most similar to a wrong word, for the end of a message.

    Args:
        wrong: The wrong word.
        names: The valid words.

    Returns:
        A hint such as `; did you mean 'day'?`, or "" if no word is similar.
    """
    from difflib import get_close_matches  # imported only when an error occurs

    name, words = str(wrong)[:_SHOWN_CHARACTERS], list(names)
    cut_short = [word for word in sorted(words) if len(name) > 3 and word.startswith(name)]
    near = sorted(cut_short, key=len) or get_close_matches(name, words, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def toml_problem(error: ValueError, text: str = "") -> str:
    """Explain in plain English why a text is not valid TOML.

    Args:
        error: The parser's error.
        text: The text, to quote the bad line; omit it if it may contain a secret.

    Returns:
        The reason, with the line number if known.
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
    """The base class of all errors that this product raises on purpose."""


class ParameterError(RapporError, ValueError):
    """A parameter that is outside its range, or a set of parameters that contradict each other."""


class InformationLostError(ParameterError):
    """Parameters that destroy all information (f = 1 or p = q), so nothing can be decoded."""


class ValueRefusedError(RapporError, ValueError):
    """A value that the metric cannot encode. The message names the type, never the value."""


class MetricsFileError(RapporError, ValueError):
    """A mistake or an impossible request in `metrics.toml`."""


class WireFormatError(RapporError, ValueError):
    """Bytes that are not a report, a batch or an aggregate in a known version of the format."""


class AggregateError(RapporError, ValueError):
    """Aggregates that do not match, or counts that no set of reports can produce."""


class EncapsulationError(RapporError):
    """Bytes that are not an encapsulated message, or that none of the keys can open."""


class UnknownKeyError(EncapsulationError):
    """A request that names a key that its receiver does not have, or no longer has."""


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Require a whole number from `least` to `most`. Raises ParameterError otherwise."""
    if type(value) is not int or not least <= value <= most:
        raise ParameterError(
            f"{name} = {shown(value)} is not a whole number from {least} to {most}"
        )
