"""A strict JSON reader, which rejects all input that two parsers may read differently."""

import json
from collections import Counter
from typing import Any, NoReturn

from rappor_core.errors import WireFormatError, shown


def parse_strict_json(body: bytes) -> Any:
    """Parse JSON; reject duplicate keys, NaN and invalid UTF-8, on which parsers disagree.

    Lone surrogates in strings and nesting beyond the parser's depth are rejected as well.
    """
    try:
        text = body.decode("utf-8")
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        if "\\u" in text:  # only an escape can produce a surrogate in valid UTF-8
            json.dumps(document, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise WireFormatError("the JSON is nested too deeply") from None
    except UnicodeError:
        raise WireFormatError("the body is not valid UTF-8, or escapes a lone surrogate") from None
    except WireFormatError:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise WireFormatError(f"the body is not JSON: it cannot be read at {where}") from None
    except ValueError:
        raise WireFormatError("the body is not JSON: a number has too many digits") from None
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        repeated, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise WireFormatError(f"the key {shown(repeated)} stands twice")
    return document


def _no_constant(text: str) -> NoReturn:
    raise WireFormatError(f"{text} is not a JSON number")
