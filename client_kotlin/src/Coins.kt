package rappor.telemetry

private const val SCALE = 1 shl 16

/** Coins that are exact over 2^16 (docs/porting.md, part 3). */
internal sealed class Coin {
    /** Uniform bytes that one toss uses. */
    abstract val numBytes: Int

    abstract fun toss(bits: ByteArray, random: ByteArray): ByteArray
}

/** One coin where a bit is 1 and another where it is 0; thresholds over 2^16. */
internal class BitCoin(private val ifOne: Int, private val ifZero: Int, private val numBits: Int) : Coin() {
    private val size = (numBits + 7) / 8
    private val first = minOf(trailingZeros(ifOne), trailingZeros(ifZero))
    override val numBytes: Int = (16 - first) * size

    override fun toss(bits: ByteArray, random: ByteArray): ByteArray {
        val result = ByteArray(size) { i ->
            var ones = if (ifOne == SCALE) 255 else 0
            var zeros = if (ifZero == SCALE) 255 else 0
            for (digit in first until 16) {
                val word = random.at((digit - first) * size + i)
                if (ifOne < SCALE) ones = if (ifOne shr digit and 1 == 1) ones or word else ones and word
                if (ifZero < SCALE) zeros = if (ifZero shr digit and 1 == 1) zeros or word else zeros and word
            }
            (zeros xor (bits[i].toInt() and (ones xor zeros))).toByte()
        }
        if (numBits % 8 != 0) result[size - 1] = (result.at(size - 1) and (1 shl numBits % 8) - 1).toByte()
        return result
    }

    private fun trailingZeros(threshold: Int): Int =
        if (threshold == 0 || threshold == SCALE) 16 else Integer.numberOfTrailingZeros(threshold)
}

/** One symbol of g, kept or exchanged for another one: kept + (g - 1) * lie = 2^16. */
internal class SymbolCoin(private val kept: Int, private val lie: Int) : Coin() {
    override val numBytes: Int = 2

    override fun toss(bits: ByteArray, random: ByteArray): ByteArray {
        val drawn = random.at(0) + 256 * random.at(1)
        if (drawn < kept) return bits
        val other = (drawn - kept) / lie
        return oneBit(if (other >= symbolOf(bits)) other + 1 else other, bits.size)
    }

    private fun symbolOf(bits: ByteArray): Int {
        val byte = bits.indexOfFirst { it.toInt() != 0 }
        return 8 * byte + Integer.numberOfTrailingZeros(bits.at(byte))
    }
}

/** A word of `size` bytes with one bit set. */
internal fun oneBit(index: Int, size: Int): ByteArray =
    ByteArray(size).also { it[index / 8] = (1 shl index % 8).toByte() }
