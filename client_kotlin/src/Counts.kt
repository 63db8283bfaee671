package rappor.telemetry

private const val KEPT = 64
private const val SPARE = 32
private const val MAX_RUNS = 256

/** Reports counted under one name, by period. used: runs of periods that are full, first and last. */
internal data class Counts(val unit: Period, val periods: Map<Int, Int> = emptyMap(), val used: List<IntRange> = emptyList()) {
    /** The last period up to `latest` in which a report was counted. */
    fun lastPeriod(latest: Int): Int? =
        (periods.keys.filter { it <= latest } + used.filter { it.first <= latest }.map { minOf(it.last, latest) }).maxOrNull()

    /** The same counts by another unit: each count is added to every period that shares a day with the old one. */
    fun by(then: Period): Counts {
        if (then == unit) return this
        val added = HashMap<Int, Int>()
        for ((period, reports) in periods) {
            for (other in Days.touched(unit, period, then)) added[other] = (added[other] ?: 0) + reports
        }
        val runs = used.map { Days.touched(unit, it.first, then).first..Days.touched(unit, it.last, then).last }
        return Counts(then, added, runs.fold(emptyList(), ::withRun))
    }

    /** Count one report. Past 96 periods those far from its own are marked as used up. */
    fun plus(period: Int): Counts {
        val more = periods + (period to (periods[period] ?: 0) + 1)
        if (more.size <= KEPT + SPARE) return copy(periods = more)
        val byDistance = more.keys.sortedBy { Math.abs(it.toLong() - period) }
        val near = byDistance.take(KEPT).toSet()
        return Counts(unit, more.filterKeys { it in near }, byDistance.drop(KEPT).fold(used) { runs, far -> withRun(runs, far..far) })
    }

    fun toJson(): Map<String, Any?> = linkedMapOf(
        "unit" to unit.name.lowercase(), "periods" to periods.mapKeys { it.key.toString() },
        "used" to used.map { listOf(it.first, it.last) },
    )

    companion object {
        fun of(fields: Fields): Counts = Counts(
            fields.choice("unit"),
            fields.mapOf("periods") { whole(it) }.mapKeys { it.key.toIntOrNull() ?: throw FormatException("not a period") },
            runsOf(fields, "used"),
        )

        fun runsOf(fields: Fields, key: String): List<IntRange> = fields.list(key).map { run ->
            val ends = (run as? List<*>)?.map { (it as? Double ?: fields.wrong(key, "runs")).toInt() }
            if (ends?.size == 2) ends[0]..ends[1] else fields.wrong(key, "runs")
        }

        /** Mark periods as full. Past 256 runs the narrowest gap is closed: rather silent than twice. */
        fun withRun(runs: List<IntRange>, run: IntRange): List<IntRange> {
            val merged = ArrayList<IntRange>()
            for (next in (runs + listOf(run)).sortedBy { it.first }) {
                val before = merged.lastOrNull()
                if (before != null && next.first <= before.last + 1) {
                    merged[merged.size - 1] = before.first..maxOf(before.last, next.last)
                } else {
                    merged.add(next)
                }
            }
            if (merged.size <= MAX_RUNS) return merged
            val at = (1 until merged.size).minByOrNull { merged[it].first - merged[it - 1].last } ?: return merged
            return merged.take(at - 1) + listOf(merged[at - 1].first..merged[at].last) + merged.drop(at + 1)
        }
    }
}

/** Limits on the number of reports of a metric, by period and for life (docs/porting.md, part 6). */
internal class ReportLimits(private val metric: Metric) {
    private val window = metric.place?.takeIf { it.mode == Mode.WINDOW }
    private val name = if (window != null) metric.line else metric.name
    private val unit = if (window != null) Period.DAY else metric.definition.period

    fun countsOf(line: LineState): Counts = line.counts[name]?.by(unit) ?: Counts(unit)

    /** Whether no further report may be made on a day. most: of its period. */
    fun isFull(line: LineState, day: Int, most: Int): Boolean {
        if (metric.definition.maxReports?.let { line.life >= it } == true) return true
        val counts = countsOf(line)
        val period = Days.periodOf(unit, day)
        val alone = window?.let { Days.daysOfOneReport(day, metric.definition.period, it.window, it.isFresh) }
        val days = alone ?: period..period
        if (counts.used.any { it.first <= days.last && days.first <= it.last }) return true
        return if (alone != null) counts.periods.keys.any { it in alone } else (counts.periods[period] ?: 0) >= most
    }

    fun counted(line: LineState, day: Int): LineState =
        line.copy(counts = line.counts + (name to countsOf(line).plus(Days.periodOf(unit, day))), life = line.life + 1)

    /** The line with the counts by today's unit, also where nothing is counted. */
    fun carried(line: LineState): LineState = line.copy(counts = line.counts + (name to countsOf(line)))
}
