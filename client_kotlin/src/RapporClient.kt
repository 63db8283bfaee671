package rappor.telemetry

import java.io.Closeable
import java.security.SecureRandom
import java.util.concurrent.CompletableFuture
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.TimeUnit.MILLISECONDS
import java.util.concurrent.TimeUnit.MINUTES
import java.util.concurrent.TimeoutException
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.atomic.AtomicInteger

private const val MAX_WAITING_CALLS = 1000
private const val LOOK_MINUTES = 15L
private const val CLOSE_MILLIS = 1500L

/**
 * Records values of declared metrics under local differential privacy, and delivers reports exactly once.
 *
 * Nothing blocks and nothing throws into the app but `open` and wrong arguments: all work is done on one daemon thread,
 * and a second one while a batch is being sent. A future is completed on that thread; do not wait for another one there.
 */
public class RapporClient private constructor(private val metrics: Metrics, storage: Storage, transport: Transport, options: Options) : Closeable {
    private val thread = clientThread()
    private val device = Device(metrics, storage, transport, options, { ByteArray(it).also(SECURE::nextBytes) }, thread)
    private val waitingCalls = AtomicInteger()
    private val isClosing = AtomicBoolean()

    /** Why the last record that was refused was; empty if none has been. No value is in it. */
    public val lastRefusal: String get() = device.lastRefusal

    /** Why the last try to send failed, or the last report was refused; empty if it was not. */
    public val lastError: String get() = device.sender.lastError

    /** Whether values are recorded, and if not, why. */
    public val status: Status get() = if (isClosing.get()) Status(Condition.CLOSED, CLOSED) else device.status

    /** Records a text, of kind string, category or pair (`first | second`). True when a report was queued, durably. */
    public fun record(name: String, value: String): CompletableFuture<Boolean> = take(name, Value.Text(value))

    /** Records a truth value, of kind boolean. */
    public fun record(name: String, value: Boolean): CompletableFuture<Boolean> = take(name, Value.Truth(value))

    /** Counts a number into its period, of kind number; one report leaves when the period is over. */
    public fun record(name: String, value: Number): CompletableFuture<Boolean> = take(name, Value.Amount(value.toDouble()))

    /** Records a pair: each side a text or a truth value. */
    public fun recordPair(name: String, first: Any, second: Any): CompletableFuture<Boolean> =
        take(name, Value.Two(sideOf(first), sideOf(second)))

    /** Adds to the sum of this period, of kind number with `of_period = "sum"`. */
    @JvmOverloads
    public fun add(name: String, amount: Number = 1): CompletableFuture<Boolean> = take(name, Value.Amount(amount.toDouble()), true)

    /**
     * Collects a fix of kind location, in degrees; it stays on the device. atMillis: its time, since 1970, now if left
     * out. offsetMinutes: east of UTC, where it was made.
     */
    @JvmOverloads
    public fun recordLocation(
        name: String,
        latitude: Double,
        longitude: Double,
        atMillis: Long? = null,
        offsetMinutes: Int? = null,
    ): CompletableFuture<Boolean> = place(name, listOf(Pair(latitude, longitude)), atMillis, offsetMinutes)

    /** Collects a trip that ended now; each end is latitude and longitude. */
    public fun recordTrip(name: String, origin: Pair<Double, Double>, destination: Pair<Double, Double>): CompletableFuture<Boolean> =
        place(name, listOf(origin, destination), null, null)

    /**
     * Sends what waits now, without the random delay. True when all was delivered and accepted within so many seconds.
     * A job of WorkManager or JobScheduler that has a network calls it, and ends when the future is complete.
     */
    public fun flush(seconds: Double): CompletableFuture<Boolean> {
        val (done, decision) = Pair(CompletableFuture<Boolean>(), device.decisions.get())
        val begun = submit(false) {
            device.flush(seconds, decision) { done.complete(it) }
            if (!done.isDone) thread.schedule({ done.complete(false) }, (seconds * 1000).toLong(), MILLISECONDS)
            true
        }
        begun.thenAccept { if (!it) done.complete(false) }
        return done
    }

    /** Stops. Nothing is lost: what was not delivered is sent after the next `open`. Not one byte leaves afterwards. */
    override fun close() {
        if (isClosing.getAndSet(true)) return
        device.sender.permit.stop()
        val ended = CompletableFuture<Boolean>()
        thread.execute { // after what was recorded before
            device.close()
            thread.shutdown()
            ended.complete(true)
        }
        try {
            ended.get(CLOSE_MILLIS, MILLISECONDS)
        } catch (error: TimeoutException) {
            // The thread is at work, and ends after it.
        } catch (error: InterruptedException) {
            Thread.currentThread().interrupt()
        }
    }

