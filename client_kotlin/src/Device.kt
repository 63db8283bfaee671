package rappor.telemetry

import java.util.concurrent.Callable
import java.util.concurrent.Future
import java.util.concurrent.ScheduledThreadPoolExecutor
import java.util.concurrent.atomic.AtomicInteger

private const val TRIMMED_EVERY = 250 // records, where nothing is sent

/**
 * A client's device: state, consent, recording and sending. Everything but the volatile properties belongs to the
 * client's thread, so that one act follows the other.
 */
internal class Device(
    private val metrics: Metrics,
    storage: Storage,
    transport: Transport,
    private val options: Options,
    private val randomness: Randomness,
    private val thread: ScheduledThreadPoolExecutor,
) {
    val clock: () -> Double = { options.clock() / 1000.0 }
    private val recorder = Recorder(metrics, options.privacyLevel, randomness)
    private val places = Places(recorder)
    private val state = StateFile(storage)
    val keeper = Keeper(storage, state)
    val sender = Sender(transport, options.delivery, randomness, clock, thread, OnThread(), ::warn)
    private val uncounted = HashMap<String, Long>()
    private var filled: Pair<Int, Int>? = null

    @Volatile var condition = Condition.NO_CONSENT

    @Volatile private var trouble = ""

    @Volatile var lastRefusal: String = ""

    /** What was begun under an earlier decision of the person is not finished. */
    val decisions = AtomicInteger()

    val status: Status get() {
        val failing = sender.failing
        return when {
            condition.isStateTrouble -> Status(condition, "nothing is recorded: $trouble")
            condition == Condition.ACTIVE && failing?.why in listOf("http_401", "http_403") ->
                Status(Condition.KEY_REFUSED, "the collector refuses the key; reports wait")
            condition == Condition.ACTIVE && failing != null -> Status(Condition.NOT_DELIVERED, Sender.sentenceOf(failing))
            condition == Condition.NO_CONSENT && keeper.isUnwiped ->
                Status(condition, "nothing is recorded: consent is withdrawn, but the state could not be wiped yet: $trouble")
            else -> Status(condition, SENTENCES.getValue(condition))
        }
    }

    private val mayRecord: Boolean get() = condition == Condition.ACTIVE || condition.isStateTrouble

    /** Do what the person decided. budget: nats that the person agreed to. Whether it holds now. */
    fun decide(consent: Boolean, budget: Double?, decision: Int): Boolean {
        if (decision != decisions.get()) return false
        if (!consent) {
            condition = Condition.NO_CONSENT // a record that was ending may have set it since the call
            sender.end()
            keeper.note()
            wipe()
            return !keeper.isUnwiped
        }
        if (options.doNotTrack()) {
            condition = Condition.DO_NOT_TRACK
            sender.end()
            return false
        }
        if (keeper.isUnwiped) wipe()
        if (keeper.isUnwiped) return false
        condition = Condition.ACTIVE
        keeper.hadSecret = false
        if (attempt { state.transact(::withdrawn) { begin(it, budget) } }) {
            keeper.hadSecret = true
            wakeAt(sendAt())
            attempt { fill() }
        }
        return condition == Condition.ACTIVE
    }

    /** Record a value, at a time in seconds. decision: the person's, when the app called. */
    fun take(name: String, value: Value, isAmount: Boolean, now: Double, decision: Int): Boolean =
        guarded(name, decision) { store -> recorder.take(store, name, value, Days.at(now), isAmount) }

    /** Collect the points of a fix or a trip. millis, offset: null for now and here. */
    fun place(name: String, points: List<Pair<Double, Double>>, millis: Double?, offset: Int?, now: Double, decision: Int): Boolean =
        guarded(name, decision) { store ->
            val here = Moment.here(now)
            val at = millis ?: (here.at * 1000)
            places.take(store, name, points, Moment.of(at, offset ?: Moment.offsetAt(at)), here)
        }

    /** Send what waits; `done` learns whether all was delivered in time. */
    fun flush(seconds: Double, decision: Int, done: (Boolean) -> Unit) {
        if (keeper.isUnwiped) wipe()
        if (!mayRecord) return done(decision == decisions.get() && condition == Condition.NO_CONSENT && !keeper.isUnwiped) // nothing waits
        if (condition == Condition.ACTIVE) attempt { fill() }
        sender.flush(seconds, done)
    }

    /** Report the periods that are over, while the app runs and records nothing. */
    fun look() {
        if (keeper.isUnwiped) wipe()
        if (condition == Condition.ACTIVE && filled != dayAndLocalDay()) attempt { fill() }
    }

    fun reset(): Boolean {
        if (!condition.isStateTrouble || condition == Condition.STATE_IN_USE) return false
        state.close()
        return attempt { keeper.reset() } && decide(true, null, decisions.incrementAndGet())
    }

    fun inspect(): DeviceAccount? {
        var account: DeviceAccount? = null
        attempt {
            account = state.transact(::withdrawn) { store -> accountOf(store) { budgetOf(it, metrics.budget, options.privacyLevel) } }
        }
        return account?.let { it.copy(counters = it.counters + uncounted.mapKeys { (reason, _) -> "not_recorded:$reason" }) }
    }

    fun close() {
        condition = Condition.CLOSED
        decisions.incrementAndGet()
        sender.end()
        state.close()
    }

    /** Note why something was refused. reason: what it is counted under, if anything. */
    fun refused(reason: String, why: String): Boolean {
        lastRefusal = why
        if (reason.isNotEmpty()) uncounted[reason] = (uncounted[reason] ?: 0L) + 1
        warn(why)
        return false
    }

    /** Do what an app asked for; no trouble with it reaches the app. */
    private fun guarded(name: String, decision: Int, act: (Transaction) -> Outcome): Boolean {
        if (keeper.isUnwiped) wipe()
        if (decision != decisions.get() || keeper.isUnwiped || !mayRecord) return refused("", status.sentence)
        var outcome: Outcome? = null
        var due: Double? = null
        try {
            attempt {
                if (condition == Condition.ACTIVE && filled != dayAndLocalDay()) fill()
                outcome = state.transact(::withdrawn) { store ->
                    if (condition != Condition.ACTIVE) begin(store, null)
                    act(store).also { due = schedule(store, name, it) }
                }
            }
        } catch (error: ValueRefused) {
            return refused("mistake", error.message.orEmpty())
        }
        val result = outcome ?: return refused("no_state", status.sentence)
        keeper.hadSecret = true
        if (decision == decisions.get()) condition = Condition.ACTIVE
        if (!result.isKept) return refused("", "$name: ${result.sentence}")
        wakeAt(due)
        return true
    }

    /** In the transaction of a record: count a refusal, and draw when the next batch leaves. Returns when. */
    private fun schedule(store: Transaction, name: String, outcome: Outcome): Double? {
        sender.failing = store.device.failing
        if (!outcome.isKept) store.device = store.device.counted("${outcome.word}:$name")
        if (store.device.waiting > 0) drawDue(store)
        if (store.device.next % TRIMMED_EVERY == 0L && store.device.waiting > options.delivery.maxQueued) sender.trim(store)
        return store.device.sendAt
    }

    /**
     * Draw when the next batch leaves, if that is not set, lies where no delay reaches (the clock was set), or, at a
     * start, was over while the app was closed: sending must not follow a start.
     */
    private fun drawDue(store: Transaction, isStart: Boolean = false) {
        val mean = options.delivery.meanDelay
        val wait = (store.device.sendAt ?: Double.NaN) - clock()
        if (wait <= MAX_DELAY * mean && (wait >= 0 || !isStart)) return
        store.device = store.device.copy(sendAt = clock() + geometricDelay(mean, randomness))
    }

    private fun sendAt(): Double? = state.transact { store -> (store[DEVICE] as? DeviceState)?.takeIf { it.waiting > 0 }?.sendAt }

    private fun wakeAt(at: Double?) {
        if (at != null) sender.wakeIn(at - clock())
    }

    /** First look at the state: the secret is made once, and the budget entered. */
    private fun begin(store: Transaction, budget: Double?) {
        val found = store[DEVICE] ?: DeviceState()
        if (found !is DeviceState) throw StateException(Condition.STATE_CORRUPT, "the stored state is not whole")
        var device = pinned(found, metrics.budget)
        if (budget != null) device = device.copy(budget = budget)
        if (device.secret == null) {
            if (keeper.hadSecret) throw StateException(Condition.NO_CONSENT, "the secret is gone: consent was withdrawn, or the state deleted")
            val secret = randomness(SECRET_BYTES)
            device = device.copy(secret = secret.toHex(), check = Derivation.check(secret))
        }
        if (device != store[DEVICE]) store.device = device
        sender.begin()
        if (device.waiting > 0) drawDue(store, isStart = true)
    }

    /** What is due without a call: `no_data`, and periods of numbers and places that are over. */
    private fun fill() {
        filled = dayAndLocalDay()
        val (day, here) = Pair(Days.at(clock()), Moment.here(clock()))
        for (metric in metrics.all.distinctBy { if (it.place != null) it.line else it.name }) {
            val collects = metric.place != null || metric.definition.kind == Kind.NUMBER || metric.definition.noData != null
            if (!collects || !metric.runsHere) continue
            try {
                state.transact(::withdrawn) { store ->
                    if (metric.place != null) places.look(store, metric.line, here) else recorder.fillPeriods(store, metric, day)
                    if (store.device.waiting > 0) drawDue(store)
                }
            } catch (error: IllegalArgumentException) {
                refused("damaged:${metric.line}", "${metric.line}: what its period had so far is damaged") // the others continue
            }
        }
        wakeAt(sendAt())
    }

    private fun dayAndLocalDay() = Pair(Days.at(clock()), Moment.here(clock()).day)

    /** Another process noted that the person withdrew consent. */
    private fun withdrawn() {
        decisions.incrementAndGet()
        condition = Condition.NO_CONSENT
        sender.end()
        throw StateException(Condition.NO_CONSENT, "consent was withdrawn in another process")
    }

    private fun wipe() {
        try {
            keeper.wipe()
            recorder.forget()
        } catch (error: StateException) {
            failed(error)
        }
    }

    /** Do something with the state; trouble with it shows in `status`. */
    private fun attempt(act: () -> Unit): Boolean = try {
        act()
        true
    } catch (error: StateException) {
        failed(error)
        false
    }

    private fun failed(error: StateException) {
        trouble = error.message.orEmpty()
        if (condition == Condition.ACTIVE || condition.isStateTrouble) condition = error.condition
    }

    private fun warn(sentence: String) {
        try {
            options.log(sentence)
        } catch (error: RuntimeException) {
            // Of the app.
        }
    }

    /** Transactions of the sending thread: each runs on the client's thread, under the consent that the sender has. */
    private inner class OnThread : Transactions {
        override fun <T> run(permit: Permit, act: (Transaction) -> T): T? = onThread {
            if (permit.isOver) null else state.transact(::withdrawn) { store -> store.device.let { act(store) } }
        }

        override fun sync(): Unit = onThread { state.sync() }

        private fun <T> onThread(act: () -> T): T {
            val future: Future<T> = thread.submit(Callable(act))
            return resultOf(future)
        }
    }

    private companion object {
        val SENTENCES = mapOf(
            Condition.ACTIVE to "values are recorded and reports are sent",
            Condition.NO_CONSENT to "nothing is recorded: the person does not consent",
            Condition.DO_NOT_TRACK to "nothing is recorded: the environment asks for no tracking",
            Condition.CLOSED to "the client is closed",
        )
    }
}
