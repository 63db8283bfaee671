package rappor.telemetry

import java.util.Base64
import java.util.zip.CRC32

internal const val BINARY_TYPE = "application/vnd.rappor.batch"
private const val MAX_BLOCK = 65_535

/**
 * The binary form of a batch (docs/protocol.md): a run of reports alike in all but cohort and bits is one group.
 * Throws IllegalArgumentException for what has no such form.
 */
internal fun encodeBinary(id: ByteArray, reports: List<QueuedReport>): ByteArray {
    val groups = ArrayList<MutableList<ByteArray>>()
    var alike: List<Any>? = null
    for (report in reports) {
        val bits = Base64.getDecoder().decode(report.bits)
        val key = listOf(report.metric, report.paramsId, report.day, bits.size)
        if (key != alike) {
            alike = key
            val (name, paramsId) = listOf(report.metric.toByteArray(), report.paramsId.fromHex())
            require(name.size in 1..128 && paramsId.size == 16 && bits.size in 1..8192) { "not a report" }
            val head = listOf(bigEndian(name.size, 1), name, paramsId, bigEndian(report.day, 4), bigEndian(bits.size, 2))
            groups.add(mutableListOf(concat(head)))
        }
        groups.last().add(bigEndian(report.cohort, 2) + bits)
    }
    val parts = groups.flatMap { listOf(it[0], bigEndian(it.size - 1, 4)) + it.drop(1) }
    return concat(listOf("RAPR".toByteArray(), byteArrayOf(1), id, bigEndian(groups.size, 2)) + parts)
}

/** By what they say: the order of reports in a batch reveals nothing else. */
internal fun sortedByContent(reports: List<QueuedReport>): List<QueuedReport> =
    reports.sortedWith(compareBy({ it.metric }, { it.paramsId }, { it.day }, { it.cohort }, { Base64.getDecoder().decode(it.bits).toHex() }))

/**
 * Gzip with zeros in the extra field of the header up to a multiple of `padTo` bytes. Nothing is compressed, because
 * reports are random bits: gzip is the envelope that may be padded.
 */
internal fun gzipPadded(data: ByteArray, padTo: Int): ByteArray {
    val blocks = ArrayList<ByteArray>()
    for (at in data.indices step MAX_BLOCK) {
        val end = minOf(at + MAX_BLOCK, data.size)
        blocks.add(byteArrayOf(if (end == data.size) 1 else 0))
        blocks.add(littleEndian((end - at).toLong(), 2))
        blocks.add(littleEndian((MAX_BLOCK - (end - at)).toLong(), 2))
        blocks.add(data.copyOfRange(at, end))
    }
    val sum = CRC32().apply { update(data) }.value
    val body = concat(blocks + listOf(littleEndian(sum, 4), littleEndian(data.size.toLong(), 4)))
    val zeros = (padTo - (16 + body.size) % padTo) % padTo
    val header = byteArrayOf(0x1f, 0x8b.toByte(), 8, 4, 0, 0, 0, 0, 0, 255.toByte())
    val extra = listOf(littleEndian(zeros + 4L, 2), "RP".toByteArray(), littleEndian(zeros.toLong(), 2), ByteArray(zeros))
    return concat(listOf(header) + extra + body)
}
