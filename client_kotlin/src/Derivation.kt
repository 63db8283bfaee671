package rappor.telemetry

internal const val SECRET_BYTES = 32
private val DOMAIN = "rappor-telemetry v1".toByteArray()

/** What a device derives from its secret (docs/porting.md, part 1). Private unless stated otherwise. */
internal object Derivation {
    /** `length` pseudo-random bytes for a purpose and its fields, each hashed after its length. */
    fun derive(secret: ByteArray, purpose: String, fields: List<ByteArray>, length: Int): ByteArray =
        Shake256.of(keyedInput(secret, purpose, fields), length)

    fun keyedInput(secret: ByteArray, purpose: String, fields: List<ByteArray>): ByteArray =
        concat((listOf(DOMAIN, purpose.toByteArray(), secret) + fields).flatMap { listOf(bigEndian(it.size, 4), it) })

    /** A number in [0, choices), uniform but for choices / 2^64. */
    fun draw(secret: ByteArray, purpose: String, name: String, choices: Int, fields: List<ByteArray> = emptyList()): Int =
        scaled(derive(secret, purpose, listOf(name.toByteArray()) + fields, 8), choices)

    /** The cohort of a device for a metric (its name up to the first `/`). Public. */
    fun cohort(secret: ByteArray, line: String, numCohorts: Int): Int = draw(secret, "cohort", line, numCohorts)

    /** 8 bytes that detect a damaged secret; they do not help to find it. */
    fun check(secret: ByteArray): String = derive(secret, "check", emptyList(), 8).toHex()

    /**
     * The 8 bytes as a number, times `choices`, divided by 2^64. The product is made of halves, because
     * `Math.multiplyHigh` is of Java 9 and Android 12.
     */
    private fun scaled(bytes: ByteArray, choices: Int): Int {
        val (high, low) = listOf(0, 4).map { from -> (0..3).fold(0L) { sum, i -> sum * 256 + bytes.at(from + i) } }
        return (high * choices + (low * choices ushr 32) ushr 32).toInt()
    }
}
