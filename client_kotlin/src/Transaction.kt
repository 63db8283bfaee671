package rappor.telemetry

/** Documents by key, with the changes of one act; nothing of them is kept if the act throws. */
internal class Transaction(private val known: Map<String, Document>) {
    private val changed = LinkedHashMap<String, Document?>()

    /** What was written; null represents a document that was removed. */
    val changes: Map<String, Document?> get() = changed

    operator fun get(key: String): Document? = if (key in changed) changed[key] else known[key]

    operator fun set(key: String, document: Document) {
        changed[key] = document
    }

    fun remove(key: String) {
        changed[key] = null
    }

    /** The device. Throws StateException if there is none, or the person does not consent. */
    var device: DeviceState
        get() = (this[DEVICE] as? DeviceState)?.takeIf { it.secret != null }
            ?: throw StateException(Condition.NO_CONSENT, "the secret is gone: consent was withdrawn")
        set(device) {
            this[DEVICE] = device
        }

    /** The line of a metric, as stored or new; null if it is damaged. */
    fun line(metric: Metric): LineState? = when (val line = this[LINE + metric.line]) {
        null -> LineState(promiseOf(metric))
        else -> line as? LineState
    }

    /** Keys and documents under a prefix, by key. */
    fun list(prefix: String): List<Pair<String, Document>> = (known.keys + changed.keys).filter { it.startsWith(prefix) }.sorted()
        .mapNotNull { key -> this[key]?.let { key to it } }
}
