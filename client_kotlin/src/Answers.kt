package rappor.telemetry

import java.security.MessageDigest
import java.time.DateTimeException
import java.time.ZonedDateTime
import java.time.format.DateTimeFormatter

private val FINAL = setOf(400, 409, 415, 422)
private val TRANSIENT = setOf(408, 425, 429)
private const val URN = "urn:rappor-telemetry:problem:"
private const val MAX_REASON = 64

/** What an answer of a collector means for the sender. */
internal sealed class Verdict {
    /** results: empty for an accepted report, otherwise the reason, in the order of the batch. */
    data class Answered(val results: List<String>) : Verdict()

    /** isFinal: the collector itself states it of these bytes, and counted none of them. */
    data class Large(val isFinal: Boolean) : Verdict()

    /** wait: seconds that the collector asks for. */
    data class Again(val reason: String, val wait: Double = 0.0) : Verdict()

    data class Never(val reason: String) : Verdict()
}

/**
 * Read an answer. Only the collector's own word about this very batch lets it be forgotten: an answer with a result for
 * each report, or a problem document that names the digest of the body as it was sent. A gateway may have lost it.
 */
internal fun verdictOf(response: Response, batch: StoredBatch, body: ByteArray, now: Double): Verdict {
    val fields = try {
        Json.parse(response.text) as? Map<*, *>
    } catch (error: FormatException) {
        null
    }.orEmpty()
    val status = response.status
    if (status == 200) {
        val results = resultsOf(fields, batch.id)
        return if (results?.size == batch.reports.size) Verdict.Answered(results) else Verdict.Again("strange_answer")
    }
    val isOurs = response.contentType.substringBefore(';').trim().equals("application/problem+json", ignoreCase = true) &&
        (fields["type"] as? String).orEmpty().startsWith(URN) && fields["status"] == status.toDouble()
    val digest = fields["body_sha256"]
    val isRead = isOurs && digest == MessageDigest.getInstance("SHA-256").digest(body).toHex()
    if (status == 413 && (isRead || !isOurs || digest == null)) return Verdict.Large(isRead)
    if (isRead && status in FINAL) return Verdict.Never("http_$status")
    val isSlow = status in TRANSIENT || status >= 500
    return Verdict.Again("http_$status", if (isSlow) secondsOf(response.retryAfter, now) else 0.0)
}

private fun resultsOf(fields: Map<*, *>, id: String): List<String>? {
    if (fields["version"] != 1.0 || fields["batch_id"] != id) return null
    return (fields["results"] as? List<*>)?.map { result ->
        val row = result as? Map<*, *> ?: return null
        val reason = row["reason"] as? String
        when {
            row["status"] == "accepted" -> ""
            row["status"] == "refused" && reason != null -> reason.take(MAX_REASON).ifEmpty { "?" }
            else -> return null
        }
    }
}

/** Seconds of a Retry-After header: a number, or an HTTP date; 0 for neither. */
private fun secondsOf(header: String, now: Double): Double {
    if (header.isNotBlank() && header.trim().all { it in '0'..'9' }) return header.trim().toDouble()
    return try {
        maxOf(0.0, ZonedDateTime.parse(header.trim(), DateTimeFormatter.RFC_1123_DATE_TIME).toEpochSecond() - now)
    } catch (error: DateTimeException) {
        0.0
    }
}
