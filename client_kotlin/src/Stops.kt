package rappor.telemetry

private const val RETIRED = "metric_retired"
private const val PAUSED = "metric_paused"

/**
 * Metrics that the collector has stopped, by its answer to a report: it can only narrow what a device sends. A retired
 * one is not recorded until its params_id changes. A paused one is not recorded until the next day (UTC); then one
 * report is, and if the answer is the same nothing until the day after.
 */
internal fun Stop.holds(day: Int): Boolean = reason == RETIRED || day < until

/** Remember what the answer to a report states about its metric. reason: empty for an accepted report. */
internal fun DeviceState.answered(report: QueuedReport, reason: String, today: Int): DeviceState = when {
    reason == RETIRED || reason == PAUSED -> copy(stops = stops + (report.metric to Stop(reason, report.paramsId, today + 1)))
    stops[report.metric]?.paramsId == report.paramsId -> copy(stops = stops - report.metric)
    else -> this
}
