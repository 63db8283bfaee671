package rappor.telemetry

import java.io.ByteArrayInputStream
import java.util.zip.GZIPInputStream

private val COMPILED by lazy { vectors("compiled") }
private val DEVICE_VECTORS by lazy { vectors("device") }

private fun compiled(name: String) = metricsOf(COMPILED["good"][name]["document"])

/** What a device derives and sends, against every vector that concerns a client. */
internal fun vectorTests(tests: Tests) {
    tests.test("hashing: normal form, MurmurHash3 and positions") {
        for (row in vectors("hashing").rows) {
            val data = Hashing.normalize(row["value"].text)
            same(data.toHex(), row["normalised"].text)
            val (low, high) = Hashing.murmur3(data)
            same(listOf(low, high).map { bigEndian(it, 8).toHex() }, listOf(row["mmh3_low"].text, row["mmh3_high"].text))
            for (case in row["positions"].rows) {
                val (cohort, bits, hashes) = listOf("cohort", "num_bits", "num_hashes").map { case[it].int }
                val found = if (case["hash"].text == "mmh3") Hashing.mmh3(data, cohort, bits, hashes) else Hashing.md5(data, cohort, bits, hashes)
                same(found.toList(), case["positions"].rows.map { it.int })
            }
        }
    }
    tests.test("digests of compiled metrics") {
        for ((name, digest) in vectors("digests")["compiled"].entries) {
            val document = COMPILED["good"][name]["document"]
            same(Metrics.digestOf(document["budget"].json, document["metrics"].json), digest.text, name)
        }
        for (row in vectors("digests")["odd"].rows) {
            same(Metrics.digestOf(row["document"]["budget"].json, row["document"]["metrics"].json), row["digest"].text, row)
        }
    }
    tests.test("compiled metrics: promises are computed, and a document without its digest is refused") {
        for ((name, row) in COMPILED["good"].entries) {
            val metrics = compiled(name)
            for ((metric, nats) in row["promises"].entries) {
                val found = metrics.of(metric)
                near(found.epsilonInfinity, nats["epsilon_infinity"].json as Double? ?: Double.POSITIVE_INFINITY)
                near(found.epsilonPerReport, nats["epsilon_one"].number)
                near(found.lifetimeEpsilon, nats["lifetime_epsilon"].number)
            }
            fails<MetricsFileException>(name) { Metrics.read(Json.write(row["document"].json)) }
            val text = sealed(row["document"].json)
            fails<MetricsFileException>(name) { Metrics.read(text.replaceFirst("\"owner\":\"", "\"owner\":\"x")) }
        }
        for ((metric, wanted) in vectors("metrics")["expected"].entries) {
            val found = compiled("metrics").all.find { it.name == metric } ?: continue
            same(found.paramsId, wanted["params_id"].text)
            near(Privacy.epsilonN(found.params, 30), wanted["epsilon_30"].number)
        }
        for (row in COMPILED["bad"].rows + vectors("platforms")["bad"].rows) {
            fails<MetricsFileException>(row["name"].text) { Metrics.read(Json.write(row["document"].json)) }
        }
    }
    tests.test("compiled metrics of a form or kind that is not known are refused, though sealed") {
        val good = COMPILED["good"]["metrics"]["document"].json
        val bad = listOf(
            listOf<Any>("version") to 2.0, listOf<Any>("version") to true, listOf<Any>("extra") to 1.0, listOf<Any>("metrics") to "x",
            listOf("metrics", 0, "definition", "kind") to "flow", listOf("metrics", 0, "definition", "kind") to "STRING",
            listOf("metrics", 0, "definition", "noise_v2") to 1.0, listOf("metrics", 0, "definition", "expires") to "tomorrow",
            listOf("metrics", 0, "definition", "params", "p1") to 65_537.0, listOf("metrics", 0, "definition", "params", "encoding") to "flow_symbol",
            listOf("metrics", 0, "definition", "max_reports") to 1.5, listOf("budget") to "12",
        )
        for ((path, value) in bad) fails<MetricsFileException>(path) { Metrics.read(sealed(changed(good, path, value))) }
        val hexagons = changed(COMPILED["good"]["places"]["document"].json, listOf("metrics", 0, "definition", "location", "grid", "kind"), "h3")
        check("hexagons" in fails<MetricsFileException> { Metrics.read(sealed(hexagons)) }.message.orEmpty())
        for (text in listOf("", "[]", "null", "{", "[".repeat(100_000), "{\"version\":1,\"version\":1}", "1 2", "\"\u0001\"", "01", "nul")) {
            fails<MetricsFileException>(text.take(20)) { Metrics.read(text) }
        }
    }
    tests.test("derivations, checks of secrets, cohorts") {
        for (row in DEVICE_VECTORS["derivations"].rows) {
            val (secret, fields) = Pair(row["secret"].bytes, row["fields"].rows.map { it.bytes })
            same(Derivation.keyedInput(secret, row["purpose"].text, fields).toHex(), row["input"].text)
            val output = row["output"].text
            same(Derivation.derive(secret, row["purpose"].text, fields, output.length / 2).toHex(), output)
        }
        for (row in DEVICE_VECTORS["secret_checks"].rows) same(Derivation.check(row["secret"].bytes), row["check"].text)
        for (row in DEVICE_VECTORS["cohorts"].rows) {
            same(Derivation.cohort(row["secret"].bytes, row["metric"].text, row["num_cohorts"].int), row["cohort"].int)
        }
    }
    tests.test("coins") {
        for (row in DEVICE_VECTORS["coins"].rows) {
            val coin = BitCoin(row["if_one"].int, row["if_zero"].int, row["num_bits"].int)
            same(coin.numBytes, row["random"].bytes.size)
            same(coin.toss(row["bits"].bytes, row["random"].bytes).toHex(), row["result"].text)
        }
    }
    tests.test("reports: every step from the value to the wire") { compareReports(compiled("metrics"), DEVICE_VECTORS["reports"], "bloom_bits") }
    tests.test("periods") {
        for (row in DEVICE_VECTORS["periods"].rows) {
            same(Days.periodOf(Period.valueOf(row["period"].text.uppercase()), Days.of(row["day"].text)), row["number"].int, row)
        }
    }
    tests.test("the ledger's decisions") {
        val script = DEVICE_VECTORS["ledger"]
        val (documents, recorder) = Pair(Documents.of(script["secret"].text), Recorder(compiled("ledger"), PrivacyLevel.STANDARD, ZEROS))
        for (row in script["operations"].rows) {
            val found = documents.run { recorder.record(it, row["metric"].text, row["value"].value, Days.of(row["day"].text)) }
            same(found.word, row["outcome"].text, row)
        }
    }
    for (life in DEVICE_VECTORS["lives"]["lives"].rows) tests.test("a life over versions: ${life["name"].text}") { live(life) }
    tests.test("which limit is weaker") {
        val metric = compiled("metrics").all[0]
        for (row in DEVICE_VECTORS["lives"]["weaker"].rows) {
            fun promise(of: Row) = promiseOf(metric).copy(period = Period.valueOf(of[0].text.uppercase()), reportsPerPeriod = of[1].number)
            same(weakerThan(promise(row["then"]), promise(row["first"])) != null, row["weaker"].json, row)
        }
    }
    tests.test("platforms: what is declared for browsers alone is not recorded, and nothing of it is kept") {
        val vectors = vectors("platforms")
        val documents = Documents.of("07".repeat(32))
        val recorder = Recorder(metricsOf(vectors["document"]), PrivacyLevel.STANDARD, ZEROS)
        for ((name, row) in vectors["promises"].entries) {
            val isHere = row["recorded"]["app"].json == true
            if (isHere) near(recorder.metrics.of(name).lifetimeEpsilon, row["lifetime_epsilon"]["app"].number)
            same(documents.run { recorder.record(it, name, Value.Text("yes"), 20_000) }.isKept, isHere, name)
            same(LINE + name in documents.all, isHere, name)
        }
    }
    tests.test("batches: the binary form, and gzip that any reader accepts") {
        for (row in vectors("batches").rows) {
            val batch = Row(Json.parse(row["json"].text))
            val reports = batch["reports"].rows.map {
                QueuedReport(it["metric"].text, it["params_id"].text, it["cohort"].int, Days.of(it["day"].text), it["bits"].text)
            }
            same(encodeBinary(batch["batch_id"].bytes, reports).toHex(), row["binary"].text)
        }
        for (size in listOf(1, 255, 256, 65_535, 65_536, 200_000)) for (padTo in listOf(1, 256, 4096)) {
            val data = ByteArray(size) { (it * 7).toByte() }
            val body = gzipPadded(data, padTo)
            same(body.size % padTo, 0)
            check(GZIPInputStream(ByteArrayInputStream(body)).readBytes().contentEquals(data)) { size }
        }
    }
    tests.test("pairs: bits in each cohort, and refused values without the value") {
        val vectors = vectors("pairs")
        val metrics = metricsOf(vectors["compiled"])
        for (row in vectors["values"].rows) row["bits"].rows.forEachIndexed { cohort, wanted ->
            val bits = ValueEncoder.of(metrics.of(row["metric"].text), cohort, ByteArray(32)).encode(row["value"].value)
            same(bits.foldRight(0L) { byte, sum -> sum * 256 + (byte.toInt() and 255) }, wanted.number.toLong(), row)
        }
        for (row in vectors["refused"].rows) {
            val value = try {
                row["value"].value
            } catch (error: FormatException) {
                continue // not a value that the API accepts
            }
            val error = fails<ValueRefused>(row) { ValueEncoder.of(metrics.of(row["metric"].text), 0, ByteArray(32)).encode(value) }
            check("'z'" !in error.message.orEmpty())
        }
    }
}

