package rappor.telemetry

/** Further choices of `RapporClient.open`; each has a default. */
public class Options(
    /** The key of the collector; over https, or to a loopback address, only. */
    public val key: String? = null,
    /** The person's own bounds. */
    public val privacyLevel: PrivacyLevel = PrivacyLevel.STANDARD,
    /** When and how batches leave. */
    public val delivery: Delivery = Delivery(),
    /** Another way to the collector than `HttpURLConnection`. */
    public val transport: Transport? = null,
    /** Milliseconds since 1970, UTC. */
    public val clock: () -> Long = System::currentTimeMillis,
    /** Whether the platform asks for no tracking; it wins over consent. */
    public val doNotTrack: () -> Boolean = { System.getenv("DO_NOT_TRACK").let { !it.isNullOrEmpty() && it != "0" } },
    /** A key may travel over plain http. */
    public val isDevelopment: Boolean = false,
    /** Is called with the reason of each refusal, and once if nothing can be delivered; no value is in it. */
    public val log: (sentence: String) -> Unit = {},
)
