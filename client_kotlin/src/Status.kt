package rappor.telemetry

/** Whether values are recorded, and if not, why, in one word. */
public enum class Condition {
    /** Values are recorded and reports are sent. */
    ACTIVE,

    /** Values are recorded and wait; the sentence names the time and the cause. */
    NOT_DELIVERED,

    /** The collector answers 401 or 403: values are recorded and wait for a valid key. */
    KEY_REFUSED,

    /** The person does not consent. */
    NO_CONSENT,

    /** The environment has DO_NOT_TRACK. */
    DO_NOT_TRACK,

    /** The client is closed. */
    CLOSED,

    /** The state is damaged. Remedy: `reset`. */
    STATE_CORRUPT,

    /** Another process or client has the state. It is tried again at the next record. */
    STATE_IN_USE,

    /** The state was there and is gone. Remedy: restore it, or `reset`. */
    STATE_MISSING,

    /** The state cannot be used now: permissions, or a full disk. It is tried again at the next record. */
    STATE_UNAVAILABLE,
    ;

    internal val isStateTrouble: Boolean get() = this >= STATE_CORRUPT
}

/** What a client is doing, in one word and in a sentence for people. */
public data class Status(
    /** One word. */
    public val condition: Condition,
    /** What it means, without any value. */
    public val sentence: String,
)

/** What was sent of one metric, and what it can cost, in nats. */
public data class MetricAccount(
    /** Different answers that reports were made of. */
    public val answers: Int,
    /** At most so many different answers, for life. */
    public val maxAnswers: Int,
    /** Reports made. */
    public val reports: Int,
    /** Nats of what was sent so far. */
    public val spent: Double,
    /** Nats of everything that this device ever sends of it. */
    public val ever: Double,
)

/** What a device holds and has sent: no value, no secret. */
public data class DeviceAccount(
    /** Whether the person consents. */
    public val consent: Boolean,
    /** Nats over all metrics for life; infinite if none were declared. */
    public val budget: Double,
    /** Reports that wait. */
    public val waiting: Int,
    /** Batches of them that the collector has not acknowledged yet. */
    public val batches: Int,
    /** What became of reports, by reason and metric. */
    public val counters: Map<String, Long>,
    /** By metric; null for one whose ledger is damaged, of which nothing more is sent. */
    public val metrics: Map<String, MetricAccount?>,
    /** Metrics that the collector has stopped, and why. */
    public val stopped: Map<String, String>,
) {
    /** The account as text for the person whose device it is. */
    public fun render(): String {
        val lines = metrics.map { (name, line) ->
            if (line == null) {
                "$name: what was sent is not known any more, and nothing more will be sent."
            } else {
                "$name: reports made: ${line.reports}; different answers: ${line.answers} of at most ${line.maxAnswers}. " +
                    "${risk(line.spent)}, and at most ${believed(line.ever)} sure after everything your device ever sends about it."
            }
        }
        val nats = metrics.values.sumOf { it?.spent ?: Double.POSITIVE_INFINITY }
        val bound = if (budget < Double.POSITIVE_INFINITY) "of $budget allowed" else "no bound over all metrics is declared"
        return (
            listOf(
                "Consent: ${if (consent) "given" else "not given; nothing is recorded"}",
                "Reports waiting: $waiting; batches of them not yet acknowledged: $batches",
            ) + counters.toSortedMap().map { (name, number) -> "  $name: $number" } + lines +
                stopped.map { (name, reason) -> "$name: the collector has stopped it ($reason)." } +
                "This device, all metrics together: ${risk(nats)} ($bound)."
            ).joinToString("\n")
    }

    private fun risk(nats: Double) = "Someone who is 1 % sure an answer is yours can be at most ${believed(nats)} sure after what was sent so far"

    /** The most that a suspicion of 1 % can become by what an epsilon bounds (Bayes' rule), rounded up. */
    private fun believed(nats: Double): String {
        val share = 1 / (1 + 99 * Math.exp(-nats))
        val factor = if (share < 0.1) 100.0 else 10.0
        val percent = minOf(Math.ceil(100 * share * factor - 1e-9) / factor, 100.0)
        return "$percent % (${if (nats < Double.POSITIVE_INFINITY) "epsilon ${Math.round(nats * 100) / 100.0}" else "no bound"})"
    }
}
