package rappor.telemetry

/** What this client throws, and only when an app opens it or passes a wrong argument. No message holds a value. */
public sealed class RapporException(message: String) : RuntimeException(message)

/** An argument outside its range. */
public class ParameterException(message: String) : RapporException(message)

/** Compiled metrics that cannot be read: another version, a wrong digest, a kind that this client does not have. */
public class MetricsFileException(message: String) : RapporException(message)

/** State that cannot be read or written; `Storage` throws it, and the client shows it as its `status`. */
public class StateException(
    /** What the status of the client becomes. */
    public val condition: Condition,
    message: String,
) : RapporException(message)

/** A value that a metric cannot encode. It stays in the client: the record is refused. */
internal class ValueRefused(message: String) : IllegalArgumentException(message)
