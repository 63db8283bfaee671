package rappor.telemetry

import java.time.DateTimeException
import java.time.LocalDate

/** How reports are counted in time (docs/porting.md, part 5). */
internal enum class Period(val days: Int, val meanDays: Double) {
    DAY(1, 1.0),
    WEEK(7, 7.0),
    MONTH(28, 30.436875),
    ;

    /** How many periods of `then` one of these can share days with, at most. */
    fun maxTouched(then: Period): Int = MAX_TOUCHED.getValue(this)[then.ordinal]
}

private val MAX_TOUCHED = mapOf(
    Period.DAY to listOf(1, 1, 1),
    Period.WEEK to listOf(7, 1, 2),
    Period.MONTH to listOf(31, 6, 1),
)

internal const val DAY_SECONDS = 86_400.0
private const val EPOCH_ORDINAL = 719_163 // days from 0001-01-01, which is 1, to 1970-01-01
private const val LAST_DAY = 2_932_896 // 9999-12-31

/** Days since 1970-01-01, and the periods that they are in. */
internal object Days {
    /** The day of a date such as 2026-11-21. Throws FormatException. */
    fun of(text: String): Int = try {
        LocalDate.parse(text).toEpochDay().toInt()
    } catch (error: DateTimeException) {
        throw FormatException("not a date such as 2026-11-21")
    }

    /** The day of a time in seconds since 1970; a clock beyond the years 1 to 9999 is set to their ends. */
    fun at(seconds: Double): Int =
        Math.floor(seconds / DAY_SECONDS).coerceIn(1.0 - EPOCH_ORDINAL, LAST_DAY.toDouble()).toInt()

    /** Which period a day is in: days, weeks from Monday, or months, counted from a fixed start. */
    fun periodOf(unit: Period, day: Int): Int = when (unit) {
        Period.DAY -> day
        Period.WEEK -> Math.floorDiv(day + EPOCH_ORDINAL - 1, 7)
        Period.MONTH -> LocalDate.ofEpochDay(day.toLong()).let { it.year * 12 + it.monthValue - 1 }
    }

    /** The last day of a period; the inverse of `periodOf`. */
    fun lastDay(unit: Period, period: Int): Int = when (unit) {
        Period.DAY -> period
        Period.WEEK -> period * 7 + 7 - EPOCH_ORDINAL
        Period.MONTH ->
            LocalDate.of(Math.floorDiv(period, 12), Math.floorMod(period, 12) + 1, 1).plusMonths(1).toEpochDay().toInt() - 1
    }

    fun firstDay(unit: Period, period: Int): Int = lastDay(unit, period - 1) + 1

    /** The periods of unit `then` that share a day with a period of `unit`. */
    fun touched(unit: Period, period: Int, then: Period): IntRange =
        periodOf(then, maxOf(0, firstDay(unit, period)))..periodOf(then, lastDay(unit, period))

    /**
     * The days among which a report of mode `window` is the only one of its metric: with fresh turns those of its
     * block, else as many as a window has before it and after it.
     */
    fun daysOfOneReport(day: Int, unit: Period, window: Int, isFresh: Boolean): IntRange {
        if (isFresh) {
            val first = Math.floorDiv(periodOf(unit, day), window) * window
            return firstDay(unit, first)..lastDay(unit, first + window - 1)
        }
        val apart = Math.floor((window - 0.5) * unit.meanDays).toInt()
        return day - apart..day + apart
    }

    fun isWeekend(day: Int): Boolean = Math.floorMod(day + 3, 7) >= 5 // 1970-01-01 was a Thursday
}
