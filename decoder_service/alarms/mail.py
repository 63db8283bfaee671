"""Sending an event by e-mail."""

from __future__ import annotations

import json
import re
import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage

from decoder_service.shell.errors import RequestError, UnavailableError
from rappor_core.text import visible

_SECONDS = 15.0
_ADDRESS = re.compile(r"[A-Za-z0-9._%+'-]{1,64}@[A-Za-z0-9.-]{1,190}", re.ASCII)


@dataclass(frozen=True, slots=True)
class MailServer:
    """The outgoing mail server. security: starttls, tls (from the start) or none."""

    host: str
    port: int
    sender: str
    user: str = ""
    password: str = ""
    security: str = "starttls"


def check_address(address: str) -> None:
    """Raises RequestError for what is no plain address."""
    if not _ADDRESS.fullmatch(address):
        raise RequestError(f"e-mail {address[:100]!a} is not an address such as ann@example.org")


def compose(server: MailServer, address: str, body: str, link: str) -> EmailMessage:
    """The message of an event. link: address of the result, or ""."""
    event = json.loads(body)
    message = EmailMessage()
    message["From"] = server.sender
    message["To"] = address
    name = visible(event["schedule"]["name"])
    message["Subject"] = f"[rappor] {name}: {event['rule'].replace('_', ' ')}"
    message["Message-ID"] = f"<{event['event']}@rappor-decoder.invalid>"
    message["Auto-Submitted"] = "auto-generated"
    lines = [visible(event["text"]) + ".", "", f"Metric: {visible(event['schedule']['metric'])}"]
    if "window" in event:
        lines.append(f"Window: {event['window']['first_day']} to {event['window']['last_day']}")
    lines += [f"Value: {visible(value)}" for value in event.get("values", [])]
    lines += [f"Result: {link}"] if link else []
    message.set_content("\n".join([*lines, "", f"Event {event['event']}"]) + "\n")
    return message


def send(server: MailServer, address: str, body: str, link: str) -> None:
    """Send a message by mail, once. Raises RequestError, and UnavailableError if the server does
    not take it."""
    check_address(address)
    message = compose(server, address, body, link)
    try:
        with _connected(server) as connection:
            if server.user:
                connection.login(server.user, server.password)
            connection.send_message(message)
    except (smtplib.SMTPException, OSError) as error:
        raise UnavailableError(f"the mail server failed ({type(error).__name__})") from error


def _connected(server: MailServer) -> smtplib.SMTP:
    context = ssl.create_default_context()
    if server.security == "tls":
        return smtplib.SMTP_SSL(server.host, server.port, timeout=_SECONDS, context=context)
    connection = smtplib.SMTP(server.host, server.port, timeout=_SECONDS)
    try:
        if server.security == "starttls":
            connection.starttls(context=context)
    except BaseException:
        connection.close()
        raise
    return connection
