package rappor.telemetry

import java.time.OffsetDateTime

private val SPECIAL = mapOf("nan" to Double.NaN, "inf" to Double.POSITIVE_INFINITY, "-inf" to Double.NEGATIVE_INFINITY)

private fun moment(text: String): Moment {
    val time = OffsetDateTime.parse(text)
    val millis = time.toEpochSecond() * 1000.0 + time.nano / 1e6
    return Moment.of(millis, time.offset.totalSeconds / 60)
}

private fun point(row: Row, from: Int) = Pair(row[from].number, row[from + 1].number)

private fun gridOf(row: Row): Grid? {
    if (row["kind"].text == "h3") return null
    val (rows, columns) = Pair(row["rows"].int, row["columns"].int)
    val kind = GridKind.valueOf(row["kind"].text.uppercase())
    return Grid(GridFields(kind, row["box"].rows.map { it.number }, row["levels"].rows.map { it.int }, rows, columns))
}

/** Each step is made as the client makes it: from the state and back. */
private fun reportsOf(metrics: Metrics, row: Row, steps: List<(Visits) -> Unit>): List<List<Any>> {
    val sent = ArrayList<List<Any>>()
    var note: String? = null
    for (step in steps) {
        val visits = Visits(metrics.partsOf(row["metric"].text), row["secret"].bytes, { name, value, day -> sent.add(listOf(name, value, day)) }, note)
        step(visits)
        note = visits.write()
    }
    return sent
}

private fun wanted(row: Row) = row["reports"].rows.map { listOf(it[0].text, it[1].text, it[2].int) }

private fun checkLimits(metrics: Metrics, limits: Row, value: String) {
    val (documents, recorder) = Pair(Documents.of(limits["secret"].text), Recorder(metrics, PrivacyLevel.STANDARD, ZEROS))
    for (row in limits["operations"].rows) {
        val found = documents.run { recorder.record(it, row["metric"].text, Value.Text(value), Days.of(row["day"].text)) }
        same(found.word, row["outcome"].text, row)
    }
}

private fun checkExpected(metrics: Metrics, expected: Row) {
    same(metrics.all.map { it.name }, expected.entries.map { it.first })
    for ((name, row) in expected.entries) {
        same(metrics.of(name).paramsId, row["params_id"].text, name)
        near(metrics.of(name).lifetimeEpsilon, row["lifetime_epsilon"].number, name)
    }
}

