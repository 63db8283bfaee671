package rappor.telemetry

/**
 * Microseconds for a new value, a known value, a durable record in a directory, and the part of a record that the thread
 * of the app waits for: medians of batches, as JSON.
 */
fun main() {
    val metric = Metrics.read(HOMEPAGE).of("homepage")
    val secure = java.security.SecureRandom()
    val encoder = MetricEncoder(metric, ByteArray(32) { 7 }) { ByteArray(it).also(secure::nextBytes) }
    var count = 0
    fun encoded(value: String) = encoder.encode(Value.Text(value)).let { it.digest.length + encoder.reportBits(it).size }
    fun median(batches: Int, number: Int, act: () -> Unit): Double = List(batches) {
        val begun = System.nanoTime()
        repeat(number) { act() }
        (System.nanoTime() - begun) / 1000.0 / number
    }.drop(batches / 4).sorted().let { it[it.size / 2] } // the first ones warm up
    val fresh = median(40, 500) { encoded("https://example.org/page/${count++}") }
    val known = median(40, 2500) { encoded("https://example.org/") }
    val durable = inFolder { folder ->
        opened(FileStorage(folder)).use { client -> median(40, 50) { check(client.record("homepage", "value").get()) } }
    }
    val call = opened(delivery = FAST.copy(maxQueued = 100_000)).use { client ->
        val times = List(12) { // below the reports that a period may have
            val calls = ArrayList<java.util.concurrent.Future<Boolean>>()
            median(8, 100) { calls.add(client.record("homepage", "value")) }.also { check(calls.all { it.get() }) { client.lastRefusal } }
        }
        times.sorted()[times.size / 2]
    }
    println(Json.write(mapOf("fresh" to fresh, "known" to known, "durable" to durable, "call" to call)))
    if (System.getProperty("rappor.stay") == null) System.exit(0)
}
