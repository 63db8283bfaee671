package rappor.telemetry

/** Hours of the local day, over midnight where last <= first. weekend: whether of weekends, null for all days. */
internal data class Slot(val name: String, val first: Int, val last: Int, val weekend: Boolean?) {
    /** Whether an hour (0 to 23) of such a day belongs to it. */
    fun covers(hour: Int, isWeekend: Boolean): Boolean = when {
        weekend != null && weekend != isWeekend -> false
        first < last -> hour in first until last
        else -> hour >= first || hour < last
    }

    companion object {
        private val FORM = Regex("([a-z][a-z0-9_-]{0,31}) ([0-9]{1,2})-([0-9]{1,2})( weekdays| weekends)?")

        /** Read "night 22-6" or "work 9-17 weekdays". Throws FormatException. */
        fun of(text: String): Slot {
            val (name, first, last, days) = FORM.matchEntire(text)?.destructured ?: throw FormatException("slot '$text'")
            return Slot(name, first.toInt(), last.toInt(), if (days.isEmpty()) null else days == " weekends")
        }
    }
}
