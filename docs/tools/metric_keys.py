"""`python docs/tools/metric_keys.py`: write docs/metrics-keys.md from the keys of the kinds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from rappor_core.metrics.keys import ALWAYS, COMMON_KEYS, Key
from rappor_core.metrics.kinds import KINDS, kind_named

PAGE = Path(__file__).parents[1] / "metrics-keys.md"
HEAD = """\
# Keys of `metrics.toml`

The keys of a `[metrics.NAME]` table, by kind; epsilons are in nats. [metrics.md](metrics.md)
explains how to choose. `python docs/tools/metric_keys.py` writes this page.
"""


def page() -> str:
    """The whole page."""
    shared = list(_shared())
    parts = [HEAD, "## Keys of every kind\n", _table(COMMON_KEYS)]
    parts += ["## Keys of several kinds\n", _table(shared, kinds=True)]
    for name in KINDS:
        own = [key for key in kind_named(name).keys if key not in shared]
        if own:
            parts += [f"## `{name}`\n", _table(own)]
    return "\n".join(parts)


def _shared() -> Iterator[Key]:
    """Keys that two or more kinds declare alike, in the order of the kinds."""
    declared = [key for name in KINDS for key in kind_named(name).keys]
    return (key for key in dict.fromkeys(map(_hashable, declared)) if declared.count(key) > 1)


def _hashable(key: Key) -> Key:
    return key if not isinstance(key.default, list) else key.replace(default=tuple(key.default))


def _table(keys: Iterable[Key], *, kinds: bool = False) -> str:
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for key in keys:
        names = [f"`{name}`" for name in KINDS if key in kind_named(name).keys] if kinds else []
        of = f" Kinds: {', '.join(names)}." if names else ""
        lines.append(f"| `{key.name}` | {_default(key)} | {key.meaning}{of} |")
    return "\n".join(lines) + "\n"


def _default(key: Key) -> str:
    if key.default is not None and key.default != 0:
        value = list(key.default) if isinstance(key.default, tuple) else key.default
        return f"`{json.dumps(value)}`"
    if key.needed_when == ALWAYS:
        return f"required: {key.type}"
    if key.needed_when:
        return f"{key.type}; required if {key.needed_when}"
    return f"`{key.default}`" if key.default is not None else f"{key.type}; optional"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