    /**
     * What the person decided now. Withdrawn: queue, values and secret are wiped, what is being sent is aborted, and not
     * one byte leaves once the future is complete; the numbers spent stay. budget: nats that the person agreed to, up to
     * the declared ones. The future is true if the decision holds: all is wiped, or values are recorded.
     */
    @JvmOverloads
    public fun setConsent(consent: Boolean, budget: Double? = null): CompletableFuture<Boolean> {
        if (budget != null && !(consent && budget > 0 && budget <= metrics.budget)) {
            throw ParameterException("budget needs consent, and a number above 0, up to ${metrics.budget}")
        }
        if (isClosing.get()) return CompletableFuture.completedFuture(false)
        val decision = device.decisions.incrementAndGet()
        if (!consent) {
            device.condition = Condition.NO_CONSENT
            device.keeper.isUnwiped = true
            device.sender.permit.stop()
        }
        return submit(false) { device.decide(consent, budget, decision) }
    }

    /**
     * Starts again with a new secret, if `status` reports that the state cannot be used. It spends the privacy budget
     * again: never call it automatically.
     */
    public fun reset(): CompletableFuture<Boolean> = submit(false) { device.reset() }

    /** What is queued, what was sent and what it can cost; null if the state cannot be read, or there is none. */
    public fun inspect(): CompletableFuture<DeviceAccount?> = submit(null) { device.inspect() }

    private fun take(name: String, value: Value, isAmount: Boolean = false): CompletableFuture<Boolean> {
        val (now, decision) = Pair(device.clock(), device.decisions.get())
        return submit(false) { device.take(name, value, isAmount, now, decision) }
    }

    private fun place(name: String, points: List<Pair<Double, Double>>, atMillis: Long?, offset: Int?): CompletableFuture<Boolean> {
        val (now, decision) = Pair(device.clock(), device.decisions.get())
        return submit(false) { device.place(name, points, atMillis?.toDouble(), offset, now, decision) }
    }

    /** Run on the client's thread; `otherwise` if the client is closed, too many calls wait, or something unforeseen happens. */
    private fun <T> submit(otherwise: T, act: () -> T): CompletableFuture<T> {
        val future = CompletableFuture<T>()
        if (isClosing.get() || waitingCalls.get() >= MAX_WAITING_CALLS) {
            device.lastRefusal = if (isClosing.get()) CLOSED else "more than $MAX_WAITING_CALLS calls wait"
            future.complete(otherwise)
            return future
        }
        waitingCalls.incrementAndGet()
        val work = Runnable {
            waitingCalls.decrementAndGet()
            future.complete(orElse(otherwise, act))
        }
        try {
            thread.execute(work)
        } catch (error: RejectedExecutionException) {
            future.complete(otherwise) // closed at this moment
        }
        return future
    }

    private fun <T> orElse(otherwise: T, act: () -> T): T = try {
        act()
    } catch (error: RuntimeException) {
        device.refused("mistake", "the client failed: $error")
        otherwise
    }

    private fun sideOf(side: Any): Value = when (side) {
        is Boolean -> Value.Truth(side)
        is String -> Value.Text(side)
        else -> Value.NoData // which no list has
    }

    private fun lookEveryQuarter() {
        thread.scheduleWithFixedDelay({ orElse(Unit) { device.look() } }, LOOK_MINUTES, LOOK_MINUTES, MINUTES)
    }

    /** Opens clients. */
    public companion object {
        private val SECURE = SecureRandom()
        private const val CLOSED = "the client is closed"

        /**
         * Opens a client. It returns at once; the state is opened on the client's thread, and trouble with it shows in
         * `status`. Open one client for a storage, when the person's answer is known.
         *
         * @param metrics the text that `rappor metrics compile` wrote
         * @param storage where the state is kept, such as `FileStorage(File(context.noBackupFilesDir, "rappor"))`
         * @param collector the address of the collector
         * @param consent what the person answered: there is no default
         * @throws MetricsFileException for compiled metrics that cannot be read
         * @throws ParameterException for an argument outside its range
         */
        @JvmStatic
        @JvmOverloads
        public fun open(metrics: String, storage: Storage, collector: String, consent: Boolean, options: Options = Options()): RapporClient {
            val url = batchUrl(collector, options.key, options.isDevelopment)
            val transport = options.transport ?: HttpTransport(url, options.key)
            val client = RapporClient(Metrics.read(metrics), storage, transport, options)
            client.setConsent(consent)
            if (options.delivery.isAutomatic) client.lookEveryQuarter()
            return client
        }
    }
}
