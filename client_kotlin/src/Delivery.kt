package rappor.telemetry

/** Choices about delivery; nothing here changes what a report says. Seconds and bytes. */
public data class Delivery(
    /** From the first waiting report to sending, on average; 0 sends at once. */
    public val meanDelay: Double = 600.0,
    /** At most so many reports in a batch, which holds one metric. */
    public val batchReports: Int = 100,
    /** Bodies are padded to a multiple of so many bytes; 0 leaves them as they are. */
    public val padTo: Int = 256,
    /** For one exchange as a whole. */
    public val timeout: Double = 10.0,
    /** Reports that wait at most; above that the oldest are dropped, and counted. */
    public val maxQueued: Int = 20_000,
    /** Bytes of batches that wait at most. */
    public val maxQueuedBytes: Int = 4 shl 20,
    /** A batch that is older is dropped after its next failure. */
    public val maxAgeDays: Int = 90,
    /** Bounds of the pause after failures, with full jitter. */
    public val firstPause: Double = 1.0,
    /** The longest pause after failures. */
    public val longestPause: Double = 600.0,
    /** A collector's Retry-After is followed up to here. */
    public val longestRetryAfter: Double = 3600.0,
    /** Whether the client sends by its own timer; if not, the app's scheduler calls `flush`. */
    public val isAutomatic: Boolean = true,
) {
    init {
        check(meanDelay >= 0 && meanDelay <= 30 * DAY_SECONDS, "meanDelay")
        check(batchReports in 1..200, "batchReports")
        check(padTo in 0..65_536, "padTo")
        check(timeout > 0 && timeout <= 600, "timeout")
        check(maxQueued > 0 && maxQueuedBytes > 0 && maxAgeDays > 0, "maxQueued, maxQueuedBytes or maxAgeDays")
        check(firstPause > 0 && longestPause >= firstPause && longestPause <= DAY_SECONDS, "firstPause or longestPause")
        check(longestRetryAfter >= 0 && longestRetryAfter <= DAY_SECONDS, "longestRetryAfter")
    }

    private fun check(isInRange: Boolean, name: String) {
        if (!isInRange) throw ParameterException("delivery: $name is not in its range")
    }
}
