package rappor.telemetry

private const val LOWEST = -1e300 // below every edge

/** What a device compares numbers with: rising; -infinity is the question "is there any data?". Private where jittered. */
internal class Cuts(val numbers: List<Double>) {
    /** How many of the cuts are at or below a number. */
    fun symbolOf(number: Double): Int = numbers.count { it <= number }

    companion object {
        fun onDevice(metric: Metric, cohort: Int, secret: ByteArray): Cuts =
            of(metric.definition.details as NumberDetails, cohort, metric.params.numBits, jitterOf(metric, secret))

        /** What all devices are asked: an edge that every number is at or above is not a question. */
        fun questionsOf(details: NumberDetails): List<Double> {
            val asked = if (!details.asksMean && details.edges[0] == 0.0) details.edges.drop(1) else details.edges
            return if (details.isDataAsked) listOf(Double.NEGATIVE_INFINITY) + asked else asked
        }

        fun of(details: NumberDetails, cohort: Int, numSymbols: Int, jitter: Double): Cuts {
            val questions = questionsOf(details)
            val stride = (questions.size + numSymbols - 2) / (numSymbols - 1)
            val cuts = questions.filterIndexed { i, _ -> i % stride == cohort % stride }
            return Cuts(if (details.asksMean) cuts.map { moved(details, it, jitter) } else cuts)
        }

        /** A constant of the device in [0, 1), of a metric that asks for a mean; otherwise 0. Private. */
        fun jitterOf(metric: Metric, secret: ByteArray): Double {
            if (!(metric.definition.details as NumberDetails).asksMean) return 0.0
            val bytes = Derivation.derive(secret, "jitter", listOf(metric.line.toByteArray(), metric.paramsId.fromHex()), 8)
            val word = bytes.fold(0L) { sum, byte -> sum shl 8 or (byte.toLong() and 255) }
            return (word ushr 11) * Math.pow(2.0, -53.0)
        }

        /** The lower end of a stratum, moved by a part of its width; of logarithms on their own scale. */
        private fun moved(details: NumberDetails, cut: Double, jitter: Double): Double {
            val next = details.edges.getOrNull(details.edges.indexOf(cut) + 1)
            if (cut == Double.NEGATIVE_INFINITY || next == null) return cut
            if (!details.isLog) return cut + jitter * (next - cut)
            val (low, high) = listOf(Math.log(cut), Math.log(next))
            return Math.exp(low + jitter * (high - low))
        }
    }
}

/** Numbers of a period. */
internal class NumberEncoder(metric: Metric, private val cuts: Cuts) : ValueEncoder(metric) {
    private val details = metric.definition.details as NumberDetails
    override val allValues: List<Value> = when {
        details.isOnce -> emptyList()
        else -> {
            val lowest = if (details.edges[0] < 0) LOWEST else 0.0
            listOf(Value.NoData, Value.Amount(lowest)) + details.edges.map { Value.Amount(it) }
        }
    }

    override fun encode(value: Value): ByteArray = bit(
        when (value) {
            is Value.Symbol -> value.index
            is Value.NoData -> if (details.isDataAsked) 0 else cuts.symbolOf(0.0)
            else -> cuts.symbolOf(numberOf(value))
        },
    )

    /** A number that the metric accepts. */
    fun numberOf(value: Value): Double {
        val number = (value as? Value.Amount)?.number
        if (number == null || number.isNaN() || number.isInfinite()) throw wrongType("finite number")
        if (number < 0 && details.edges[0] >= 0) throw ValueRefused("metric '${metric.name}' accepts no number below 0")
        if (details.isWhole && number != Math.rint(number)) throw ValueRefused("metric '${metric.name}' accepts whole numbers")
        return number
    }
}