/** Every step from a value to a report, for rows of the vectors. */
internal fun compareReports(metrics: Metrics, rows: Row, bits: String) {
    for (row in rows.rows) {
        val random = row["random"].bytes
        val encoder = MetricEncoder(metrics.of(row["metric"].text), row["secret"].bytes) { random.copyOf(it) }
        val encoded = encoder.encode(row["value"].value)
        if ("params_id" in row) same(encoder.metric.paramsId, row["params_id"].text)
        same(encoder.cohort, row["cohort"].int, row)
        same(encoded.bits.toHex(), row[bits].text, row)
        same(encoded.permanent.toHex(), row["permanent_bits"].text, row)
        same(encoded.digest, row["ledger_digest"].text, row)
        same(encoder.reportBits(encoded).toHex(), row["report_bits"].text, row)
    }
}

private fun live(life: Row) {
    val documents = Documents.of(DEVICE_VECTORS["lives"]["secret"].text)
    var recorder: Recorder? = null
    for (step in life["steps"].rows) {
        if ("open" in step) {
            recorder = Recorder(compiled("lives/${step["open"].int}"), PrivacyLevel.STANDARD, ZEROS)
            documents.run { it.device = pinned(it.device, recorder.metrics.budget) }
        } else if ("consent" in step) {
            documents.run { it.device = it.device.copy(budget = step["consent"].number) }
        } else {
            val found = documents.run { recorder!!.record(it, step["metric"].text, step["value"].value, Days.of(step["day"].text)) }
            same(found.word, step["outcome"].text, step)
        }
        // as after a restart: through JSON and back
        for ((key, document) in HashMap(documents.all)) documents.all[key] = Damaged.orDocument(key, Json.write(document.toJson()))
        val budget = documents.run { budgetOf(it.device, recorder!!.metrics.budget, PrivacyLevel.STANDARD) }
        same(budget, step["budget"].json as Double? ?: Double.POSITIVE_INFINITY, step)
    }
}
