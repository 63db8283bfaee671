package rappor.telemetry

import java.security.MessageDigest
import java.text.Normalizer

private val C1 = 0x87c37b91114253d5uL.toLong()
private val C2 = 0x4cf5ad432745937fuL.toLong()

/** From a value to the positions of its bits (docs/protocol.md, "From a value to Bloom bits"). */
internal object Hashing {
    /** Unicode NFC: composed and decomposed letters are one string. */
    fun canonical(text: String): String = Normalizer.normalize(text, Normalizer.Form.NFC)

    /** NFC, then UTF-8. Throws ValueRefused for a lone surrogate, which UTF-8 cannot express. */
    fun normalize(text: String): ByteArray {
        var at = 0
        while (at < text.length) {
            val point = text.codePointAt(at)
            if (point in 0xd800..0xdfff) throw ValueRefused("the string holds a lone surrogate; clean it first")
            at += Character.charCount(point)
        }
        return canonical(text).toByteArray()
    }

    /** Positions of a value (its normalized bytes) in one cohort, each in [0, numBits). */
    fun positions(data: ByteArray, params: Params, cohort: Int): IntArray = when (params.hash) {
        Hash.MMH3 -> mmh3(data, cohort, params.numBits, params.numHashes)
        Hash.MD5 -> md5(data, cohort, params.numBits, params.numHashes)
    }

    fun mmh3(data: ByteArray, cohort: Int, numBits: Int, numHashes: Int): IntArray {
        val (base, step) = murmur3(data)
        val words = (numHashes + 1) / 2
        return IntArray(numHashes) { i ->
            val word = mix64(base + (cohort.toLong() * words + i / 2 + 1) * (step or 1))
            val half = if (i % 2 == 0) word ushr 32 else word and 0xffffffffL
            (half * numBits ushr 32).toInt()
        }
    }

    /** As the clients of google/rappor: byte i of MD5(cohort in 4 bytes, then the value), modulo numBits. */
    fun md5(data: ByteArray, cohort: Int, numBits: Int, numHashes: Int): IntArray {
        val digest = MessageDigest.getInstance("MD5").digest(bigEndian(cohort, 4) + data)
        return IntArray(numHashes) { i -> digest.at(i) % numBits }
    }

    /** MurmurHash3, x64, 128 bits, seed 0: two halves, h1 first. */
    fun murmur3(data: ByteArray): Pair<Long, Long> {
        var (h1, h2) = Pair(0L, 0L)
        val body = data.size / 16 * 16
        for (block in 0 until body / 16) {
            val at = 16 * block
            h1 = h1 xor scrambled(load(data, at), C1, 31, C2)
            h1 = (java.lang.Long.rotateLeft(h1, 27) + h2) * 5 + 0x52dce729
            h2 = h2 xor scrambled(load(data, at + 8), C2, 33, C1)
            h2 = (java.lang.Long.rotateLeft(h2, 31) + h1) * 5 + 0x38495ab5
        }
        h2 = h2 xor scrambled(load(data, body + 8), C2, 33, C1) xor data.size.toLong()
        h1 = h1 xor scrambled(load(data, body), C1, 31, C2) xor data.size.toLong()
        h1 += h2
        h2 += h1
        h1 = finish(h1)
        h2 = finish(h2)
        h1 += h2
        h2 += h1
        return Pair(h1, h2)
    }

    /** Up to 8 bytes from `at` on, the least significant first. */
    private fun load(data: ByteArray, at: Int): Long {
        var word = 0L
        for (i in at until minOf(at + 8, data.size)) word = word or (data.at(i).toLong() shl 8 * (i - at))
        return word
    }

    private fun scrambled(word: Long, first: Long, by: Int, then: Long): Long =
        java.lang.Long.rotateLeft(word * first, by) * then

    private fun finish(hash: Long): Long {
        var mixed = (hash xor (hash ushr 33)) * 0xff51afd7ed558ccduL.toLong()
        mixed = (mixed xor (mixed ushr 33)) * 0xc4ceb9fe1a85ec53uL.toLong()
        return mixed xor (mixed ushr 33)
    }

    /** The finalizer of SplitMix64. */
    private fun mix64(word: Long): Long {
        var mixed = (word xor (word ushr 30)) * 0xbf58476d1ce4e5b9uL.toLong()
        mixed = (mixed xor (mixed ushr 27)) * 0x94d049bb133111ebuL.toLong()
        return mixed xor (mixed ushr 31)
    }
}
