package rappor.telemetry

/** Numbers against the vectors: questions, cuts, symbols, periods and whole lives. */
internal fun numberVectorTests(tests: Tests) {
    val vectors = vectors("numbers")
    val metrics by lazy { metricsOf(vectors["metrics"]["document"]) }
    fun details(name: String) = metrics.of(name).definition.details as NumberDetails

    tests.test("the questions of each metric, and jitters") {
        for ((name, asked) in vectors["asked"].entries) {
            val wanted = asked.rows.map { if (it.json == "data") Double.NEGATIVE_INFINITY else it.number }
            same(Cuts.questionsOf(details(name)), wanted, name)
        }
        for (row in vectors["jitters"].rows) {
            same(metrics.of(row["metric"].text).paramsId, row["params_id"].text)
            same(Cuts.jitterOf(metrics.of(row["metric"].text), row["secret"].bytes), row["jitter"].number, row)
        }
    }
    tests.test("symbols") {
        check(vectors["symbols"].rows.size > 600)
        for (row in vectors["symbols"].rows) {
            val metric = metrics.of(row["metric"].text)
            val cuts = Cuts.of(details(metric.name), row["cohort"].int, metric.params.numBits, row["jitter"].number)
            val wanted = oneBit(row["symbol"].int, metric.params.numBytes)
            same(NumberEncoder(metric, cuts).encode(row["value"].value).toHex(), wanted.toHex(), row)
        }
    }
    tests.test("numbers that are refused, without the number") {
        for (row in vectors["refused"].rows) {
            val special = (row["value"].json as? Map<*, *>)?.get("special") as? String
            val value = if (special != null) Value.Amount(special.toDouble()) else if (row["value"].json is List<*>) continue else row["value"].value
            val error = fails<ValueRefused>(row) { MetricEncoder(metrics.of(row["metric"].text), ByteArray(32), ZEROS).encode(value) }
            check("812" !in error.message.orEmpty())
        }
    }
    tests.test("what is made of a period") {
        for (row in vectors["collected"].rows) {
            val metric = metrics.of(row["metric"].text)
            val encoder = MetricEncoder(metric, row["secret"].bytes, ZEROS)
            same(encoder.cohort, row["cohort"].int)
            val cuts = Cuts.onDevice(metric, encoder.cohort, row["secret"].bytes)
            val asked = details(metric.name).ofPeriod
            val collected = row["numbers"].rows.fold(Collected(1)) { before, number ->
                Collected.read(before.plus(number.number, asked, cuts).write(metric), metric)!! // from the state and back
            }
            val bits = encoder.encode(collected.value(asked)).bits
            same(bits.toHex(), oneBit(row["symbol"].int, bits.size).toHex(), row)
        }
    }
    vectors["lives"].rows.forEachIndexed { number, life ->
        tests.test("a life of numbers: $number") {
            val documents = Documents.of(life["secret"].text)
            val encoders = HashMap<String, MetricEncoder>()
            for (step in life["steps"].rows) {
                val recorder = Recorder(metrics, PrivacyLevel.STANDARD, ZEROS) // reopened
                val isLook = step.rows.size < 3
                for (name in if (isLook) metrics.all.map { it.name } else listOf(step[0].text)) documents.run { store ->
                    if (isLook) recorder.fillPeriods(store, metrics.of(name), step[1].int)
                    else recorder.take(store, name, step[2].value, step[1].int, false)
                }
            }
            val reports = documents.all.filterKeys { it.startsWith(QUEUE) }.values.map { it as QueuedReport }
            same(reports.size, life["reports"].rows.size)
            // With zeros for randomness the second round keeps a symbol, so that a report is the permanent response of one.
            val wanted = life["reports"].rows.map { row ->
                val metric = metrics.of(row[0].text)
                val encoder = encoders.getOrPut(metric.name) { MetricEncoder(metric, life["secret"].bytes, ZEROS) }
                encoder.report(encoder.encode(Value.Symbol(row[2].int)), row[1].int)
            }
            same(reports.sortedBy { it.toString() }, wanted.sortedBy { it.toString() })
        }
    }
}
