"""Sending the messages of alarms through Apprise, once."""

from __future__ import annotations

import json
import logging
import re
from urllib.parse import quote, unquote

from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType

from decoder_service.shell.errors import SettingsError, UnavailableError
from rappor_core.text import visible

_SECONDS = 60.0
_CAUSE = "Socket Exception: "  # before the text of an exception in what Apprise logs
_MIN_SECRET = 4  # characters of a part of a URL that is hidden in messages


def check_url(name: str, url: str) -> None:
    """Raises SettingsError for a URL that Apprise cannot use; it may hold secrets, and is not
    repeated."""
    if not _target(url):
        raise SettingsError(
            f"setting alarm_urls: the URL of {name!r} is not one of Apprise; "
            "see https://github.com/caronc/apprise/wiki"
        )


def send(url: str, body: str, link: str) -> None:
    """Send a message once.

    Args:
        url: the Apprise URL.
        body: the event, JSON.
        link: address of the result, or "".

    Raises:
        UnavailableError: it was not accepted; the message says why, without secrets of the URL.
    """
    title, text = compose(body, link)
    result = _target(url).notify(
        text,
        title,
        notify_type=NotifyType.WARNING,
        body_format=NotifyFormat.TEXT,
        timeout=_SECONDS,
        log_level=logging.DEBUG,  # at which Apprise names the cause of a failure
    )
    if result:
        return
    told = [
        entry.message.removeprefix(_CAUSE)
        for entry in result.logs()
        if entry.level in ("WARNING", "ERROR") or entry.message.startswith(_CAUSE)
    ]
    reason = " ".join(dict.fromkeys(told)) or f"Apprise reports {result.status.value}"
    raise UnavailableError(visible(without_secrets(reason, url)))


def compose(body: str, link: str) -> tuple[str, str]:
    """The title and the text of an event's message. Arguments as `send`."""
    event = json.loads(body)
    schedule = event["schedule"]
    title = f"[rappor] {visible(schedule['name'])}: {event['rule'].replace('_', ' ')}"
    lines = [visible(event["text"]) + ".", "", f"Metric: {visible(schedule['metric'])}"]
    if "window" in event:
        lines.append(f"Window: {event['window']['first_day']} to {event['window']['last_day']}")
    lines += [f"Value: {visible(value)}" for value in event.get("values", [])]
    lines += [f"Result: {link}"] if link else []
    return title, "\n".join([*lines, "", f"Event {event['event']}"])


def without_secrets(text: str, url: str) -> str:
    """A text without the parts of a URL after its scheme: of many services the host is a token."""
    parts = {unquote(part) for part in re.split(r"[\s/:@?&=,]+", url.partition("://")[2])}
    forms = {form for part in parts for form in (part, quote(part), quote(part, safe=""))}
    longest = sorted((form for form in forms if len(form) >= _MIN_SECRET), key=len, reverse=True)
    hidden = "|".join(map(re.escape, longest)) or "$^"
    return re.sub(hidden, "****", text, flags=re.IGNORECASE)


def _target(url: str) -> Apprise:
    """Apprise with one URL; empty if it cannot be used. Nothing is written to its own log."""
    logger = logging.getLogger("apprise")
    logger.propagate = False  # what it logs may hold secrets of the URL
    logger.setLevel(logging.DEBUG)  # so that the result has it
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    target = Apprise(asset=AppriseAsset(app_id="rappor-decoder", secure_logging=True))
    target.add(url)
    return target
