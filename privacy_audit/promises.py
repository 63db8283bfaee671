"""The promises to which the audit's claims belong, and what a broken one means for people."""

from __future__ import annotations

from typing import NamedTuple

from privacy_audit.black_box.checks import Check


class PromiseGroup(NamedTuple):
    """A promise. title: of its claims. broken: what follows where one is broken. words: that its
    claims contain."""

    title: str
    broken: str
    words: tuple[str, ...]


LIVES = PromiseGroup(
    "Reports tell two lives apart no better than declared",
    "Whoever sees the reports learns more of a person than the person was told.", (),
)  # fmt: skip
PROMISES = (
    PromiseGroup(
        "Secrets and randomness come from the system alone",
        "Who knows the machine, or tries all seeds, computes a device's noise and takes it away.",
        ("secret", "depend on host", "tell of the machine", "random bits as its noise",
         "equal only by chance"),
    ),
    PromiseGroup(
        "Nothing but the bits of reports tells of values or devices",
        "Who sees requests alone, encrypted or not, tells values or devices apart.",
        ("values do not show", "nothing leaves", "batch", "headers", "bodies", "encapsulation",
         "request that failed", "requests with reports", "nobody but the collector",
         "fresh turns of", "when a device answers", "period of an answer",
         "periods of two answers", "in a moment"),
    ),
    PromiseGroup(
        "Files on the device hold no values",
        "Who gets hold of the device's files reads what was recorded, or where its owner was.",
        ("bytes of the files", "of the files hold", "outside the folder",
         "nothing of places or answers"),
    ),
    PromiseGroup(
        "A device tells no more in its life than was agreed",
        "A device goes on telling after its person's budget is spent.",
        ("all metrics together", "its own bounds", "reports in a life", "a report for each period",
         "it expires", "waited when consent", "ends the secret of a device"),
    ),
    PromiseGroup(
        "Responses and cohorts last for life",
        "Noise averages out over the months, or a device is recognised by its cohort.",
        ("responses and cohorts stay", "one permanent response", "another process", "cohort",
         "after a new consent",
         "permanent responses", "cut of its own", "keeps its cut", "their stratum",
         "period of the one answer"),
    ),
    PromiseGroup(
        "A device answers what the declaration says",
        "Who answers what depends on more than was declared: an answer tells what it should not.",
        ("answer that values",),
    ),
    PromiseGroup(
        "Noise has the declared chances",
        "One report can give the value away, or its noise falsifies all results.",
        ("q* of", "p* of", "each symbol", "noise", "too many ones", "first round", "second round",
         "both rounds", "coins at", "epsilon of small"),
    ),
    PromiseGroup(
        "The client answers without an error",
        "A device that fails sends nothing, or shows by its silence what it was about to say.",
        ("without an error",),
    ),
)  # fmt: skip


def promise_of(check: Check) -> PromiseGroup:
    """The promise that a claim belongs to. Raises LookupError for a claim of none."""
    if check.attack is not None:
        return LIVES
    for promise in PROMISES:
        if any(words in check.what for words in promise.words):
            return promise
    raise LookupError(f"no promise has the claim {check.what!r}")


def grouped(checks: tuple[Check, ...]) -> list[tuple[PromiseGroup, list[Check]]]:
    """Group claims by promise, in the order of promises."""
    found: dict[str, list[Check]] = {}
    for check in checks:
        found.setdefault(promise_of(check).title, []).append(check)
    return [(one, found[one.title]) for one in (LIVES, *PROMISES) if one.title in found]
