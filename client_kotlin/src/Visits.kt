package rappor.telemetry

private const val SHORTEST = 1.0 // seconds that a fix counts at least
private const val MAX_AHEAD = 86_400.0
private const val MAX_PLACES = 512

/** Queues the report of a sub-metric's value for a day. */
internal typealias Send = (name: String, value: String, day: Int) -> Unit

/** Time spent at a place in a slot of the period that runs. */
internal data class Dwell(val slot: String, val place: String, val seconds: Double)

/** The last known place of a slot, and the period that it is of. */
internal data class Known(val slot: String, val period: Int, val place: String)

/** The last fix: when, where, and for how many seconds more it counts. */
internal data class LastFix(val moment: Moment, val place: String, val left: Double)

/** From fixes to the usual place of each slot and period. Private, all of it, and forgotten when the period closes. */
internal class Visits(private val parts: List<Metric>, secret: ByteArray, private val send: Send, note: String?) {
    private val definition = parts[0].definition
    private val place = parts[0].place ?: throw FormatException("not a location")
    private val grid = Grid(place.grid)
    private val duty = Duty(secret, parts)
    private val unit = definition.period
    private var period: Int? = null
    private var dwell = emptyList<Dwell>()
    private var used = emptyList<IntRange>()
    private var known = emptyList<Known>()
    private var last: LastFix? = null

    init {
        try {
            if (note != null) restore(Fields("a note", Json.parse(note)))
        } catch (error: RuntimeException) {
            dwell = emptyList() // damaged: the period starts over, and the ledger still counts what was sent
        }
    }

    /** What is kept between two looks. */
    fun write(): String = Json.write(
        linkedMapOf(
            "of" to listOf(unit.name, parts[0].paramsId), "period" to period,
            "dwell" to dwell.map { listOf(it.slot, it.place, it.seconds) }, "used" to used.map { listOf(it.first, it.last) },
            "known" to known.map { listOf(it.slot, it.period, it.place) },
            "last" to last?.let { listOf(it.moment.toJson(), it.place, it.left) },
        ),
    )

    /** Collect one point, or the two of a trip: latitude and longitude. Throws ValueRefused. */
    fun take(points: List<Pair<Double, Double>>, moment: Moment) {
        if (place.isTrips != points.size > 1) {
            throw ValueRefused("metric '${parts[0].line}' accepts ${if (place.isTrips) "trips" else "fixes"}, nothing else")
        }
        val cells = points.map { (latitude, longitude) -> grid.value(grid.locate(latitude, longitude), duty.level) }
        val here = if (OTHER in cells) OTHER else cells.joinToString(">")
        roll(moment)
        val slot = askedSlot(moment.day, moment.hour)
        if (place.isTrips) {
            if (slot != null) add(slot, here, 1.0)
            return
        }
        if (slot != null && dwell.none { it.slot == slot && it.place == here }) add(slot, here, SHORTEST)
        // Where nothing is asked only the time of the fix is kept.
        last = LastFix(moment, if (wantedSlots().isEmpty()) OTHER else here, place.maxGapMinutes * 60.0)
    }

    /** Why nothing of a fix is kept: AHEAD, EXPIRED or LATE; null if it is accepted. */
    fun refusal(moment: Moment, clock: Moment): Outcome? {
        if (moment.at > clock.at + MAX_AHEAD) return Outcome.AHEAD
        if (moment.day > definition.expires) return Outcome.EXPIRED
        val fixed = Days.periodOf(unit, moment.day)
        val begun = period
        if (begun != null && fixed < begun && isReported(fixed)) return Outcome.LATE
        val present = Days.periodOf(unit, clock.day)
        return if (fixed < minOf(present, begun ?: present)) Outcome.LATE else null
    }

    /**
     * As `roll`, without a fix. An earlier date is not a clock that went back, unless it is before the last fix. Within
     * the period nothing is credited: fixes of the time since the last one may still come.
     */
    fun look(clock: Moment) {
        val present = Days.periodOf(unit, clock.day)
        val begun = period
        if (present == begun || (begun != null && present < begun && (last?.moment?.at ?: Double.MAX_VALUE) <= clock.at)) return
        roll(clock)
    }

