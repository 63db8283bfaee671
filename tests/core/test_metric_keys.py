"""Keys of `metrics.toml` are declared once: the page, the parser and the metric agree."""

import pytest

from docs.tools.metric_keys import PAGE, page
from rappor_core.metrics.keys import COMMON_KEYS, VALUE_KEYS
from rappor_core.metrics.kinds import KINDS, kind_named
from rappor_core.metrics.metric import Metric


def test_the_page_of_keys_is_what_its_command_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_declares_each_of_its_keys_once(kind: str) -> None:
    names = [key.name for key in (*COMMON_KEYS, *kind_named(kind).keys)]
    assert len(set(names)) == len(names)


def test_defaults_of_the_keys_are_those_of_a_metric() -> None:
    for key in (*COMMON_KEYS, *VALUE_KEYS):
        if key.default is not None:
            default = getattr(Metric, key.name)
            assert (list(default) if isinstance(default, tuple) else default) == key.default
