package rappor.telemetry

/** Bytes and their texts. */
private const val DIGITS = "0123456789abcdef"

internal fun ByteArray.toHex(): String {
    val text = StringBuilder(2 * size)
    for (byte in this) text.append(DIGITS[byte.toInt() shr 4 and 15]).append(DIGITS[byte.toInt() and 15])
    return text.toString()
}

/** The inverse of `toHex`. Throws FormatException for anything else. */
internal fun String.fromHex(): ByteArray {
    if (length % 2 != 0) throw FormatException("an odd number of hexadecimal digits")
    return ByteArray(length / 2) { i ->
        val (high, low) = listOf(DIGITS.indexOf(this[2 * i]), DIGITS.indexOf(this[2 * i + 1]))
        if (high < 0 || low < 0) throw FormatException("not hexadecimal digits")
        (high * 16 + low).toByte()
    }
}

internal fun concat(parts: List<ByteArray>): ByteArray {
    val whole = ByteArray(parts.sumOf { it.size })
    var at = 0
    for (part in parts) {
        part.copyInto(whole, at)
        at += part.size
    }
    return whole
}

/** `size` bytes of a number, the most significant first. */
internal fun bigEndian(value: Long, size: Int): ByteArray =
    ByteArray(size) { i -> (value shr 8 * (size - 1 - i)).toByte() }

internal fun bigEndian(value: Int, size: Int): ByteArray = bigEndian(value.toLong(), size)

/** `size` bytes of a number, the least significant first. */
internal fun littleEndian(value: Long, size: Int): ByteArray = ByteArray(size) { i -> (value shr 8 * i).toByte() }

/** A byte as a number from 0 to 255. */
internal fun ByteArray.at(index: Int): Int = this[index].toInt() and 255
