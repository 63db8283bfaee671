"""A ledger of the privacy costs of all releases from one data set, in memory and in a file.

JSON: `{"format": "rappor-budget", "version": 1, "limit": {...}, "entries": [...]}`. A charge is on
disk before `spend` returns, and therefore before any noise is drawn. One process at a time may use
a ledger: a file next to it, `NAME.lock`, marks it as in use. Symbolic links are resolved first, so
that one file has one lock. A copy of a ledger is a separate ledger, which cannot be detected."""

import errno
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import with_config

from disclosure.errors import BudgetError
from disclosure.files import LENIENT, parse, to_json
from rappor_core.errors import file_problem
from rappor_core.whole_files import replacing

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Charge:
    """The cost (epsilon, delta) of one release; BudgetError unless epsilon > 0, 0 <= delta < 1."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < math.inf and 0 <= self.delta < 1):
            raise BudgetError(f"epsilon > 0 and 0 <= delta < 1 are needed, not {self}")


@dataclass
class BudgetLedger:
    """The privacy budget of one data set and its charges. Charge before drawing noise.

    Charges add up (sequential composition). Charges to parts that share no people cost only their
    maximum (parallel composition)."""

    limit: Charge
    entries: list[tuple[str, Charge]] = field(default_factory=list)
    path: Path | None = None  # The file to which every charge is written while `is_open`
    is_open: bool = True

    @property
    def spent_epsilon(self) -> float:
        """The sum of all charged epsilons, in nats."""
        return math.fsum(charge.epsilon for _, charge in self.entries)

    @property
    def spent_delta(self) -> float:
        """The sum of all charged deltas."""
        return math.fsum(charge.delta for _, charge in self.entries)

    def spend(self, purpose: str, charge: Charge) -> None:
        """Record a charge, which is on disk when this returns if the ledger has a file.

        Raises BudgetError, and records nothing, if the limit is exceeded or the file cannot be
        written."""
        if not self.is_open:
            raise BudgetError(f"{self.path} is closed: open it again to charge {purpose}")
        epsilon = self.spent_epsilon + charge.epsilon
        delta = self.spent_delta + charge.delta
        over = epsilon > self.limit.epsilon * (1 + _ROUNDING)
        if over or delta > self.limit.delta * (1 + _ROUNDING):
            raise BudgetError(
                f"{purpose}: a total of epsilon {epsilon:g} and delta {delta:g} would exceed the "
                f"limit of {self.limit.epsilon:g} and {self.limit.delta:g}"
            )
        self.entries.append((purpose, charge))
        try:
            if self.path is not None:
                _write(self.path, self)
        except OSError as error:
            self.entries.pop()
            raise BudgetError(f"{self.path} cannot be written: {file_problem(error)}") from None


@with_config(LENIENT)
@dataclass(frozen=True)
class _Cost:
    epsilon: float
    delta: float


@with_config(LENIENT)
@dataclass(frozen=True)
class _Entry:
    purpose: str
    epsilon: float
    delta: float


@with_config(LENIENT)
@dataclass(frozen=True)
class _File:
    """The contents of a ledger file."""

    limit: _Cost
    entries: tuple[_Entry, ...]
    format: Literal["rappor-budget"] = "rappor-budget"
    version: Literal[1] = 1


def make_ledger(path: Path, limit: Charge) -> None:
    """Create the file of an empty ledger. Raises BudgetError if it exists."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            _write(path, BudgetLedger(limit))
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    except FileExistsError:
        raise BudgetError(f"{path} exists; a ledger is never restarted for the same data") from None
    except OSError as error:
        raise BudgetError(f"{path} cannot be written: {file_problem(error)}") from None


def read_ledger(path: Path) -> BudgetLedger:
    """Read a ledger for inspection; changes are not written. Raises BudgetError if invalid."""
    try:
        ledger = parse(_File, path.read_bytes(), BudgetError)
        entries = [(entry.purpose, Charge(entry.epsilon, entry.delta)) for entry in ledger.entries]
        return BudgetLedger(Charge(ledger.limit.epsilon, ledger.limit.delta), entries)
    except OSError as error:
        raise BudgetError(f"{path} cannot be read: {file_problem(error)}") from None
    except BudgetError as error:
        raise BudgetError(f"{path} is not a ledger: {error}") from None


@contextmanager
def open_ledger(path: Path) -> Iterator[BudgetLedger]:
    """Open a ledger file for a `with` block; each charge is written before `spend` returns.

    No charge is accepted after the block. A file with two names (a hard link) is rejected: each
    write creates a new file, so the other name would keep the old charges. Raises BudgetError if
    the file is in use, or is not a ledger."""
    path = Path(os.path.realpath(path))
    lock = path.with_name(f"{path.name}.lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise BudgetError(
            f"{path} is in use by another process; if none runs, remove {lock}"
        ) from None
    except OSError as error:
        raise BudgetError(f"{lock} cannot be made: {file_problem(error)}") from None
    try:
        ledger = read_ledger(path)
        if path.stat().st_nlink > 1:
            raise BudgetError(f"{path} has a second name (a hard link): remove one of the two")
        ledger.path = path
        try:
            yield ledger
        finally:
            ledger.is_open = False
    finally:
        lock.unlink(missing_ok=True)


def _write(path: Path, ledger: BudgetLedger) -> None:
    entries = tuple(_Entry(purpose, *astuple(charge)) for purpose, charge in ledger.entries)
    text = to_json(_File(_Cost(*astuple(ledger.limit)), entries), indent=2)
    with replacing(path) as part, part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if not hasattr(os, "O_DIRECTORY"):
        return
    opened = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)  # otherwise a new name may be lost
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not supported by the file system
            raise
    finally:
        os.close(opened)
