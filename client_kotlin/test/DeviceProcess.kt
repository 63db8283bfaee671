package rappor.telemetry

import java.io.File

/**
 * A device in a process of its own, for tests that kill it: FOLDER COLLECTOR NUMBER [WHAT [METRICS]]. It prints a line
 * for each value that was recorded. WHAT: `record`, `flush` after each ten, `close` and open after each ten, `withdraw`,
 * `leave` without closing.
 */
fun main(arguments: Array<String>) {
    val (folder, collector, number) = arguments
    val what = arguments.getOrElse(3) { "record" }
    val metrics = arguments.getOrNull(4)?.let { File(it).readText() } ?: HOMEPAGE
    val delivery = Delivery(meanDelay = if (what == "withdraw") 3600.0 else 0.0, firstPause = 0.05, batchReports = 7)
    val open = { consent: Boolean ->
        RapporClient.open(metrics, FileStorage(File(folder)), collector, consent, Options(delivery = delivery, doNotTrack = { false }))
    }
    var client = open(what != "withdraw")
    if (what == "withdraw") {
        println("${client.setConsent(false).get()}: ${client.status.sentence}")
        client.close()
        return
    }
    println("open")
    for (count in 1..number.toInt()) {
        while (!client.record("homepage", "a").get()) Thread.sleep(10)
        println("recorded") // the test counts whole lines: acknowledged to the app
        if (what == "flush" && count % 10 == 0) client.flush(0.05).get()
        if (what == "close" && count % 10 == 0) {
            client.close()
            client = open(true)
        }
    }
    if (what == "leave") return println("leaving")
    client.flush(20.0).get()
    client.close()
    println("closed")
}
