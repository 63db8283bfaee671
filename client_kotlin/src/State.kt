package rappor.telemetry

/** What a device remembers: one document for it, and one for each line of the ledger, queued report and batch. */
internal sealed class Document {
    abstract fun toJson(): Map<String, Any?>
}

internal const val DEVICE = "device"
internal const val LINE = "line/"
internal const val QUEUE = "queue/"
internal const val BATCH = "batch/"
private const val MAX_COUNTERS = 1000

/** A number in JSON; null represents infinity. */
private fun bound(number: Double): Double? = number.takeIf { it < Double.POSITIVE_INFINITY }

/** Since when, in seconds since 1970, nothing could be delivered, and why. */
internal data class Failing(val since: Double, val why: String)

/** A metric that the collector has stopped. until: the day of the next report, if it is paused. */
internal data class Stop(val reason: String, val paramsId: String, val until: Int)

/** The document `device`. secret: 64 hexadecimal digits while the person consents. Private. */
internal data class DeviceState(
    val secret: String? = null,
    /** Detects a damaged secret. */
    val check: String? = null,
    /** Nats, infinite if the device began without a bound; null before that. */
    val budget: Double? = null,
    /** Nats that each line may cost: their sum is what the budget bounds. */
    val committed: Map<String, Double> = emptyMap(),
    val counters: Map<String, Long> = emptyMap(),
    /** Number of the next queued report. */
    val next: Long = 0,
    /** Reports that wait, queued or in batches. */
    val waiting: Int = 0,
    /** When the next batch leaves, in seconds since 1970. */
    val sendAt: Double? = null,
    val failing: Failing? = null,
    val stops: Map<String, Stop> = emptyMap(),
) : Document() {
    val isWhole: Boolean get() = secret == null || (secret.length == 2 * SECRET_BYTES && Derivation.check(secret.fromHex()) == check)

    /** Count something; a collector that answers with ever new reasons does not make the state grow. */
    fun counted(name: String, number: Int = 1): DeviceState {
        val known = if (name in counters || counters.size < MAX_COUNTERS) name else "others"
        return copy(counters = counters + (known to (counters[known] ?: 0L) + number))
    }

    override fun toJson(): Map<String, Any?> = linkedMapOf(
        "version" to 1, "secret" to secret, "check" to check,
        "budget" to budget?.let { if (it < Double.POSITIVE_INFINITY) it else "none" },
        "committed" to committed.mapValues { bound(it.value) }, "counters" to counters, "next" to next, "waiting" to waiting,
        "sendAt" to sendAt, "failing" to failing?.let { linkedMapOf("since" to it.since, "why" to it.why) },
        "stops" to stops.mapValues { (_, stop) -> listOf(stop.reason, stop.paramsId, stop.until) },
    )

    companion object {
        fun of(fields: Fields): DeviceState {
            if (fields.whole("version") != 1) fields.wrong("version", "1")
            val state = DeviceState(
                fields.textOrNull("secret"), fields.textOrNull("check"),
                when (fields["budget"]) {
                    null -> null
                    "none" -> Double.POSITIVE_INFINITY
                    else -> fields.number("budget")
                },
                fields.mapOf("committed") { bound(it) }, fields.mapOf("counters") { number(it).toLong() },
                fields.number("next").toLong(), fields.whole("waiting"),
                if (fields["sendAt"] == null) null else fields.number("sendAt"),
                if (fields["failing"] == null) null else fields.fields("failing").let { Failing(it.number("since"), it.text("why")) },
                fields.mapOf("stops") { name ->
                    val row = list(name)
                    if (row.size != 3) wrong(name, "a stop")
                    val (reason, paramsId, until) = row
                    Stop(reason as? String ?: wrong(name, "a stop"), paramsId.toString(), (until as? Double ?: wrong(name, "a stop")).toInt())
                },
            )
            return if (state.isWhole) state else throw FormatException("the secret does not have its check")
        }
    }
}

/** What a metric promised when this device first used it. */
internal data class Promise(
    val epsilonInfinity: Double,
    val epsilonOne: Double,
    val lifetimeEpsilon: Double,
    val maxMemoizedValues: Double,
    val maxReports: Double,
    val reportsPerDay: Double,
    /** Null for mode `window`, which is bounded by the time between two reports. */
    val period: Period?,
    val reportsPerPeriod: Double,
    /** In any `window` periods in a row: 2 if turns are redrawn in each block. */
    val reportsInWindow: Double,
) {
    /** The bounds that a later definition must not exceed. */
    val bounds: Map<String, Double> get() = linkedMapOf(
        "epsilon_infinity" to epsilonInfinity, "epsilon_one" to epsilonOne, "lifetime_epsilon" to lifetimeEpsilon,
        "max_memoized_values" to maxMemoizedValues, "max_reports" to maxReports, "reports_per_day" to reportsPerDay,
        "reports_in_window" to reportsInWindow,
    )

    fun toJson(): Map<String, Any?> =
        bounds.mapValues { bound(it.value) } +
            linkedMapOf("period" to (period?.name?.lowercase() ?: ""), "reports_per_period" to bound(reportsPerPeriod))

    companion object {
        fun of(fields: Fields): Promise = Promise(
            fields.bound("epsilon_infinity"), fields.number("epsilon_one"), fields.number("lifetime_epsilon"),
            fields.number("max_memoized_values"), fields.bound("max_reports"), fields.number("reports_per_day"),
            if (fields.text("period").isEmpty()) null else fields.choice<Period>("period"),
            fields.bound("reports_per_period"), fields.number("reports_in_window"),
        )
    }
}

