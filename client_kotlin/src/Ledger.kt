package rappor.telemetry

private const val ROUNDING = 1 + 1e-9 // epsilons are doubles; an equal one must not look larger

/** The person's own bounds; of each and the app's the smaller one holds. */
public class PrivacyLevel(
    /** Different answers to a metric, for life. */
    public val maxValues: Int = Int.MAX_VALUE,
    /** Reports of a metric in a period. */
    public val maxReportsPerPeriod: Int = Int.MAX_VALUE,
    /** Nats over all metrics, for life. */
    public val maxEpsilon: Double = Double.POSITIVE_INFINITY,
) {
    init {
        if (maxValues < 1 || maxReportsPerPeriod < 1 || !(maxEpsilon > 0)) throw ParameterException("privacyLevel: bounds are above 0")
    }

    /** The levels that an app may offer by name. */
    public companion object {
        /** The app's own bounds. */
        public val STANDARD: PrivacyLevel = PrivacyLevel()

        /** Two answers to a metric, and one report of it in a period. */
        public val STRICT: PrivacyLevel = PrivacyLevel(2, 1)
    }
}

/** The promise in a definition. */
internal fun promiseOf(metric: Metric): Promise {
    val definition = metric.definition
    val place = metric.place
    val inPeriod = when (place?.mode) {
        null -> definition.maxReportsPerPeriod.toDouble()
        Mode.MEMO -> place.slots.size.toDouble()
        else -> 1.0 / maxOf(1, place.window)
    }
    val isWindow = place?.mode == Mode.WINDOW
    return Promise(
        metric.epsilonInfinity, metric.epsilonPerReport, metric.lifetimeEpsilon, metric.maxResponses.toDouble(),
        definition.maxReports?.toDouble() ?: Double.POSITIVE_INFINITY, inPeriod / definition.period.days,
        definition.period.takeIf { !isWindow },
        if (isWindow) Double.POSITIVE_INFINITY else definition.maxReportsPerPeriod.toDouble(), if (place?.isFresh == true) 2.0 else 1.0,
    )
}

/** The name of the first bound that `now` promises less of than `first` did; null for none. */
internal fun weakerThan(now: Promise, first: Promise): String? {
    val before = first.bounds
    now.bounds.forEach { (name, nats) -> if (nats > before.getValue(name) * ROUNDING) return name }
    if (first.period == null || now.period == null) return null
    val most = first.period.maxTouched(now.period) * now.reportsPerPeriod
    return if (most > first.reportsPerPeriod * ROUNDING) "reports_per_period" else null
}

/** The device with the declared budget, if that is less than the stored one or nothing is stored yet. */
internal fun pinned(device: DeviceState, declared: Double): DeviceState =
    if (device.budget != null && declared >= device.budget) device else device.copy(budget = declared)

/** Nats over all metrics and for life: the least of the declared, the stored and the person's. */
internal fun budgetOf(device: DeviceState, declared: Double, level: PrivacyLevel): Double =
    minOf(declared, level.maxEpsilon, device.budget ?: Double.POSITIVE_INFINITY)

/** Nats that all reports from what is memoized can cost; extra: nats of values about to be memoized. */
internal fun committed(line: LineState, extra: Double = 0.0): Double {
    val values = line.past.cost + line.entries.values.sumOf { it.cost } + extra
    val most = line.agreed.maxReports
    return minOf(values, if (most < Double.POSITIVE_INFINITY) most * line.agreed.epsilonOne else most)
}

/** Nats that the reports made so far have cost. */
internal fun spent(line: LineState): Double =
    line.past.spent + line.entries.values.sumOf { Privacy.epsilonN(it.params, it.reports) }

/** What this device may still reveal of one metric, decided before anything is sent. */
internal class Ledger(
    private val encoder: MetricEncoder,
    private val budget: Double,
    private val level: PrivacyLevel,
    var device: DeviceState,
    var line: LineState,
) {
    private val metric = encoder.metric

    /** What to encode for a value: itself, its fallback, or null if nothing fits any more. */
    fun admit(value: Encoded): Encoded? {
        if (value.digest in line.entries) return value
        val reserved = encoder.reserved
        if (!memoize(reserved)) return null
        return if (memoize(listOf(value))) value else reserved.firstOrNull()
    }

    /**
     * Memoize all of several values that are not memoized yet; none, if not all of them fit. By digest: in the order
     * of a list, a reader of the state would know which value each entry represents.
     */
    private fun memoize(values: List<Encoded>): Boolean {
        val added = values.map { it.digest }.toSortedSet() - line.entries.keys
        if (added.isNotEmpty() && !fits(added.size)) return false
        val entry = Entry(metric.params, metric.epsilonInfinity, 0)
        line = line.copy(entries = line.entries + added.associateWith { entry })
        device = device.copy(committed = device.committed + (metric.line to committed(line)))
        return true
    }

    private fun fits(number: Int): Boolean {
        val taken = line.past.values.toLong() + line.entries.size + number
        if (taken > minOf(metric.maxResponses, level.maxValues)) return false
        val others = device.committed.filterKeys { it != metric.line }.values.sum()
        return others + committed(line, number * metric.epsilonInfinity) <= budget * ROUNDING
    }
}
