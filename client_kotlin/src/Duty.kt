package rappor.telemetry

/** An answer to come: the period that it is given for, and the slot that it is made from. */
internal data class Answer(val turn: Int, val slot: String)

/**
 * Which sub-metrics a device answers, and when: drawn once from its secret, whatever the place. In period p the slot of
 * index s is answered if (p * slots + s) mod `every` is the phase, which is drawn for life, or with fresh turns for each
 * block of `window` periods. every = 0: only the slot of index `phase`, once for life.
 */
internal class Duty(private val secret: ByteArray, parts: List<Metric>) {
    private val place = parts[0].place ?: throw FormatException("not a location")
    private val line = parts[0].line
    private val slots = place.slots.map { it.name }
    private val fresh = HashMap<Int, Int>()
    val level: Int = place.grid.levels[Derivation.draw(secret, "level", line, place.grid.levels.size)]
    val every: Int = when (place.mode) {
        Mode.MEMO -> 1
        Mode.WINDOW -> place.window * slots.size
        Mode.ONCE -> 0
    }
    val phase: Int = if (place.isFresh) 0 else Derivation.draw(secret, "phase", line, if (every > 0) every else slots.size)

    /** The name of the sub-metric of a slot. */
    fun nameOf(slot: String): String = "$line/$slot/$level"

    /** The slots that are answered in a period. */
    fun due(period: Int): List<String> = if (every == 0) listOf(slots[phase]) else slots.filterIndexed { i, _ ->
        Math.floorMod(period.toLong() * slots.size + i, every.toLong()).toInt() == phaseOf(period)
    }

    /** Periods and slots whose answer may be the usual cell of this period: its own, and the `hold` after it. */
    fun answersFrom(period: Int): List<Answer> {
        // No block answers with what another one saw: its epsilon covers all that happened in it.
        val blockEnd = if (place.isFresh) (Math.floorDiv(period, place.window) + 1) * place.window else Int.MAX_VALUE
        return (period until minOf(period + place.hold + 1, blockEnd)).flatMap { turn -> due(turn).map { Answer(turn, it) } }
    }

    private fun phaseOf(period: Int): Int {
        if (!place.isFresh) return phase
        val block = Math.floorDiv(period, place.window)
        return fresh.getOrPut(block) { Derivation.draw(secret, "turn", line, every, listOf(bigEndian(block, 8))) }
    }
}
