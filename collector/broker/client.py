"""The broker's client library, with the settings that exactly-once counting requires."""

from importlib import import_module
from typing import Any

from collector.broker.counting import HEAD_BYTES
from collector.settings import Settings
from rappor_server.errors import SettingsError, StorageError
from rappor_server.logs import Log

_SESSION_MS = 10_000  # the time after which a dead consumer's partitions are reassigned
_QUEUED_KB = 16 << 10  # the size of messages that a consumer fetches ahead
_MAX_MESSAGE = 1_000_000_000  # the library's limit
_FETCH_MS = 100  # the maximum wait of a request behind an empty fetch
LOOK_SECONDS = 5.0  # the time limit for an answer about a topic


class LibraryLog:
    """A logger that forwards the Kafka library's messages, which contain no reports, to our log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def log(self, _level: int, text: str, *filled: object) -> None:
        """Log a message; same interface as `logging.Logger.log`."""
        self._log.warning("broker", message=(text % filled)[:300])


def load_library() -> Any:
    """Import confluent_kafka, an optional dependency. Raises SettingsError if not installed."""
    try:
        return import_module("confluent_kafka")
    except ImportError as error:
        raise SettingsError(
            "a broker needs confluent-kafka: pip install 'rappor-telemetry[kafka]'"
        ) from error


def largest_message(settings: Settings) -> int:
    """Return the size in bytes of the largest possible message: body, header and overhead.

    Raises SettingsError if the library does not support that size.
    """
    size = settings.max_inflated_bytes + HEAD_BYTES + 1024
    if size > _MAX_MESSAGE:
        raise SettingsError(
            f"max_inflated_bytes is {settings.max_inflated_bytes}, and a message of the broker may "
            f"have {_MAX_MESSAGE} bytes at most"
        )
    return size


def make_producer(settings: Settings, log: Log) -> Any:
    """Return a producer that reports a message as stored once all in-sync replicas have it.

    Raises SettingsError if the settings are invalid.
    """
    required = {
        "acks": "all",
        "enable.idempotence": True,
        "message.timeout.ms": int(1000 * settings.broker_seconds),
        "message.max.bytes": largest_message(settings),
        "queue.buffering.max.kbytes": 2 * (settings.max_queued_bytes >> 10),
    }
    return _make_client("Producer", {"linger.ms": 1}, required, settings, log)


def make_consumer(settings: Settings, log: Log) -> Any:
    """Return a consumer whose positions are stored only in our database."""
    required = {
        "group.id": settings.broker_group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "fetch.message.max.bytes": largest_message(settings),
        "receive.message.max.bytes": max(100_000_000, 2 * largest_message(settings)),
        "fetch.wait.max.ms": _FETCH_MS,
        "queued.max.messages.kbytes": _QUEUED_KB,
    }
    return _make_client("Consumer", {"session.timeout.ms": _SESSION_MS}, required, settings, log)


def partitions_of(client: Any, topic: str, seconds: float = LOOK_SECONDS) -> list[int]:
    """Return a topic's partitions. Raises SettingsError if it is missing, or StorageError."""
    library = load_library()
    try:
        metadata = client.list_topics(topic, timeout=seconds).topics[topic]
    except library.KafkaException as error:
        raise StorageError(f"the broker does not answer: {reason_of(error)}") from error
    if metadata.error is not None and metadata.error.code() in (
        library.KafkaError.UNKNOWN_TOPIC_OR_PART,
        library.KafkaError.TOPIC_AUTHORIZATION_FAILED,
    ):
        raise SettingsError(f"broker_topic {topic!r}: {metadata.error.str()}; create it first")
    if metadata.error is not None or not metadata.partitions:
        raise StorageError(f"the broker has no partitions of {topic!r} yet")
    return sorted(metadata.partitions)


def ends_of(consumer: Any, topic: str, partition: int) -> tuple[int, int]:
    """Return the first offset that the broker still has in a partition, and the end offset."""
    library = load_library()
    where = library.TopicPartition(topic, partition)
    try:
        low, high = consumer.get_watermark_offsets(where, timeout=LOOK_SECONDS)
    except library.KafkaException as error:
        raise StorageError(f"the broker does not answer: {reason_of(error)}") from error
    return low, high


def ends_of_all(client: Any, topic: str) -> dict[int, int]:
    """Return the end offset of each partition. Raises StorageError or SettingsError."""
    return {
        partition: ends_of(client, topic, partition)[1]
        for partition in partitions_of(client, topic)
    }


def reason_of(error: Exception) -> str:
    """Return the library's error in a few words."""
    cause = error.args[0] if error.args else error
    return str(cause.str()) if hasattr(cause, "str") else type(error).__name__


def _make_client(
    kind: str, defaults: dict[str, Any], required: dict[str, Any], settings: Settings, log: Log
) -> Any:
    """Return a client; `defaults` may be overridden, `required` may not.

    The library's error message contains the rejected property's value, possibly a password. So our
    message repeats only the property's name.
    """
    library = load_library()
    config = {
        "bootstrap.servers": settings.broker,
        "client.id": "rappor",
        "log_level": 3,
        **defaults,
        **settings.broker_options,
        **required,
        "allow.auto.create.topics": False,
    }
    try:
        return getattr(library, kind)(config, logger=LibraryLog(log))
    except library.KafkaException as error:
        reason = reason_of(error)
        named = [name for name in settings.broker_options if name in reason]
    names = ", ".join(named or settings.broker_options) or "the settings of the broker"
    raise SettingsError(f"broker_options: the broker's library rejects {names}")
