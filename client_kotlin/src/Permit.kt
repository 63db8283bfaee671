package rappor.telemetry

import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit.MILLISECONDS

private const val PATIENCE_MILLIS = 1000L // for an exchange to end once it was aborted

/** The permission to send, from one consent to its end. */
internal class Permit {
    private val over = CountDownLatch(1)
    private var request: Request? = null
    private var ended = CountDownLatch(0)
    private val atEnd = HashSet<() -> Unit>()
    val isOver: Boolean get() = over.count == 0L

    /** Begin an exchange; null if nothing may be sent any more. */
    @Synchronized
    fun begin(batch: StoredBatch, body: ByteArray, timeout: Double): Request? {
        if (isOver) return null
        ended = CountDownLatch(1)
        return Request(body, BINARY_TYPE, batch.encoding, timeout).also { request = it }
    }

    @Synchronized
    fun finish() {
        request = null
        ended.countDown()
    }

    /** Call `act` when the permission ends, until it is removed: an exchange may hang in its answer for a while. */
    @Synchronized
    fun add(act: () -> Unit): Boolean = atEnd.add(act)

    @Synchronized
    fun remove(act: () -> Unit): Boolean = atEnd.remove(act)

    /** Begin nothing more, from now on. */
    fun stop(): Unit = over.countDown()

    /** End it for good: an exchange is aborted, and waited for, a second at most. */
    fun end() {
        stop()
        val exchange = synchronized(this) { request }
        exchange?.abort()
        synchronized(this) { atEnd.toList() }.forEach { it() }
        synchronized(this) { ended }.await(PATIENCE_MILLIS, MILLISECONDS)
    }

    fun pause(seconds: Double) {
        over.await((seconds * 1000).toLong(), MILLISECONDS)
    }
}
