package rappor.telemetry

import java.util.Base64

private const val MAX_BODY = 58_000

/** From queued reports to stored batches, and what becomes of them. Each act is part of one transaction. */
internal class Outbox(private val delivery: Delivery, private val randomness: Randomness) {
    /** The items in random order. */
    fun <T> shuffled(items: List<T>): List<T> = items.map { randomness(8).toHex() to it }.sortedBy { it.first }.map { it.second }

    /** Turn what is queued into batches of one metric, and drop what is damaged. How many that were. */
    fun compose(store: Transaction): Int {
        val rows = store.list(QUEUE)
        if (rows.isEmpty()) return 0
        val (whole, damaged) = rows.partition { it.second is QueuedReport }
        val dropped = drop(store, "damaged", damaged)
        for ((key, _) in whole) store.remove(key)
        for (group in whole.mapNotNull { it.second as? QueuedReport }.groupBy { it.metric }.values) {
            val most = (MAX_BODY / (group[0].bits.length + 44)).coerceIn(1, delivery.batchReports)
            for (reports in shuffled(group).chunked(most)) makeBatch(store, reports)
        }
        return dropped
    }

    /** The ids of the batches that wait, and how many reports were dropped: what is damaged, and above the bounds the oldest. */
    fun outstanding(store: Transaction): Pair<List<String>, Int> {
        val (whole, damaged) = store.list(BATCH).partition { it.second is StoredBatch }
        var reports = 0
        var bytes = 0
        val (kept, gone) = whole.map { it.second as StoredBatch }.sortedByDescending { it.lastDay }.partition { batch ->
            reports += batch.reports.size
            bytes += batch.body.length / 4 * 3
            reports <= delivery.maxQueued && bytes <= delivery.maxQueuedBytes
        }
        val dropped = drop(store, "damaged", damaged) + drop(store, "queue_full", gone.map { BATCH + it.id to it })
        return Pair(kept.map { it.id }, dropped)
    }

    /** Forget a batch, and count what became of each of its reports; nothing if it is gone already. */
    fun remove(store: Transaction, id: String, outcome: (report: QueuedReport, at: Int) -> String) {
        val batch = store[BATCH + id] as? StoredBatch ?: return
        val counted = batch.reports.foldIndexed(store.device) { at, device, report -> device.counted(outcome(report, at)) }
        store.remove(BATCH + id)
        store.device = counted.copy(waiting = maxOf(0, counted.waiting - batch.reports.size))
    }

    /** Replace a batch by two of half the reports, with new ids. False for one report. */
    fun split(store: Transaction, id: String): Boolean {
        val batch = store[BATCH + id] as? StoredBatch ?: return true
        if (batch.reports.size < 2) return false
        val order = shuffled(batch.reports)
        val middle = order.size / 2
        for (half in listOf(order.take(middle), order.drop(middle))) makeBatch(store, half)
        store.remove(BATCH + id)
        return true
    }

    /** Store a batch under a new id: bytes that never change again. */
    private fun makeBatch(store: Transaction, reports: List<QueuedReport>) {
        val id = randomness(16)
        val sorted = sortedByContent(reports)
        val plain = encodeBinary(id, sorted)
        val body = if (delivery.padTo > 0) gzipPadded(plain, delivery.padTo) else plain
        val text = Base64.getEncoder().encodeToString(body)
        store[BATCH + id.toHex()] = StoredBatch(id.toHex(), if (delivery.padTo > 0) "gzip" else "", text, sorted)
    }

    /** Take documents out, and count their reports under a reason. How many these were. */
    private fun drop(store: Transaction, reason: String, rows: List<Pair<String, Document>>): Int {
        if (rows.isEmpty()) return 0
        for ((key, _) in rows) store.remove(key)
        val reports = rows.sumOf { (_, document) ->
            when (document) {
                is StoredBatch -> document.reports.size
                is Damaged -> document.reports
                else -> 1
            }
        }
        store.device = store.device.counted("dropped:$reason", reports).let { it.copy(waiting = maxOf(0, it.waiting - reports)) }
        return reports
    }
}

/** The bytes of a stored batch. */
internal fun bodyOf(batch: StoredBatch): ByteArray = Base64.getDecoder().decode(batch.body)
