package rappor.telemetry

/** Acts about the metrics of kind `location` in a transaction: visits are restored, get a fix or look, and are kept. */
internal class Places(private val recorder: Recorder) {
    /** Collect a fix (one point) or a trip (two). now: of the clock. Throws ValueRefused. */
    fun take(store: Transaction, line: String, points: List<Pair<Double, Double>>, moment: Moment, now: Moment): Outcome {
        val parts = recorder.metrics.partsOf(line)
        if (!parts[0].runsHere) return Outcome.ELSEWHERE
        return visit(store, parts) { visits ->
            visits.refusal(moment, now) ?: Outcome.KEPT.also { visits.take(points, moment) }
        }
    }

    /** Close the periods that are over. */
    fun look(store: Transaction, line: String, now: Moment) {
        val parts = recorder.metrics.partsOf(line)
        if (parts[0].runsHere) visit(store, parts) { visits -> Outcome.KEPT.also { visits.look(now) } }
    }

    private fun visit(store: Transaction, parts: List<Metric>, act: (Visits) -> Outcome): Outcome {
        val refused = ArrayList<String>()
        val send: Send = { name, value, day ->
            val outcome = recorder.record(store, name, Value.Text(value), day)
            if (!outcome.isKept) refused.add("${outcome.word}:$name")
        }
        val secret = store.device.secret.orEmpty().fromHex()
        val note = (store.line(parts[0]) ?: return Outcome.DAMAGED).note
        val visits = Visits(parts, secret, send, note)
        val outcome = act(visits)
        val line = store.line(parts[0]) ?: return Outcome.DAMAGED
        store[LINE + parts[0].line] = line.copy(note = visits.write())
        store.device = refused.fold(store.device) { device, reason -> device.counted(reason) }
        return outcome
    }
}
