package rappor.telemetry

import java.io.IOException
import java.time.Instant
import java.util.concurrent.ExecutionException
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.ScheduledFuture
import java.util.concurrent.ScheduledThreadPoolExecutor
import java.util.concurrent.TimeUnit.MILLISECONDS

internal const val MAX_DELAY = 10 // times the mean
private const val FLUSH_PAUSE = 2.0
private const val BUSY_PAUSE = 0.1
private const val BUSY_PAUSE_UNHURRIED = 5.0

/** Seconds; a wall clock that is set neither hurries nor stops what is measured. */
internal fun monotonic(): Double = System.nanoTime() / 1e9

/** A number in [0, 1). */
internal fun uniform(randomness: Randomness): Double = randomness(6).fold(0.0) { sum, byte -> (sum + (byte.toInt() and 255)) / 256 }

/** Seconds, geometric: how long a report has waited reveals nothing about how long it will. */
internal fun geometricDelay(mean: Double, randomness: Randomness): Double {
    val ticks = maxOf(1.0, Math.ceil(Math.log(1 - uniform(randomness)) / Math.log(0.99)))
    return minOf(ticks * mean / 100, MAX_DELAY * mean)
}

/** Runs an act over the state on the client's thread and waits for it; null if consent has ended. */
internal interface Transactions {
    fun <T> run(permit: Permit, act: (Transaction) -> T): T?

    /** Returns when what was written would survive a loss of power. */
    fun sync()
}

