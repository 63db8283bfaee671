package rappor.telemetry

private const val MAX_CHARS = 2048

/** From a value to its bits B on one device (docs/protocol.md). Throws ValueRefused, without the value. */
internal sealed class ValueEncoder(protected val metric: Metric) {
    abstract fun encode(value: Value): ByteArray

    /** Values that between them have every response; they are memoized first where there is no fallback. */
    abstract val allValues: List<Value>

    protected fun bit(index: Int): ByteArray = oneBit(index, metric.params.numBytes)

    protected fun hashed(text: String, cohort: Int): ByteArray {
        val bits = ByteArray(metric.params.numBytes)
        for (at in Hashing.positions(Hashing.normalize(text), metric.params, cohort)) {
            bits[at / 8] = (bits.at(at / 8) or (1 shl at % 8)).toByte()
        }
        return bits
    }

    protected fun wrongType(wanted: String): ValueRefused = ValueRefused("metric '${metric.name}' accepts a $wanted")

    protected fun textOf(value: Value): String {
        val text = (value as? Value.Text ?: throw wrongType("string")).text
        if (isLong(text)) throw ValueRefused("metric '${metric.name}' accepts at most $MAX_CHARS characters")
        return text
    }

    /** Characters are code points, not units of UTF-16. */
    protected fun isLong(text: String): Boolean =
        text.length > MAX_CHARS && (text.length > 2 * MAX_CHARS || text.codePointCount(0, text.length) > MAX_CHARS)

    companion object {
        fun of(metric: Metric, cohort: Int, secret: ByteArray): ValueEncoder = when (metric.definition.details) {
            is NumberDetails -> NumberEncoder(metric, Cuts.onDevice(metric, cohort, secret))
            is PairDetails -> PairEncoder(metric, cohort)
            else -> if (metric.definition.kind == Kind.BOOLEAN) BooleanEncoder(metric) else TextEncoder(metric, cohort)
        }
    }
}

private class BooleanEncoder(metric: Metric) : ValueEncoder(metric) {
    override val allValues: List<Value> = listOf(Value.Truth(false), Value.Truth(true))

    override fun encode(value: Value): ByteArray {
        val truth = value as? Value.Truth ?: throw wrongType("boolean")
        return byteArrayOf(if (truth.isTrue) 1 else 0)
    }
}

/** Strings, categories, and the cells of a location. */
private class TextEncoder(metric: Metric, private val cohort: Int) : ValueEncoder(metric) {
    private val places by lazy(LazyThreadSafetyMode.NONE) {
        metric.domain ?: metric.definition.categories.map(Hashing::canonical).withIndex().associate { (i, text) -> text to i }
    }
    override val allValues: List<Value> = metric.definition.categories.map { Value.Text(it) }

    override fun encode(value: Value): ByteArray {
        val text = textOf(value)
        if (metric.params.encoding != Encoding.ONE_HOT) return hashed(text, cohort)
        val index = places[Hashing.canonical(text)] ?: places[OTHER].takeIf { metric.domain != null }
        return bit(index ?: throw ValueRefused("metric '${metric.name}': the value is not one of its categories"))
    }
}

/** A value from each of two lists, encoded as one. */
private class PairEncoder(metric: Metric, private val cohort: Int) : ValueEncoder(metric) {
    private val details = metric.definition.details as PairDetails
    private val texts = details.texts.map(Hashing::canonical)
    override val allValues: List<Value> = details.texts.map { Value.Text(it) }

    override fun encode(value: Value): ByteArray {
        val place = when (value) {
            is Value.Text -> if (value.text.length > 4 * MAX_CHARS) -1 else texts.indexOf(Hashing.canonical(value.text))
            is Value.Two -> placeOf(0, value.first) * details.values[1].size + placeOf(1, value.second)
            else -> throw wrongType("pair (${details.of.joinToString()})")
        }
        if (place < 0) throw ValueRefused("metric '${metric.name}': the text is not one of its pairs")
        return if (metric.params.encoding == Encoding.ONE_HOT) bit(place) else hashed(texts[place], cohort)
    }

    private fun placeOf(side: Int, value: Value): Int {
        val given = if (value is Value.Text && !isLong(value.text)) Value.Text(Hashing.canonical(value.text)) else value
        val place = details.values[side].indexOf(given)
        if (place < 0) throw ValueRefused("metric '${metric.name}': the value of '${details.of[side]}' is not one of its list")
        return place
    }
}
