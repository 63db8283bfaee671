package rappor.telemetry

/** What became of a record. */
internal enum class Outcome(val word: String, val sentence: String) {
    QUEUED("queued", ""),
    QUEUED_FALLBACK("queued_fallback", ""),
    KEPT("kept", ""), // a number or a fix, for the report of its period
    FULL("full", "has all the reports that its period or its life may have"),
    EXPIRED("expired", "has expired"),
    ELSEWHERE("elsewhere", "is not declared for this platform (see `platforms`)"),
    STOPPED("stopped", "the collector collects it no more, or not today (see `inspect`)"),
    LATE("late", "the time of the fix lies in a period that is over"),
    AHEAD("ahead", "the time of the fix lies more than a day ahead of this device's clock"),
    NOTHING_LEFT("closed", "is closed: what the ledger allows on this device is used up permanently"),
    DAMAGED("closed", "is closed: what the ledger knew of it is damaged"),
    WEAKER("closed", "is closed: it first promised less than it does now"),
    ;

    val isKept: Boolean get() = this <= KEPT
}

/** From a value to a queued report, under the ledger, inside one transaction. It holds no state but derivations. */
internal class Recorder(val metrics: Metrics, private val level: PrivacyLevel, private val randomness: Randomness) {
    private val encoders = HashMap<String, MetricEncoder>()
    private var secret = ""

    /** What `RapporClient.record` does. isAmount: of `add`. Throws ValueRefused, and StateException without consent. */
    fun take(store: Transaction, name: String, value: Value, day: Int, isAmount: Boolean): Outcome {
        val metric = metrics.of(name)
        val details = metric.definition.details as? NumberDetails
        if (isAmount && details?.ofPeriod != OfPeriod.SUM) throw ValueRefused("metric '$name' has no sum: use record")
        if (details == null) return record(store, name, value, day)
        if (!metric.runsHere) return Outcome.ELSEWHERE
        val number = NumberEncoder(metric, Cuts(emptyList())).numberOf(value)
        if (day > metric.definition.expires) return Outcome.EXPIRED
        return NumberPeriods(store, this, metric, day).update(number)
    }

    /** Queue a report of a value for a day, or say why not. */
    fun record(store: Transaction, name: String, value: Value, day: Int): Outcome {
        val metric = metrics.of(name)
        if (!metric.runsHere) return Outcome.ELSEWHERE
        val encoder = encoderOf(metric, store.device)
        val encoded = encoder.encode(value)
        val line = store.line(metric) ?: return Outcome.DAMAGED
        val stop = store.device.stops[name]
        if (stop?.paramsId == metric.paramsId) {
            if (stop.holds(day)) return Outcome.STOPPED
            store.device = store.device.copy(stops = store.device.stops + (name to stop.copy(until = day + 1)))
        }
        return queue(store, encoder, line, encoded, maxOf(0, day))
    }

    private fun queue(store: Transaction, encoder: MetricEncoder, before: LineState, encoded: Encoded, day: Int): Outcome {
        val metric = encoder.metric
        val limits = ReportLimits(metric)
        if (day > metric.definition.expires) return Outcome.EXPIRED
        if (weakerThan(promiseOf(metric), before.agreed) != null) return Outcome.WEAKER
        val line = limits.carried(before)
        store[LINE + metric.line] = line
        if (limits.isFull(line, day, minOf(metric.definition.maxReportsPerPeriod, level.maxReportsPerPeriod))) return Outcome.FULL
        val ledger = Ledger(encoder, budgetOf(store.device, metrics.budget, level), level, store.device, line)
        val sent = ledger.admit(encoded)
        store.device = ledger.device
        store[LINE + metric.line] = ledger.line
        if (sent == null) return Outcome.NOTHING_LEFT
        val entry = ledger.line.entries.getValue(sent.digest)
        val used = ledger.line.entries + (sent.digest to entry.copy(reports = entry.reports + 1))
        store[LINE + metric.line] = limits.counted(ledger.line.copy(entries = used), day)
        store[queueKey(ledger.device.next)] = encoder.report(sent, day)
        store.device = ledger.device.copy(next = ledger.device.next + 1, waiting = ledger.device.waiting + 1)
        return if (sent.bits.contentEquals(encoded.bits)) Outcome.QUEUED else Outcome.QUEUED_FALLBACK
    }

    /** Report what is over of a metric: collected numbers, and `no_data` for each period that had no report. */
    fun fillPeriods(store: Transaction, metric: Metric, today: Int) {
        if (!metric.runsHere) return
        if (metric.definition.kind == Kind.NUMBER) NumberPeriods(store, this, metric, today).update(null)
        val noData = metric.definition.noData
        val counts = (store[LINE + metric.line] as? LineState)?.counts?.get(metric.name)
        if (noData == null || metric.place != null || counts == null) return
        val unit = metric.definition.period
        val present = Days.periodOf(unit, maxOf(0, today))
        val last = counts.by(unit).lastPeriod(present) ?: return
        val oldest = Days.periodOf(unit, maxOf(0, today - metric.definition.acceptDays))
        for (period in maxOf(last + 1, oldest) until present) {
            record(store, metric.name, Value.Text(noData), Days.lastDay(unit, period))
        }
    }

    /** Keep nothing of the secret in memory. */
    fun forget() {
        encoders.clear()
        secret = ""
    }

    /** This device's part in a metric. */
    fun encoderOf(metric: Metric, device: DeviceState): MetricEncoder {
        if (device.secret != secret) {
            encoders.clear()
            secret = device.secret ?: throw StateException(Condition.NO_CONSENT, "the secret is gone: consent was withdrawn")
        }
        return encoders.getOrPut(metric.name) { MetricEncoder(metric, secret.fromHex(), randomness) }
    }
}

/** Keys of queued reports are in the order of recording. */
internal fun queueKey(number: Long): String = QUEUE + number.toString().padStart(15, '0')
