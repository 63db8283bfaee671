package example.desktop

import java.io.File

/** Ask once, record one value, show the account: FOLDER METRICS COLLECTOR VALUE. */
fun main(arguments: Array<String>) {
    val (folder, metrics, collector, value) = arguments
    Telemetry(File(folder), File(metrics).readText(), collector).use { telemetry ->
        if (telemetry.answer == null) {
            print("Send your start page, randomized on this computer? (yes/no) ")
            telemetry.decide(readlnOrNull() == "yes")
        }
        telemetry.client.record("homepage", value).get()
        println(telemetry.account())
    }
}
