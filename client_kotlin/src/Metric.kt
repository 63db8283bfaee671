package rappor.telemetry

/** A declared metric, with what follows from its definition. */
internal class Metric(val definition: Definition, val paramsId: String) {
    val name: String = definition.name
    val params: Params = definition.params

    /** The name up to the first `/`: of the ledger, the cohort and the permanent response. */
    val line: String = name.substringBefore('/')
    val epsilonInfinity: Double = Privacy.epsilonInfinity(params)

    /** What each report of a life counts at most. */
    val epsilonPerReport: Double = Privacy.epsilonPerReport(params, definition.maxReports ?: 1)
    val maxResponses: Int = if (params.hasSymbols) minOf(definition.maxMemoizedValues, params.numBits) else definition.maxMemoizedValues
    val lifetimeEpsilon: Double = minOf(
        maxResponses * epsilonInfinity,
        definition.maxReports?.let { it * epsilonPerReport } ?: Double.POSITIVE_INFINITY,
    )

    /** Whether it may be recorded in an app, whose storage lasts; other metrics are for browsers. */
    val runsHere: Boolean = "app" in definition.platforms
    val place: Place? = definition.details as? Place

    /** Every value of a one-hot location with its bit. */
    val domain: Map<String, Int>? by lazy(LazyThreadSafetyMode.NONE) {
        place?.takeIf { params.encoding == Encoding.ONE_HOT }?.let { Grid(it.grid).domain(it.level, definition.noData) }
    }
}

/** All metrics of an app, and the budget of a device in nats. */
internal class Metrics(val all: List<Metric>, val budget: Double) {
    private val byName = all.associateBy { it.name }

    /** The metric of a name. Throws ValueRefused. */
    fun of(name: String): Metric =
        byName[name] ?: throw ValueRefused("metric '$name' is not declared; declared are ${byName.keys.joinToString()}")

    /** The sub-metrics of a declared location. Throws ValueRefused. */
    fun partsOf(line: String): List<Metric> = all.filter { it.line == line && it.place != null }.ifEmpty {
        throw ValueRefused("no metric of kind 'location' is declared as '$line'")
    }

    companion object {
        /**
         * Read what `rappor metrics compile` wrote. It has checked the definitions, and its digest shows that they
         * are unchanged. Throws MetricsFileException.
         */
        fun read(text: String): Metrics = try {
            val document = Json.parse(text)
            val fields = Fields("compiled metrics", document)
            fields.refuseOtherKeys(listOf("version", "budget", "metrics", "digest"))
            if (fields.whole("version") != 1) fields.wrong("version", "1, the one known here")
            if (fields["digest"] != digestOf(fields["budget"], fields["metrics"])) {
                throw FormatException("compiled metrics: `digest` is missing or not theirs; run `rappor metrics compile` again")
            }
            Metrics(fields.list("metrics").map(::metricOf), fields.bound("budget"))
        } catch (error: IllegalArgumentException) {
            throw MetricsFileException(error.message.toString())
        }

        private fun metricOf(row: Any?): Metric {
            val fields = Fields("a metric", row)
            fields.refuseOtherKeys(listOf("params_id", "definition"))
            val name = fields.fields("definition").text("name")
            return Metric(Definition.of(Fields("metric '$name'", fields["definition"])), fields.text("params_id"))
        }

        /** Half of SHAKE-256 over what is declared as JSON; numbers are texts of their 8 bytes, lowest first. */
        fun digestOf(budget: Any?, metrics: Any?): String =
            Shake256.of(Json.write(withDoubles(listOf(budget, metrics))).toByteArray(), 16).toHex()

        private fun withDoubles(value: Any?): Any? = when (value) {
            is Double -> littleEndian(value.toRawBits(), 8).toHex()
            is List<*> -> value.map(::withDoubles)
            is Map<*, *> -> value.mapValues { withDoubles(it.value) }
            else -> value
        }
    }
}