/** Places against the vectors: cells, times, the usual cell, duties, responses, fresh turns and last known cells. */
internal fun placeVectorTests(tests: Tests) {
    val vectors = vectors("places")
    val metrics by lazy { metricsOf(vectors("compiled")["good"]["places"]["document"]) }
    for (case in vectors["cells"].rows) {
        val grid = gridOf(case["grid"]) ?: continue
        tests.test("cells: ${case["grid"]["kind"].text} ${case["grid"]["box"]}") {
            for (row in case["points"].rows) {
                val (latitude, longitude) = point(row["point"], 0)
                if ("refused" in row && row["refused"].json != null) {
                    fails<ValueRefused>(row) { grid.locate(latitude, longitude) }
                    continue
                }
                val cell = grid.locate(latitude, longitude)
                same(cell?.let { grid.code(it, grid.finest).toString() }, row["cell"].textOrNull, row)
                val levels = case["grid"]["levels"].rows.map { grid.value(cell, it.int) }
                same(levels, row["values"].rows.map { it.text }, row)
            }
        }
    }
    tests.test("points that are refused") {
        for (row in vectors["refused"].rows) {
            val grid = Grid(GridFields(GridKind.QUADKEY, row["box"].rows.map { it.number }, listOf(12), 0, 0))
            val numbers = row["point"].rows.map { it.json.toString() }.map { SPECIAL[it] ?: it.toDouble() }
            fails<ValueRefused>(row) { grid.locate(numbers[0], numbers[1]) }
        }
    }
    tests.test("names, params_ids and epsilons of places") { checkExpected(metrics, vectors["metrics"]["expected"]) }
    tests.test("local times, slots and periods") {
        val slots = metrics.of("filter/work/13").place!!.slots
        for (row in vectors["times"].rows) {
            val found = moment(row["time"].text)
            same(listOf(found.day, found.hour, Days.isWeekend(found.day)), listOf(row["day"].int, row["hour"].int, row["weekend"].json), row)
            near(found.left, row["left_in_hour"].number, row)
            same(slots.find { it.covers(found.hour, row["weekend"].json as Boolean) }?.name, row["slot"].textOrNull, row)
            for ((name, number) in row["periods"].entries) {
                val unit = Period.valueOf(name.uppercase())
                same(Days.periodOf(unit, found.day), number.int)
                same(Days.lastDay(unit, number.int), row["last_days"][name].int)
            }
        }
    }
    val apart = vectors("places_no_data")
    for ((file, rows) in listOf("places" to vectors, "places_no_data" to apart)) for (row in rows["usual"].rows) {
        tests.test("the usual cell, $file: ${row["what"].text}, ${row["secret"].text.take(4)}") {
            val steps = row["fixes"].rows.map { fix -> { visits: Visits -> visits.take(listOf(point(fix, 1)), moment(fix[0].text)) } }
            val last = { visits: Visits -> visits.roll(moment(row["until"].text)) }
            same(reportsOf(if (rows === apart) metricsOf(apart["compiled"]) else metrics, row, steps + last), wanted(row))
        }
    }
    tests.test("which fixes are accepted") {
        val row = vectors["fix_times"]
        val visits = Visits(metrics.partsOf(row["metric"].text), row["secret"].bytes, { _, _, _ -> }, null)
        for (fix in row["fixes"].rows) {
            val at = moment(fix["at"].text)
            val refusal = visits.refusal(at, moment(fix["clock"].text))
            same(refusal?.word ?: "taken", fix["outcome"].text, fix)
            if (refusal == null) visits.take(listOf(Pair(40.7128, -74.006)), at)
        }
    }
    tests.test("duties") {
        for (row in vectors["duties"].rows) {
            val duty = Duty(row["secret"].bytes, metrics.partsOf(row["metric"].text))
            same(listOf(duty.level, duty.every, duty.phase), listOf(row["level"].int, row["every"].int, row["phase"].int), row)
            for ((period, names) in row["due"].entries) same(duty.due(period.toInt()).map(duty::nameOf), names.rows.map { it.text }, row)
        }
    }
    tests.test("coins of symbols") {
        for (row in vectors["symbol_coins"].rows) {
            val size = (row["num_symbols"].int + 7) / 8
            val found = SymbolCoin(row["kept"].int, row["lie"].int).toss(oneBit(row["symbol"].int, size), row["random"].bytes)
            same(found.toHex(), oneBit(row["result"].int, size).toHex(), row)
        }
    }
    tests.test("responses of places") {
        compareReports(metrics, vectors["responses"], "encoded_bits")
        compareReports(metricsOf(apart["compiled"]), apart["responses"], "encoded_bits")
        checkExpected(metricsOf(apart["compiled"]), apart["metrics"]["expected"])
    }
    tests.test("one report a window, over new slots and levels") { checkLimits(metrics, vectors["limits"], "0-0-0") }

    val turns = vectors("places_turns")
    val fresh by lazy { metricsOf(turns["compiled"]) }
    tests.test("fresh turns: params_ids, one turn in each block, and the ledger by block") {
        checkExpected(fresh, turns["metrics"]["expected"])
        for (row in turns["duties"].rows) {
            val parts = fresh.partsOf(row["metric"].text)
            val (duty, window) = Pair(Duty(row["secret"].bytes, parts), parts[0].place!!.window)
            for ((block, wanted) in row["turns_by_block"].entries) {
                val found = (block.toInt() * window until (block.toInt() + 1) * window).flatMap { period ->
                    duty.due(period).map { listOf(period, duty.nameOf(it)) }
                }
                same(found, wanted.rows.map { listOf(it[0].int, it[1].text) }, row)
            }
        }
        checkLimits(fresh, turns["limits"], "other")
        val life = fresh.partsOf("fresh")[0]
        val fixed = Metric(life.definition.copy(details = life.place!!.copy(isFresh = false)), life.paramsId)
        same(weakerThan(promiseOf(life), promiseOf(fixed)), "reports_in_window")
        same(weakerThan(promiseOf(fixed), promiseOf(life)), null)
    }
    for (row in turns["usual"].rows) tests.test("fresh turns, ${row["metric"].text}: ${row["what"].text}") {
        val steps = row["steps"].rows.map { step ->
            { visits: Visits ->
                val at = moment(step[0].text)
                if (step.rows.size > 1) visits.take(listOf(point(step, 1)), at) else visits.roll(at)
            }
        }
        same(reportsOf(fresh, row, steps), wanted(row))
    }
}
