package rappor.telemetry

import java.util.TimeZone

/** A time where the device is: seconds since 1970, and the day, the hour and the seconds left in it, all local. */
internal data class Moment(val at: Double, val day: Int, val hour: Int, val left: Double) {
    fun toJson(): List<Any> = listOf(at, day, hour, left)

    companion object {
        private const val MAX_SECONDS = 2.5e11 // within the years that have dates

        /** millis: since 1970, UTC. offsetMinutes: east of UTC. Throws ValueRefused. */
        fun of(millis: Double, offsetMinutes: Int): Moment {
            val local = millis / 1000 + offsetMinutes * 60.0
            if (!(Math.abs(local) < MAX_SECONDS) || Math.abs(offsetMinutes.toLong()) > 24 * 60) throw ValueRefused("a time is out of range")
            val day = Math.floor(local / DAY_SECONDS)
            val inDay = local - day * DAY_SECONDS
            val hour = Math.floor(inDay / 3600).toInt()
            return Moment(millis / 1000, day.toInt(), hour, 3600 - (inDay - hour * 3600.0))
        }

        /** The time of a clock, in the zone of the device. seconds: since 1970. */
        fun here(seconds: Double): Moment {
            val millis = seconds.coerceIn(-6e10, MAX_SECONDS - DAY_SECONDS) * 1000
            return of(millis, offsetAt(millis))
        }

        /** Minutes east of UTC in the zone of the device, at a time in milliseconds. */
        fun offsetAt(millis: Double): Int = TimeZone.getDefault().getOffset(millis.toLong()) / 60_000

        fun of(json: Any?): Moment {
            val (at, day, hour, left) = (json as? List<*>)?.map { it as? Double ?: throw FormatException("a time") }
                ?.takeIf { it.size == 4 } ?: throw FormatException("a time")
            return Moment(at, day.toInt(), hour.toInt(), left)
        }
    }
}
