package rappor.telemetry

import java.util.Base64

private const val MAX_REMEMBERED = 256
private const val MAX_REMEMBERED_CHARS = 256

/** As many uniform bytes as asked for, from a secure generator. */
internal typealias Randomness = (numBytes: Int) -> ByteArray

/** Bits of a value with what a device derives from them. Private. */
internal class Encoded(val bits: ByteArray, derivePermanent: (ByteArray) -> ByteArray, deriveDigest: (ByteArray) -> String) {
    /** B' of B: the same for life. */
    val permanent: ByteArray by lazy(LazyThreadSafetyMode.NONE) { derivePermanent(bits) }

    /** What represents the memoized response in the ledger. */
    val digest: String by lazy(LazyThreadSafetyMode.NONE) { deriveDigest(bits) }
}

/** What one device does with values of one metric. All but the cohort and reports is private. */
internal class MetricEncoder(val metric: Metric, private val secret: ByteArray, private val randomness: Randomness) {
    val cohort: Int = Derivation.cohort(secret, metric.line, metric.params.numCohorts)
    private val fields = listOf(metric.line.toByteArray(), metric.paramsId.fromHex())
    private val first = coin(metric.params.p1, metric.params.q1)
    private val second = coin(metric.params.p2, metric.params.q2)
    private val encoder = ValueEncoder.of(metric, cohort, secret)
    private val remembered = HashMap<Value, Encoded>()

    /** What must be memoized before any value: fallback and no data, or all values. */
    val reserved: List<Encoded> by lazy(LazyThreadSafetyMode.NONE) {
        val (fallback, noData) = listOf(metric.definition.fallback, metric.definition.noData)
        val values = if (fallback == null) encoder.allValues else listOfNotNull(fallback, noData).map { Value.Text(it) }
        values.map { Encoded(encoder.encode(it), ::permanentOf, ::digestOf) }
    }

    /** B of a value. Throws ValueRefused. */
    fun encode(value: Value): Encoded {
        remembered[value]?.let { return it }
        val encoded = Encoded(encoder.encode(value), ::permanentOf, ::digestOf)
        if (value is Value.Text && value.text.length > MAX_REMEMBERED_CHARS) return encoded
        if (remembered.size >= MAX_REMEMBERED) remembered.clear()
        remembered[value] = encoded
        return encoded
    }

    /** S: the second round over the permanent response, fresh at each call. */
    fun reportBits(encoded: Encoded): ByteArray = second.toss(encoded.permanent, randomness(second.numBytes))

    fun report(encoded: Encoded, day: Int): QueuedReport = QueuedReport(
        metric.name, metric.paramsId, cohort, day, Base64.getEncoder().encodeToString(reportBits(encoded)),
    )

    private fun permanentOf(bits: ByteArray): ByteArray =
        first.toss(bits, Derivation.derive(secret, "permanent", fields + bits, first.numBytes))

    private fun digestOf(bits: ByteArray): String = Derivation.derive(secret, "ledger", fields + bits, 16).toHex()

    private fun coin(ifOne: Int, ifZero: Int): Coin =
        if (metric.params.hasSymbols) SymbolCoin(ifOne, ifZero) else BitCoin(ifOne, ifZero, metric.params.numBits)
}
