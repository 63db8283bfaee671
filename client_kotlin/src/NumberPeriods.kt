package rappor.telemetry

private const val MAX_SUM = 1e300 // far above every edge, and adding to it never becomes infinite

/** The period of a metric of numbers that runs, and as little of its numbers as its one report needs. Private. */
internal class NumberPeriods(private val store: Transaction, private val recorder: Recorder, private val metric: Metric, private val day: Int) {
    private val details = metric.definition.details as NumberDetails
    private val unit = metric.definition.period
    private val secret = store.device.secret.orEmpty().fromHex()
    private val cuts = Cuts.onDevice(metric, recorder.encoderOf(metric, store.device).cohort, secret)

    /** Bring the metric to the day, and collect a number into its period. */
    fun update(number: Double?): Outcome {
        val line = store.line(metric) ?: return Outcome.DAMAGED
        val before = Collected.read(line.note, metric)
        val present = Days.periodOf(unit, day)
        if (before?.period == present && number == null) return Outcome.KEPT
        if (before != null && before.period < present) close(before, present)
        var now = if (before?.period == present) before else Collected(present)
        if (number != null && isDue(present)) now = now.plus(number, details.ofPeriod, cuts)
        val reported = store.line(metric) ?: return Outcome.DAMAGED
        store[LINE + metric.line] = reported.copy(note = now.write(metric))
        return Outcome.KEPT
    }

    /** Report the period that was collected, then no data for the ones after it, as far back as is accepted. */
    private fun close(collected: Collected, end: Int) {
        val oldest = Days.periodOf(unit, maxOf(0, day - metric.definition.acceptDays))
        for (period in maxOf(collected.period, oldest) until end) {
            if (!isDue(period)) continue
            val value = if (period == collected.period) collected.value(details.ofPeriod) else Value.NoData
            val outcome = recorder.record(store, metric.name, value, Days.lastDay(unit, period))
            if (outcome.isKept || outcome == Outcome.FULL) continue
            store.device = store.device.counted("${outcome.word}:${metric.name}")
        }
    }

    /** In mode `once` one period in `spread` is due, drawn once from the secret. */
    private fun isDue(period: Int): Boolean =
        Math.floorMod(period, details.spread) == Derivation.draw(secret, "phase", metric.name, details.spread)
}

/**
 * What is kept of a period. numbers: empty while nothing was recorded; of `sum`, `count`, `max` and `last` one number;
 * of `mean` how many and their sum; of `median` how many, and how many are at or above each of the device's cuts.
 */
internal data class Collected(val period: Int, val numbers: List<Double> = emptyList()) {
    fun plus(number: Double, asked: OfPeriod, cuts: Cuts): Collected {
        val first = numbers.firstOrNull() ?: 0.0
        return copy(
            numbers = when (asked) {
                OfPeriod.SUM -> listOf(bounded(first + number))
                OfPeriod.COUNT -> listOf(first + 1)
                OfPeriod.MEAN -> listOf(first + 1, bounded((numbers.getOrNull(1) ?: 0.0) + number))
                OfPeriod.MEDIAN -> listOf(first + 1) + cuts.numbers.mapIndexed { i, cut ->
                    (numbers.getOrNull(i + 1) ?: 0.0) + if (number >= cut) 1 else 0
                }
                OfPeriod.MAX -> listOf(maxOf(number, numbers.firstOrNull() ?: number))
                OfPeriod.LAST -> listOf(number)
            },
        )
    }

    /** The number of the period, its symbol, or no data. */
    fun value(asked: OfPeriod): Value {
        val first = numbers.firstOrNull() ?: return Value.NoData
        return when (asked) {
            OfPeriod.MEAN -> Value.Amount(numbers[1] / first)
            // The upper of two middle numbers is at a cut or above it if half of all numbers are.
            OfPeriod.MEDIAN -> Value.Symbol(numbers.drop(1).count { 2 * it >= first })
            else -> Value.Amount(first)
        }
    }

    fun write(metric: Metric): String = Json.write(linkedMapOf("of" to meaning(metric), "period" to period, "kept" to numbers))

    private fun bounded(total: Double): Double = total.coerceIn(-MAX_SUM, MAX_SUM)

    companion object {
        private fun meaning(metric: Metric) = listOf(metric.definition.period.name, metric.paramsId)

        /** What was written; null for nothing, for another meaning of the metric, and for what is damaged. */
        fun read(note: String?, metric: Metric): Collected? = try {
            val fields = Fields("a note", Json.parse(note ?: return null))
            Collected(fields.number("period").toInt(), fields.numbers("kept")).takeIf { fields.texts("of") == meaning(metric) }
        } catch (error: FormatException) {
            null
        }
    }
}
