package rappor.telemetry

/** SHAKE-256 (FIPS 202). */
internal object Shake256 {
    private const val RATE = 136 // bytes of a block
    private const val DOMAIN = 0x1fL
    private val ROTATIONS = intArrayOf(
        1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44,
    )
    private val LANES = intArrayOf(
        10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1,
    )
    private val CONSTANTS = roundConstants()

    /** The first `length` bytes of the output for some bytes. */
    fun of(data: ByteArray, length: Int): ByteArray {
        val lanes = LongArray(25)
        var at = 0
        while (data.size - at >= RATE) {
            absorb(lanes, data, at, RATE)
            permute(lanes)
            at += RATE
        }
        val rest = data.size - at
        absorb(lanes, data, at, rest)
        lanes[rest / 8] = lanes[rest / 8] xor (DOMAIN shl 8 * (rest % 8))
        lanes[RATE / 8 - 1] = lanes[RATE / 8 - 1] xor Long.MIN_VALUE
        val output = ByteArray(length)
        for (i in 0 until length) {
            val inBlock = i % RATE
            if (inBlock == 0) permute(lanes)
            output[i] = (lanes[inBlock / 8] ushr 8 * (inBlock % 8)).toByte()
        }
        return output
    }

    private fun absorb(lanes: LongArray, data: ByteArray, from: Int, size: Int) {
        for (i in 0 until size) lanes[i / 8] = lanes[i / 8] xor (data.at(from + i).toLong() shl 8 * (i % 8))
    }

    private fun permute(lanes: LongArray) {
        for (constant in CONSTANTS) {
            val a = column(lanes, 0)
            val b = column(lanes, 1)
            val c = column(lanes, 2)
            val d = column(lanes, 3)
            val e = column(lanes, 4)
            mix(lanes, 0, e xor java.lang.Long.rotateLeft(b, 1))
            mix(lanes, 1, a xor java.lang.Long.rotateLeft(c, 1))
            mix(lanes, 2, b xor java.lang.Long.rotateLeft(d, 1))
            mix(lanes, 3, c xor java.lang.Long.rotateLeft(e, 1))
            mix(lanes, 4, d xor java.lang.Long.rotateLeft(a, 1))
            var moved = lanes[1]
            for (i in 0 until 24) {
                val next = lanes[LANES[i]]
                lanes[LANES[i]] = java.lang.Long.rotateLeft(moved, ROTATIONS[i])
                moved = next
            }
            for (row in 0..4) chi(lanes, 5 * row)
            lanes[0] = lanes[0] xor constant
        }
    }

    private fun column(lanes: LongArray, x: Int): Long =
        lanes[x] xor lanes[x + 5] xor lanes[x + 10] xor lanes[x + 15] xor lanes[x + 20]

    private fun mix(lanes: LongArray, x: Int, mixed: Long) {
        for (row in 0..4) lanes[x + 5 * row] = lanes[x + 5 * row] xor mixed
    }

    private fun chi(lanes: LongArray, y: Int) {
        val a = lanes[y]
        val b = lanes[y + 1]
        lanes[y] = a xor (b.inv() and lanes[y + 2])
        lanes[y + 1] = b xor (lanes[y + 2].inv() and lanes[y + 3])
        lanes[y + 2] = lanes[y + 2] xor (lanes[y + 3].inv() and lanes[y + 4])
        lanes[y + 3] = lanes[y + 3] xor (lanes[y + 4].inv() and a)
        lanes[y + 4] = lanes[y + 4] xor (a.inv() and b)
    }

    /** The 24 constants of FIPS 202, 3.2.5: bits of a shift register. */
    private fun roundConstants(): LongArray {
        var register = 1
        return LongArray(24) {
            var constant = 0L
            for (j in 0..6) {
                if (register and 1 == 1) constant = constant or (1L shl (1 shl j) - 1)
                register = register shl 1
                if (register and 0x100 != 0) register = register xor 0x171
            }
            constant
        }
    }
}
