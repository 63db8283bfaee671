package rappor.telemetry

import java.io.File

private const val DAY = 86_400_000L

/** What an app sees of the client: recording, consent, the ledger, numbers, places, status and account. */
internal fun clientTests(tests: Tests) {
    tests.test("a value is recorded, sent once and accounted for") {
        Witness().use { witness ->
            val client = opened(collector = witness.url)
            check(client.record("homepage", "https://example.org/").wait()) { client.lastRefusal }
            same(client.account().waiting, 1)
            check(client.flush(10.0).wait()) { client.lastError }
            same(witness.reports.size, 1)
            val account = client.account()
            same(listOf(account.waiting, account.batches, account.metrics.getValue("homepage")!!.reports), listOf(0, 0, 1))
            same(account.counters["accepted:homepage"], 1L)
            check("homepage: reports made: 1" in account.render())
            same(client.status.condition, Condition.ACTIVE)
            client.close()
            same(client.status.condition, Condition.CLOSED)
            check(!client.record("homepage", "x").wait() && !client.flush(1.0).wait() && !client.setConsent(true).wait())
        }
    }
    tests.test("what was recorded before close is sent after the next open, by its timer, once") {
        Witness().use { witness ->
            inFolder { folder ->
                val first = opened(FileStorage(folder))
                first.record("homepage", "a")
                first.close() // without waiting for the record
                val second = opened(FileStorage(folder), witness.url, delivery = FAST.copy(meanDelay = 0.01))
                until { witness.reports.size == 1 }
                second.close()
                val third = opened(FileStorage(folder), witness.url)
                check(third.flush(5.0).wait())
                third.close()
                same(witness.received.map { it.id }.toSet().size, 1) // sent again if the answer came after close
            }
        }
    }
    tests.test("mistakes of a call are refused with a reason, without the value, and nothing is thrown") {
        val said = ArrayList<String>()
        val client = opened(log = { said.add(it) })
        val calls = listOf(
            client.record("nowhere", "x"), client.record("homepage", true), client.record("homepage", 3), client.add("homepage"),
            client.record("homepage", "s\ud800"), client.record("homepage", "secret".repeat(1000)), client.recordPair("homepage", "secret", 1),
            client.recordLocation("homepage", 1.0, 2.0),
        )
        for (call in calls) check(!call.wait())
        check(client.record("homepage", "\ud83d\ude00".repeat(2048)).wait()) { client.lastRefusal }
        check(!client.record("homepage", "\ud83d\ude00".repeat(2049)).wait())
        same(said.size, calls.size + 1)
        check(said.none { "secret" in it } && said.all { it.isNotEmpty() }) { said }
        same(client.account().counters["not_recorded:mistake"], said.size.toLong())
        client.close()
    }
    tests.test("arguments of open are checked at once") {
        for (collector in listOf("", "x", "ftp://a.example", "https://", "https://u:p@a.example", "https://a.example/?x", "http:///x")) {
            fails<ParameterException>(collector) { opened(collector = collector) }
        }
        fails<ParameterException> { RapporClient.open(HOMEPAGE, MemoryStorage(), "http://a.example", true, Options(key = "k")) }
        fails<ParameterException> { RapporClient.open(HOMEPAGE, MemoryStorage(), "https://a.example", true, Options(key = "a\nb")) }
        fails<MetricsFileException> { RapporClient.open("{}", MemoryStorage(), "https://a.example", true) }
        for (wrong in listOf({ Delivery(batchReports = 0) }, { Delivery(meanDelay = Double.NaN) }, { Delivery(timeout = -1.0) })) {
            fails<ParameterException> { wrong() }
        }
        fails<ParameterException> { PrivacyLevel(maxValues = 0) }
        RapporClient.open(HOMEPAGE, MemoryStorage(), "http://127.0.0.1:1", false, Options(key = "k")).close()
    }
    tests.test("without consent and under DO_NOT_TRACK nothing is recorded, sent or kept") {
        Witness().use { witness ->
            val storage = MemoryStorage()
            val client = opened(storage, witness.url, consent = false)
            check(!client.record("homepage", "x").wait())
            same(client.status.condition, Condition.NO_CONSENT)
            check(storage.open().isEmpty()) { storage.open() }
            check(client.flush(1.0).wait()) // nothing waits
            check(client.setConsent(true).wait() && client.record("homepage", "x").wait())
            client.close()
            val other = opened(storage, witness.url, doNotTrack = true)
            check(!other.record("homepage", "x").wait() && !other.flush(1.0).wait())
            same(other.status.condition, Condition.DO_NOT_TRACK)
            same(other.account().waiting, 1)
            other.close()
            same(witness.connections, 0)
        }
    }
    tests.test("the pinned budget: an update cannot raise it, the person can, up to the declared one") {
        val versions = vectors("compiled")["good"]
        fun document(number: Int) = sealed(versions["lives/$number"]["document"].json)
        val storage = MemoryStorage()
        val budgets = (0..5).map { number ->
            val client = opened(storage, metrics = document(number))
            client.account().budget.also { client.close() }
        }
        check(budgets.zipWithNext().all { (before, after) -> after <= before }) { budgets }
        val declared = Metrics.read(document(0)).budget
        val client = opened(storage, metrics = document(0))
        for (wrong in listOf(declared + 1, 0.0, Double.NaN)) fails<ParameterException> { client.setConsent(true, wrong) }
        fails<ParameterException> { client.setConsent(false, 1.0) }
        check(client.setConsent(true, declared).wait())
        same(client.account().budget, declared)
        client.setConsent(false).wait()
        check(client.setConsent(true).wait())
        same(client.account().budget, declared)
        client.close()
        val strict = opened(MemoryStorage(), metrics = document(0), level = PrivacyLevel(maxEpsilon = 0.001))
        check(!strict.record("page", "x").wait() && "used up" in strict.lastRefusal) { strict.lastRefusal }
        strict.close()
    }
    tests.test("consent withdrawn keeps the numbers spent, and a new consent continues from them") {
        inFolder { folder ->
            val client = opened(FileStorage(folder))
            for (value in listOf("a", "b", "b")) check(client.record("homepage", value).wait())
            val before = client.account().metrics.getValue("homepage")!!
            val secret = secretIn(bytesOf(folder))
            check(client.setConsent(false).wait())
            check(secret.take(16) !in bytesOf(folder) && "queue/" !in bytesOf(folder))
            check(client.setConsent(true).wait())
            check(client.record("homepage", "a").wait())
            val after = client.account().metrics.getValue("homepage")!!
            same(after.reports, before.reports + 1)
            check(secretIn(bytesOf(folder)) != secret)
            client.close()
        }
    }
    tests.test("numbers of a period are summed, reported once when it is over, and a period of nothing, too") {
        var now = 20_500 * DAY + DAY / 2
        val client = opened(metrics = NUMBERS, now = { now })
        fun reports(name: String) = client.account().metrics[name]?.reports ?: 0
        check(client.add("crashes").wait() && client.add("crashes", 2).wait() && client.record("crashes", 1).wait()) { client.lastRefusal }
        same(client.account().waiting, 0)
        now += DAY
        check(client.add("crashes").wait())
        same(reports("crashes"), 1)
        now += 3 * DAY
        client.flush(0.0).wait()
        same(reports("crashes"), 4)
        check(!client.add("startup").wait() && "use record" in client.lastRefusal)
        for (wrong in listOf<Number>(Double.NaN, Double.POSITIVE_INFINITY, -1, 1.5, java.math.BigDecimal("1e999"))) {
            check(!client.record("crashes", wrong).wait()) { wrong }
        }
        check(client.record("crashes", Long.MAX_VALUE).wait())
        repeat(3) { check(client.record("startup", Double.MAX_VALUE).wait()) { client.lastRefusal } }
        now -= 40 * DAY // a clock that goes back drops the period and reports nothing
        check(client.add("crashes").wait())
        same(reports("crashes"), 4)
        client.close()
    }
    tests.test("fixes stay on the device until their period is over, and are wiped then") {
        var now = 20_759 * DAY + DAY / 2
        inFolder { folder ->
            val client = opened(FileStorage(folder), metrics = PLACES, now = { now })
            fun fix(at: Long = now) = client.recordLocation("filter", 40.7128, -74.006, at, 0).wait()
            check(fix()) { client.lastRefusal }
            same(client.account().waiting, 0)
            now += DAY
            check(fix())
            same(client.account().metrics.getValue("filter")!!.reports, 2) // one for each slot
            check(!fix(now - 2 * DAY) && "period that is over" in client.lastRefusal) { client.lastRefusal }
            check(!fix(now + 2 * DAY) && "ahead" in client.lastRefusal) { client.lastRefusal }
            for (millis in listOf(Long.MAX_VALUE, Long.MIN_VALUE)) check(!fix(millis))
            check(!client.recordLocation("filter", Double.NaN, 0.0).wait() && !client.recordLocation("nowhere", 1.0, 2.0).wait())
            check(!client.recordTrip("filter", Pair(40.7, -74.0), Pair(40.8, -74.0)).wait())
            now += DAY
            client.flush(0.0).wait()
            same(client.account().metrics.getValue("filter")!!.reports, 4)
            val text = bytesOf(folder)
            check("032010110" !in text) { "a cell of a period that is over is in the files" }
            client.close()
        }
    }
    tests.test("with fresh turns a device answers once in each block of its window, whatever it does in between") {
        val document = vectors("places_turns")["compiled"].json
        var now = 20_755 * DAY + DAY / 3 // the first day of a block of five
        Witness().use { witness ->
            val client = opened(collector = witness.url, metrics = sealed(document), now = { now })
            for (hour in 0 until 50 * 4) {
                if (hour % 7 != 3) client.recordLocation("fresh", 0.5 + hour % 3, 0.5, now, 0).wait()
                now += DAY / 4
                if (hour % 20 == 11) check(client.flush(5.0).wait()) { client.lastError }
            }
            client.flush(5.0).wait()
            val days = witness.reports.filter { it.metric.startsWith("fresh/") }.map { it.day }
            same(days.map { it / 5 }, days.map { it / 5 }.distinct()) // one in a block
            same(days.size, metricsOf(vectors("places_turns")["compiled"]).of("fresh/early/0").definition.maxReports)
            client.close()
        }
    }
    tests.test("a metric that the collector retires is recorded no more; a paused one sends one report a day") {
        var (now, reason) = Pair(20_500 * DAY, "metric_paused")
        Witness { if (reason.isEmpty()) it.accepted else it.refused(reason) }.use { witness ->
            val client = opened(collector = witness.url, now = { now })
            fun record() = client.record("homepage", "a").wait()
            check(record() && !client.flush(5.0).wait())
            same(client.account().counters["refused:homepage:metric_paused"], 1L)
            check(!record() && "not today" in client.lastRefusal)
            now += DAY
            check(record() && !record() && !client.flush(5.0).wait())
            now += DAY
            reason = ""
            check(record() && client.flush(5.0).wait() && record() && record())
            same(client.account().stopped, emptyMap<String, String>())
            reason = "metric_retired"
            client.flush(5.0).wait()
            now += 100 * DAY
            check(!record())
            same(client.account().stopped, mapOf("homepage" to "metric_retired"))
            check("stopped it" in client.account().render())
            client.close()
        }
    }
    tests.test("no_data fills the periods that are over and had no report, once a metric is in use") {
        var now = 20_500 * DAY
        val client = opened(metrics = sealed(vectors("pairs")["compiled"].json), now = { now })
        fun reports() = client.account().metrics["listed"]?.reports
        client.flush(0.0).wait()
        same(reports(), null)
        check(client.recordPair("listed", "a", false).wait())
        now += DAY
        check(client.recordPair("listed", "cafe\u0301", true).wait()) { client.lastRefusal }
        now += 4 * DAY
        client.flush(0.0).wait()
        same(reports(), 5)
        client.close()
    }
    tests.test("a missing journal is refused until it is back, or a reset draws a new secret") {
        inFolder { folder ->
            val (journal, copy) = Pair(File(folder, "state.journal"), File(folder.parentFile, "copy"))
            opened(FileStorage(folder)).apply { check(record("homepage", "a").wait()) }.close()
            val secret = secretIn(journal.readText())
            journal.copyTo(copy)
            journal.delete()
            val lost = opened(FileStorage(folder))
            check(!lost.record("homepage", "a").wait() && "missing" in lost.lastRefusal) { lost.lastRefusal }
            same(lost.status.condition, Condition.STATE_MISSING)
            copy.copyTo(journal, overwrite = true)
            check(lost.record("homepage", "a").wait()) { lost.lastRefusal }
            same(secretIn(journal.readText()), secret)
            same(lost.account().counters["state:older_copy"], null)
            lost.close()
            copy.copyTo(journal, overwrite = true) // a file that was rolled back, alone
            val back = opened(FileStorage(folder))
            same(back.account().counters["state:older_copy"], 1L)
            back.close()
            journal.delete()
            val again = opened(FileStorage(folder))
            until { again.status.condition == Condition.STATE_MISSING }
            check(again.reset().wait() && again.record("homepage", "a").wait())
            check(secretIn(journal.readText()) != secret)
            check(!again.reset().wait()) { "nothing to reset" }
            again.close()
        }
    }
}