/** A memoized permanent response; its key in the ledger is a keyed digest, never the value. */
internal data class Entry(val params: Params, val cost: Double, val reports: Int)

/** What was spent under secrets that were wiped. */
internal data class Past(
    val values: Int = 0,
    val answers: Int = 0,
    val cost: Double = 0.0,
    val spent: Double = 0.0,
    val reports: Int = 0,
)

/** The document `line/NAME`. note: what a running period has so far, as text. */
internal data class LineState(
    val agreed: Promise,
    val entries: Map<String, Entry> = emptyMap(),
    val counts: Map<String, Counts> = emptyMap(),
    /** Reports for life. */
    val life: Int = 0,
    val note: String? = null,
    val past: Past = Past(),
) : Document() {
    override fun toJson(): Map<String, Any?> = linkedMapOf(
        "agreed" to agreed.toJson(),
        "entries" to entries.mapValues { (_, entry) ->
            linkedMapOf("params" to entry.params.toJson(), "cost" to bound(entry.cost), "reports" to entry.reports)
        },
        "counts" to counts.mapValues { it.value.toJson() }, "life" to life, "note" to note,
        "past" to linkedMapOf(
            "values" to past.values, "answers" to past.answers, "cost" to bound(past.cost), "spent" to bound(past.spent),
            "reports" to past.reports,
        ),
    )

    companion object {
        fun of(fields: Fields): LineState = LineState(
            Promise.of(fields.fields("agreed")),
            fields.mapOf("entries") { name ->
                fields(name).let { Entry(Params.of(it.fields("params")), it.bound("cost"), it.whole("reports")) }
            },
            fields.mapOf("counts") { Counts.of(fields(it)) }, fields.whole("life"), fields.textOrNull("note"),
            fields.fields("past").let {
                Past(it.whole("values"), it.whole("answers"), it.bound("cost"), it.bound("spent"), it.whole("reports"))
            },
        )
    }
}

/** The document `queue/NUMBER`: a report, ready for the wire. bits: base64. */
internal data class QueuedReport(val metric: String, val paramsId: String, val cohort: Int, val day: Int, val bits: String) : Document() {
    override fun toJson(): Map<String, Any?> = linkedMapOf(
        "metric" to metric, "params_id" to paramsId, "cohort" to cohort, "day" to day, "bits" to bits,
    )

    companion object {
        fun of(fields: Fields): QueuedReport {
            val report = QueuedReport(
                fields.text("metric"), fields.text("params_id"), fields.whole("cohort", 65_535), fields.whole("day"), fields.text("bits"),
            )
            encodeBinary(ByteArray(16), listOf(report)) // throws IllegalArgumentException for what cannot be sent
            return report
        }
    }
}

/** The document `batch/ID`: bytes that never change again. body: base64. */
internal data class StoredBatch(val id: String, val encoding: String, val body: String, val reports: List<QueuedReport>) : Document() {
    val lastDay: Int get() = reports.maxOf { it.day }

    override fun toJson(): Map<String, Any?> = linkedMapOf(
        "id" to id, "encoding" to encoding, "body" to body, "reports" to reports.map { it.toJson() },
    )

    companion object {
        fun of(fields: Fields): StoredBatch {
            val reports = fields.list("reports").map { QueuedReport.of(Fields("a report", it)) }
            val batch = StoredBatch(fields.text("id"), fields.text("encoding"), fields.text("body"), reports)
            java.util.Base64.getDecoder().decode(batch.body)
            return if (reports.isEmpty() || batch.id.fromHex().size != 16) fields.wrong("reports", "a batch") else batch
        }
    }
}

/** A document that cannot be read. reports: how many it may have held. */
internal data class Damaged(val reports: Int = 1) : Document() {
    override fun toJson(): Map<String, Any?> = mapOf("damaged" to reports)

    companion object {
        /** Read the document of a key; one that is not whole is Damaged. */
        fun orDocument(key: String, text: String): Document {
            val json = try {
                Json.parse(text)
            } catch (error: FormatException) {
                return Damaged()
            }
            return try {
                val fields = Fields(key, json)
                when {
                    key == DEVICE -> DeviceState.of(fields)
                    key.startsWith(LINE) -> LineState.of(fields)
                    key.startsWith(QUEUE) -> QueuedReport.of(fields)
                    else -> StoredBatch.of(fields)
                }
            } catch (error: IllegalArgumentException) {
                Damaged(maxOf(1, ((json as? Map<*, *>)?.get("reports") as? List<*>)?.size ?: 1))
            }
        }
    }
}
