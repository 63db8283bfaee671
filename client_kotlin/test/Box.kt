package rappor.telemetry

import java.io.File

/** The client as a program under audit: one JSON object a line, and an answer to each (docs/porting.md, part 12). */
private class Box {
    private var metrics = Metrics(emptyList(), 0.0)
    private val devices = HashMap<String, Documents>()
    private var client: RapporClient? = null
    private val secure = java.security.SecureRandom()

    fun answer(command: Row): Map<String, Any?> = when (val act = command["do"].text) {
        "metrics" -> {
            metrics = Metrics.read(sealed(command["document"].json))
            devices.clear()
            emptyMap()
        }
        "encode" -> encode(command)
        "record" -> record(command)
        "batch" -> mapOf("binary" to encodeBinary(command["batch_id"].bytes, command["reports"].rows.map(::reportOf)).toHex())
        "open" -> {
            val options = Options(doNotTrack = { false }, delivery = Delivery(isAutomatic = false))
            client = RapporClient.open(File(command["metrics"].text).readText(), FileStorage(File(command["state_dir"].text)), command["collector"].text, true, options)
            emptyMap()
        }
        "flush" -> mapOf("sent" to opened().flush(command["seconds"].number).get())
        "withdraw" -> mapOf("wiped" to opened().setConsent(false).get())
        "close" -> emptyMap<String, Any?>().also { opened().close() }
        "count" -> mapOf("bits" to counted(command))
        else -> throw IllegalArgumentException("unknown command: $act")
    }

    private fun opened() = client ?: throw IllegalStateException("not open")

    private fun randomness(command: Row): Randomness {
        val fixed = command["random"].json?.let { command["random"].bytes } ?: return { ByteArray(it).also(secure::nextBytes) }
        return { fixed.copyOf(it) }
    }

    private fun encode(command: Row): Map<String, Any?> {
        val encoder = MetricEncoder(metrics.of(command["metric"].text), command["secret"].bytes, randomness(command))
        val encoded = encoder.encode(command["value"].value)
        val count = (command["count"].json as Double?)?.toInt() ?: 1
        return mapOf(
            "cohort" to encoder.cohort, "bloom_bits" to encoded.bits.toHex(), "permanent_bits" to encoded.permanent.toHex(),
            "ledger_digest" to encoded.digest, "report_bits" to List(count) { encoder.reportBits(encoded).toHex() },
        )
    }

    /** A device with a ledger, in memory by its secret, opened again for each command; or a value of the open client. */
    private fun record(command: Row): Map<String, Any?> {
        client?.let { return mapOf("recorded" to recordWith(it, command["metric"].text, command["value"].json)) }
        val secret = command["secret"].text
        val documents = devices.getOrPut(secret) { Documents.of(secret) }
        val recorder = Recorder(metrics, PrivacyLevel.STANDARD, randomness(command))
        return documents.run { store ->
            store.device = pinned(store.device, metrics.budget)
            val outcome = recorder.record(store, command["metric"].text, command["value"].value, Days.of(command["day"].text))
            val report = store.changes.entries.find { it.key.startsWith(QUEUE) }?.value?.toJson()
            store.list(QUEUE).forEach { store.remove(it.first) }
            mapOf("outcome" to outcome.word, "report" to report)
        }
    }

    private fun recordWith(client: RapporClient, name: String, value: Any?): Boolean = when (value) {
        is String -> client.record(name, value)
        is Boolean -> client.record(name, value)
        is Double -> client.record(name, value)
        else -> (value as List<*>).let { client.recordPair(name, it[0]!!, it[1]!!) }
    }.get()

    private fun reportOf(row: Row) =
        QueuedReport(row["metric"].text, row["params_id"].text, row["cohort"].int, row["day"].int, row["bits"].text)

    /** One report each of `devices` fresh devices for a value: how many set each bit, by cohort. */
    private fun counted(command: Row): Map<String, List<Int>> {
        val metric = metrics.of(command["metric"].text)
        val counts = java.util.TreeMap<String, IntArray>()
        repeat(command["devices"].int) {
            val encoder = MetricEncoder(metric, ByteArray(SECRET_BYTES).also(secure::nextBytes), { ByteArray(it).also(secure::nextBytes) })
            val bits = encoder.reportBits(encoder.encode(command["value"].value))
            val row = counts.getOrPut(encoder.cohort.toString()) { IntArray(metric.params.numBits + 1) }
            row[0]++
            for (i in 0 until metric.params.numBits) row[i + 1] += bits.at(i / 8) shr i % 8 and 1
        }
        return counts.mapValues { it.value.toList() }
    }
}

fun main() {
    val box = Box()
    for (line in generateSequence(::readlnOrNull).filter { it.isNotBlank() }) {
        val answer = try {
            mapOf("ok" to true) + box.answer(Row(Json.parse(line)))
        } catch (error: Exception) {
            val where = error.stackTrace.firstOrNull { it.className.startsWith("rappor") }
            mapOf("ok" to false, "error" to error.javaClass.simpleName, "message" to "${error.message} ($where)")
        }
        println(Json.write(answer))
        System.out.flush()
    }
}
