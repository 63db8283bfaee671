"""`rappor metrics train-code`: train a code that shortens the strings in a public list."""

import gzip
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from decoder.files import replacing
from metric_design.code_training import MIN_OCCURRENCES, train_code
from rappor_core.codes.prefix_code import MAX_ORDER, PrefixCode
from rappor_core.codes.prefix_groups import MAX_CODE_BITS
from rappor_core.errors import ParameterError
from rappor_core.hashing import normalize

_HELD_OUT = 10  # every tenth string is left out of a first training, for evaluation
_LONGEST = 1_024  # bits


def train(
    listed: Annotated[
        Path, typer.Argument(metavar="LIST", help="Public list, one string per line; gz or not.")
    ],
    name: Annotated[str, typer.Option(help="Name of the table: letters, digits and _.")] = "own",
    order: Annotated[
        int,
        typer.Option(min=0, max=MAX_ORDER, help="Preceding bytes that determine a byte's code."),
    ] = 2,
    min_occurrences: Annotated[
        int, typer.Option(min=1, help="Rarer contexts use the code of a shorter one.")
    ] = MIN_OCCURRENCES,
    keep_case: Annotated[bool, typer.Option(help="Do not fold case.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File for the table alone, as JSON.")
    ] = None,
) -> None:
    """Train a code on a public LIST; print `code_table` for a metric of kind 'discover'.

    The table reveals the list: never train it on data from devices or customers.
    """
    values = _read(listed)

    def trained(some: Sequence[bytes]) -> PrefixCode:
        return train_code(
            some, name, order=order, lower_case=not keep_case, min_occurrences=min_occurrences
        )

    code = trained(values)
    _tell(
        trained([v for i, v in enumerate(values) if i % _HELD_OUT] or values), values[::_HELD_OUT]
    )
    if output is None:
        print(f"code_table = '{code.text}'")
        return
    with replacing(output) as part:
        part.write_text(code.text + "\n", encoding="ascii")
    print(f"{len(code.text):,} characters in {output}; SHA-256 {code.digest}")


def _read(path: Path) -> list[bytes]:
    """Return the distinct strings of a file, normalized. Raises ParameterError if invalid."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8") as file
        ):
            return list(dict.fromkeys(normalize(line.strip()) for line in file if line.strip()))
    except (OSError, EOFError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text, or it is damaged"
        raise ParameterError(f"{path}: cannot be read: {reason}") from error


def _tell(code: PrefixCode, values: Sequence[bytes]) -> None:
    sizes = sorted(min(code.size(value), _LONGEST) for value in values)
    whole = sum(size <= MAX_CODE_BITS for size in sizes) / len(sizes)
    Console(stderr=True).print(
        f"of {len(sizes):,} strings left out of a training: median {statistics.median(sizes):.0f} "
        f"bits, {whole:.0%} within {MAX_CODE_BITS}",
        soft_wrap=True,
    )
