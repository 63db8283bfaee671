package example.desktop

import java.io.File
import rappor.telemetry.FileStorage
import rappor.telemetry.Options
import rappor.telemetry.RapporClient

/**
 * The telemetry of a desktop app: the person's answer, remembered, and an account to show.
 *
 * folder: of the app's own data; the answer and the client's state are kept there.
 */
class Telemetry(folder: File, metrics: String, collector: String, options: Options = Options()) : AutoCloseable {
    private val answerFile = File(folder, "telemetry-answer").also { folder.mkdirs() }
    val client: RapporClient = RapporClient.open(metrics, FileStorage(File(folder, "telemetry")), collector, answer == true, options)

    /** What the person said; null if nobody was asked yet. */
    val answer: Boolean? get() = if (answerFile.exists()) answerFile.readText() == "yes" else null

    /** Remember the answer and act on it: no means that queue and secret are wiped now. */
    fun decide(consent: Boolean) {
        answerFile.writeText(if (consent) "yes" else "no")
        client.setConsent(consent)
    }

    /** The queue, what was sent and what can be inferred, as text. */
    fun account(): String = client.inspect().get()?.render() ?: client.status.sentence

    override fun close(): Unit = client.close()
}