/** Sends what waits: when, in which pauses, and one batch after the other. Its thread exists only meanwhile. */
internal class Sender(
    private val transport: Transport,
    private val delivery: Delivery,
    private val randomness: Randomness,
    private val clock: () -> Double,
    private val timers: ScheduledThreadPoolExecutor,
    private val transactions: Transactions,
    private val warn: (String) -> Unit,
) {
    private val outbox = Outbox(delivery, randomness)
    private val rounds = ThreadUntilIdle("rappor-telemetry-sender")
    private var failures = 0
    @Volatile private var lost = 0
    private var isWarned = false

    /** Batches that may have been counted though no answer came: the halves of one would have new ids. */
    private var tried: MutableSet<String>? = null
    private var timer: ScheduledFuture<*>? = null

    @Volatile private var until = 0.0

    @Volatile private var untilHurried = 0.0

    @Volatile var permit: Permit = Permit().also { it.end() }
        private set

    @Volatile var lastError: String = ""
        private set

    /** Since when nothing could be delivered; null if the last try did not fail. */
    @Volatile var failing: Failing? = null

    /** The person consents: send from now on. */
    fun begin() {
        if (permit.isOver) permit = Permit()
    }

    /** Send nothing from now on. The batch under way is still stored, and its bytes are sent again after a new consent. */
    fun end() {
        synchronized(this) { timer?.cancel(false) }
        permit.end()
    }

    /** See that something is sent so many seconds from now. */
    fun wakeIn(seconds: Double) {
        val permit = permit
        if (permit.isOver || !delivery.isAutomatic) return
        val millis = (maxOf(seconds, until - monotonic(), 0.0).coerceAtMost(DAY_SECONDS) * 1000).toLong()
        synchronized(this) {
            val before = timer
            if (before != null && !before.isDone && before.getDelay(MILLISECONDS) <= millis) return
            before?.cancel(false)
            timer = try {
                timers.schedule({ rounds.run { due(permit) } }, millis, MILLISECONDS)
            } catch (error: RejectedExecutionException) {
                null // closed
            }
        }
    }

    /** Drop the oldest of what waits above the bounds. */
    fun trim(store: Transaction) {
        lost += outbox.compose(store) + outbox.outstanding(store).second
    }

    /** Send all that waits, without the random delay; `done` learns whether all was delivered in time and accepted. */
    fun flush(timeout: Double, done: (Boolean) -> Unit) {
        val permit = permit
        val end = monotonic() + timeout
        val over = { done(false) }
        permit.add(over)
        rounds.run {
            done(flushNow(permit, end))
            permit.remove(over)
        }
    }

    private fun flushNow(permit: Permit, end: Double): Boolean {
        val before = lost
        while (true) {
            val left = round(false, permit)
            if (left == 0) return lost == before
            val pause = if (left == null) maxOf(BUSY_PAUSE, untilHurried - monotonic()) else 0.0
            if (permit.isOver || monotonic() + pause >= end) return false
            permit.pause(pause)
        }
    }

    private fun due(permit: Permit) {
        val left = round(delivery.meanDelay > 0, permit)
        if (permit.isOver || left == 0) return
        if (left == null) return wakeIn(if (until > 0) 0.0 else BUSY_PAUSE_UNHURRIED)
        val delay = geometricDelay(delivery.meanDelay / left, randomness)
        wakeIn(delay)
        attempt { transactions.run(permit) { it.device = it.device.copy(sendAt = clock() + delay) } }
    }

    /** Send one batch, or all. How many are left; null if it failed. */
    private fun round(onlyOne: Boolean, permit: Permit): Int? = attempt {
        val ids = stored(permit) ?: return@attempt null
        for ((at, id) in ids.withIndex()) {
            if (permit.isOver || !send(id, permit)) return@attempt null
            if (onlyOne && at + 1 < ids.size) return@attempt ids.size - at - 1
        }
        stored(permit)?.size // what was recorded or split meanwhile
    }

    private fun <T> attempt(act: () -> T?): T? = try {
        act()
    } catch (error: RuntimeException) { // on Android one that nobody catches would end the app
        if (!permit.isOver) lastError = "state: ${error.message}"
        null
    }

    /** Ids of the batches into which all that waits is made, in random order. */
    private fun stored(permit: Permit): List<String>? = transactions.run(permit) { store ->
        if (tried == null) tried = store.list(BATCH).mapTo(HashSet()) { it.first.removePrefix(BATCH) }
        lost += outbox.compose(store)
        val (ids, dropped) = outbox.outstanding(store)
        lost += dropped
        failing = store.device.failing.takeIf { ids.isNotEmpty() }
        if (ids.isEmpty() && (store.device.sendAt != null || store.device.failing != null)) {
            store.device = store.device.copy(sendAt = null, failing = null)
        }
        outbox.shuffled(ids)
    }

    /** Send a batch, if it is still there. False if it must be tried again. */
    private fun send(id: String, permit: Permit): Boolean {
        val batch = transactions.run(permit) { it.device.let { _ -> it[BATCH + id] as? StoredBatch } } ?: return !permit.isOver
        transactions.sync() // a guarantee depends on what was written
        val body = bodyOf(batch)
        val request = permit.begin(batch, body, delivery.timeout) ?: return false
        val deadline = timers.schedule({ request.abort() }, (delivery.timeout * 1000).toLong(), MILLISECONDS)
        val response = try {
            transport.send(request)
        } catch (error: IOException) {
            return failedToConnect(batch, permit, error)
        } catch (error: RuntimeException) { // of the platform, or of a transport of the app
            return failedToConnect(batch, permit, error)
        } finally {
            deadline.cancel(false)
            permit.finish()
        }
        if (permit.isOver) return false
        val isNew = tried?.add(id) ?: true
        return when (val verdict = verdictOf(response, batch, body, clock())) {
            is Verdict.Large -> {
                val isSplit = (isNew || verdict.isFinal) && transactions.run(permit) { outbox.split(it, id) } == true
                isSplit || failed(batch, permit, "too_large", 0.0)
            }
            is Verdict.Again -> failed(batch, permit, verdict.reason, verdict.wait)
            is Verdict.Answered -> end(batch, permit, verdict.results)
            is Verdict.Never -> end(batch, permit, null, verdict.reason)
        }
    }

    private fun failedToConnect(batch: StoredBatch, permit: Permit, error: Exception): Boolean {
        tried?.add(batch.id)
        return !permit.isOver && failed(batch, permit, "no_connection: $error", 0.0)
    }

    /** Count what became of each report. results: empty if accepted, otherwise the reason; null if the batch is dropped. */
    private fun end(batch: StoredBatch, permit: Permit, results: List<String>?, dropped: String = ""): Boolean {
        failures = 0
        until = 0.0
        untilHurried = 0.0
        failing = null
        lastError = ""
        transactions.run(permit) { store ->
            outbox.remove(store, batch.id) { report, at ->
                val reason = results?.get(at)
                if (reason == "") return@remove "accepted:${report.metric}"
                lost += 1
                (if (reason == null) "dropped:$dropped:${report.metric}" else "refused:${report.metric}:$reason").also { lastError = it }
            }
            val today = Days.at(clock())
            val answered = results.orEmpty().foldIndexed(store.device) { at, device, reason -> device.answered(batch.reports[at], reason, today) }
            store.device = answered.copy(failing = null)
        }
        return true
    }

    /** Uniform in [0, firstPause * 2^failures], bounded; a Retry-After comes before it. */
    private fun failed(batch: StoredBatch, permit: Permit, reason: String, wait: Double): Boolean {
        lastError = reason
        failures += 1
        val longest = minOf(delivery.longestPause, delivery.firstPause * Math.pow(2.0, minOf(failures, 40).toDouble()))
        val jitter = uniform(randomness) * longest
        val start = monotonic() + minOf(wait, delivery.longestRetryAfter)
        until = start + jitter
        untilHurried = start + minOf(jitter, FLUSH_PAUSE)
        transactions.run(permit) { store ->
            val since = Failing(store.device.failing?.since ?: clock(), reason)
            failing = since
            store.device = store.device.copy(failing = since)
            if (clock() / DAY_SECONDS >= batch.lastDay + delivery.maxAgeDays + 1) {
                lost += 1
                outbox.remove(store, batch.id) { _, _ -> "dropped:too_old" }
            }
        }
        if (!isWarned) failing?.let { warn(sentenceOf(it)) }
        isWarned = true
        return false
    }

    companion object {
        /** Since when nothing is delivered, and why; also if what is stored of it is damaged. */
        fun sentenceOf(failing: Failing): String {
            val since = Instant.ofEpochSecond(failing.since.coerceIn(0.0, 2.5e11).toLong())
            return "values are recorded and wait: not delivered since $since, because ${failing.why}"
        }
    }
}

/** Waits for an act on another thread, and throws what the act threw. */
internal fun <T> resultOf(future: java.util.concurrent.Future<T>): T = try {
    future.get()
} catch (error: ExecutionException) {
    throw error.cause ?: error
}
