"""Keys of `metrics.toml` are declared once: the page, the parser and the metric agree."""

from docs.tools.metric_keys import PAGE, page


def test_the_page_of_keys_is_what_its_command_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