    /** Credit the time since the last fix, and close the period if it is over. */
    fun roll(moment: Moment) {
        credit(moment)
        val present = Days.periodOf(unit, moment.day)
        val before = period
        if (present == before) return
        if (before != null && before < present) close(before, present, moment.day)
        dwell = emptyList()
        last = null
        period = present
        // Keep the last known places that an answer from this period on may repeat.
        known = known.filter { row -> row.period < present && toCome(row.period).any { it.slot == row.slot } }
    }

    private fun restore(fields: Fields) {
        val of = fields.texts("of")
        if (of.getOrNull(0) != unit.name) return
        used = Counts.runsOf(fields, "used")
        period = if (fields["period"] == null) null else fields.number("period").toInt()
        if (of.getOrNull(1) != parts[0].paramsId) return
        dwell = fields.list("dwell").map { row -> (row as List<*>).let { Dwell(it[0] as String, it[1] as String, it[2] as Double) } }
        known = fields.list("known").map { row -> (row as List<*>).let { Known(it[0] as String, (it[1] as Double).toInt(), it[2] as String) } }
        last = (fields["last"] as? List<*>)?.let { LastFix(Moment.of(it[0]), it[1] as String, it[2] as Double) }
    }

    private fun isReported(period: Int): Boolean = used.any { period in it }

    /** Answers that are still to be given and may be the usual place of a period. */
    private fun toCome(seen: Int): List<Answer> {
        val present = period ?: return emptyList()
        if (duty.every == 0 && used.isNotEmpty()) return emptyList()
        return duty.answersFrom(seen).filter { it.turn >= present && !isReported(it.turn) }
    }

    /** Slots of which fixes of the present period are kept. */
    private fun wantedSlots(): Set<String> = period?.let { toCome(it).map { answer -> answer.slot }.toSet() }.orEmpty()

    /** The slot that an hour belongs to, if an answer to come may be made from it. */
    private fun askedSlot(day: Int, hour: Int): String? =
        place.slots.find { it.covers(hour, Days.isWeekend(day)) }?.name?.takeIf { it in wantedSlots() }

    private fun add(slot: String, here: String, amount: Double) {
        val at = dwell.indexOfFirst { it.slot == slot && it.place == here }
        dwell = if (at < 0) {
            dwell + Dwell(slot, here, amount)
        } else {
            dwell.mapIndexed { i, row -> if (i == at) row.copy(seconds = row.seconds + amount) else row }
        }
        val (inSlot, others) = dwell.partition { it.slot == slot }
        if (inSlot.size > MAX_PLACES) dwell = others + inSlot.sortedByDescending { it.seconds }.take(MAX_PLACES / 2)
    }

    /** Give the last fix the time until now, hour by hour, as far as it may count. */
    private fun credit(moment: Moment) {
        val fix = last ?: return
        val seconds = minOf(moment.at - fix.moment.at, fix.left)
        if (seconds <= 0) return
        var (_, day, hour, inHour) = fix.moment
        var remaining = seconds
        while (remaining > 0) {
            val chunk = minOf(remaining, inHour)
            val slot = askedSlot(day, hour)
            if (slot != null && Days.periodOf(unit, day) == period) add(slot, fix.place, chunk)
            remaining -= chunk
            inHour -= chunk
            if (inHour <= 0) {
                if (hour == 23) day++
                hour = (hour + 1) % 24
                inHour = 3600.0
            }
        }
        last = LastFix(Moment(fix.moment.at + seconds, day, hour, inHour), fix.place, fix.left - seconds)
    }

    /** Report the periods from `first`, which alone has data, to before `end`, as far back as is accepted. */
    private fun close(first: Int, end: Int, today: Int) {
        val usual = LinkedHashMap<String, Dwell>()
        for (row in dwell) if (row.seconds > (usual[row.slot]?.seconds ?: -1.0)) usual[row.slot] = row
        known = known.filter { it.slot !in usual } + usual.values.map { Known(it.slot, first, it.place) }
        val oldest = Days.periodOf(unit, today - definition.acceptDays - 1)
        for (over in maxOf(first, oldest) until end) report(over)
    }

    private fun report(over: Int) {
        if (isReported(over) || (duty.every == 0 && used.isNotEmpty())) return
        for (slot in duty.due(over)) {
            val seen = known.find { it.slot == slot }?.takeIf { Answer(over, slot) in duty.answersFrom(it.period) }
            send(duty.nameOf(slot), seen?.place ?: definition.noData ?: OTHER, Days.lastDay(unit, over))
        }
        used = Counts.withRun(used, over..over)
    }
}
