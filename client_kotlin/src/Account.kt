package rappor.telemetry

/**
 * Delete queue, values and secret; keep the numbers spent. Nothing is left of a line that is damaged but that it was:
 * its metric stays closed.
 */
internal fun withdraw(store: Transaction) {
    val queued = store.list(QUEUE).mapNotNull { (_, document) -> (document as? QueuedReport)?.metric }
    for ((key, _) in store.list(QUEUE) + store.list(BATCH)) store.remove(key)
    for ((key, document) in store.list(LINE)) {
        store[key] = if (document is LineState) wiped(document, queued.count { LINE + it.substringBefore('/') == key }) else Damaged()
    }
    val device = store[DEVICE]
    if (device is DeviceState) {
        store.device = device.copy(secret = null, check = null, waiting = 0, sendAt = null, failing = null, stops = emptyMap())
    } else if (device != null) {
        store[DEVICE] = Damaged()
    }
}

/** unsent: reports of the line that are wiped before they were sent. */
private fun wiped(line: LineState, unsent: Int): LineState {
    val sent = line.copy(entries = without(line.entries, unsent))
    val account = accountOf(sent)
    return line.copy(
        entries = emptyMap(), note = null,
        past = Past(
            line.past.values + line.entries.size, account.answers, line.past.cost + line.entries.values.sumOf { it.cost },
            account.spent, accountOf(line).reports,
        ),
    )
}

/**
 * Entries less so many reports that were never sent. Of which entry each was is not kept: those go that change the
 * least of what was sent at most.
 */
private fun without(entries: Map<String, Entry>, unsent: Int): Map<String, Entry> {
    val left = LinkedHashMap(entries)
    repeat(unsent) {
        val most = left.entries.maxByOrNull { it.value.reports } ?: return left
        if (most.value.reports > 0) most.setValue(most.value.copy(reports = most.value.reports - 1))
    }
    return left
}

internal fun accountOf(line: LineState): MetricAccount = MetricAccount(
    line.past.answers + line.entries.values.count { it.reports > 0 }, line.agreed.maxMemoizedValues.toInt(),
    line.past.reports + line.entries.values.sumOf { it.reports }, spent(line), line.agreed.lifetimeEpsilon,
)

/** The account of a device; null if there is none. budget: nats. */
internal fun accountOf(store: Transaction, budget: (DeviceState) -> Double): DeviceAccount? {
    val device = store[DEVICE] as? DeviceState ?: return null
    return DeviceAccount(
        device.secret != null, budget(device), device.waiting, store.list(BATCH).size, device.counters,
        store.list(LINE).associate { (key, line) -> key.removePrefix(LINE) to (line as? LineState)?.let(::accountOf) },
        device.stops.mapValues { it.value.reason },
    )
}
