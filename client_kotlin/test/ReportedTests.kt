package rappor.telemetry

import java.io.IOException
import java.util.Collections
import java.util.Locale
import java.util.TimeZone
import java.util.concurrent.CountDownLatch
import kotlin.concurrent.thread

private const val DAY = 86_400_000L

/** What users of telemetry SDKs for Kotlin report as bugs, tried here. */
internal fun reportedTests(tests: Tests) {
    tests.test("files and the network are never used on the thread of the app (StrictMode)") {
        val threads = Collections.synchronizedSet(HashSet<String>())
        val memory = MemoryStorage()
        val storage = object : Storage by memory {
            override fun open() = memory.open().also { threads.add(Thread.currentThread().name) }

            override fun write(changes: Map<String, String?>) = memory.write(changes).also { threads.add(Thread.currentThread().name) }

            override fun sync() = memory.sync().also { threads.add(Thread.currentThread().name) }

            override fun close() = memory.close().also { threads.add(Thread.currentThread().name) }
        }
        val client = opened(storage, transport = { threads.add(Thread.currentThread().name).let { throw IOException("offline") } })
        client.record("homepage", "x")
        client.flush(0.2).wait()
        client.setConsent(false).wait()
        client.reset().wait()
        client.close()
        same(threads.toSortedSet().toList(), listOf("rappor-telemetry", "rappor-telemetry-sender"))
    }
    tests.test("no call waits for a disk that hangs, and close waits for 1.5 s at most") {
        val hang = CountDownLatch(1)
        val memory = MemoryStorage()
        val storage = object : Storage by memory {
            override fun open() = hang.await().let { memory.open() }
        }
        val begun = System.nanoTime()
        val client = opened(storage)
        val calls = List(1500) { client.record("homepage", "x") }
        client.flush(1.0)
        val seconds = (System.nanoTime() - begun) / 1e9
        check(seconds < 3) { "$seconds s for 1,500 calls" }
        check(calls.count { it.isDone && !it.get() } in 450..550) { "above 1,000 calls are refused" }
        check("1000" in client.lastRefusal)
        hang.countDown()
        check(calls.first().wait())
        client.close()
        val stuck = opened(object : Storage by memory {
            override fun open() = Thread.sleep(5000).let { memory.open() }
        })
        val closing = System.nanoTime()
        stuck.close()
        check(System.nanoTime() - closing < 2_500_000_000L)
    }
    tests.test("a Turkish locale, Arabic digits and a default charset of ASCII change nothing") {
        val before = Locale.getDefault()
        same("I".lowercase(Locale.getDefault()) == "i", before.language != "tr")
        try {
            for (tag in listOf("tr-TR", "ar-EG-u-nu-arab", "hi-IN-u-nu-deva", "th-TH-u-ca-buddhist", "az-AZ")) {
                Locale.setDefault(Locale.forLanguageTag(tag))
                inFolder { folder ->
                    Witness().use { witness ->
                        val client = opened(FileStorage(folder), witness.url)
                        check(client.record("homepage", "TITLE I \u0130 \u0131 caf\u00e9 \u6771").wait() && client.flush(10.0).wait()) { client.lastError }
                        check(client.account().render().none { it in '\u0660'..'\u0669' })
                        same(client.account().counters["accepted:homepage"], 1L)
                        client.close()
                    }
                    val again = opened(FileStorage(folder))
                    same(again.account().metrics.getValue("homepage")!!.reports, 1, tag)
                    again.close()
                }
            }
        } finally {
            Locale.setDefault(before)
        }
    }
    tests.test("clocks of every year, and clocks that jump, throw nothing and lose nothing that was queued") {
        for (start in listOf(-1L, 0L, -365 * DAY, -62_135_596_800_000, Long.MIN_VALUE, Long.MAX_VALUE, 253_402_300_800_000)) {
            for ((metrics, name) in listOf(HOMEPAGE to "homepage", NUMBERS to "crashes", PLACES to "filter")) Witness().use { witness ->
                var now = start
                val client = opened(collector = witness.url, metrics = metrics, now = { now })
                for (step in listOf(0L, 8 * DAY, -3 * DAY, 400 * DAY, -1000 * DAY)) {
                    now = if (step > 0 && now > Long.MAX_VALUE - step || step < 0 && now < Long.MIN_VALUE - step) now else now + step
                    if (metrics == HOMEPAGE) client.record(name, "x") else if (metrics == NUMBERS) client.add(name) else client.recordLocation(name, 40.7, -74.0)
                    client.flush(5.0).wait()
                }
                val account = client.account()
                check(account.counters.keys.none { it.startsWith("not_recorded") || it.startsWith("dropped") }) { "$start $name $account ${client.lastRefusal}" }
                same(account.waiting, 0, "$start $name ${client.status}")
                check(witness.reports.all { it.day >= 0 })
                client.setConsent(false).wait()
                client.close()
            }
        }
    }
    tests.test("a zone that changes, and summer time, count each hour once") {
        val before = TimeZone.getDefault()
        try {
            for (zone in listOf("Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu", "Antarctica/Troll")) {
                TimeZone.setDefault(TimeZone.getTimeZone(zone))
                var now = 1_761_436_800_000L // 2025-10-26, when summer time ends in Europe
                val client = opened(metrics = PLACES, now = { now })
                repeat(60) {
                    check(client.recordLocation("filter", 40.7, -74.0).wait()) { "$zone ${client.lastRefusal}" }
                    now += 3_600_000
                }
                check(client.account().metrics.getValue("filter")!!.reports in 4..6)
                client.close()
            }
        } finally {
            TimeZone.setDefault(before)
        }
    }
    tests.test("two clients of one directory in a process: the second one waits, the first one continues") {
        inFolder { folder ->
            val one = opened(FileStorage(folder))
            check(one.record("homepage", "a").wait())
            val two = opened(FileStorage(java.io.File(folder, "../state")))
            check(!two.record("homepage", "a").wait() && two.status.condition == Condition.STATE_IN_USE) { two.status }
            check(!two.reset().wait())
            two.close()
            val other = javaProcess("rappor.telemetry.DeviceProcessKt", folder.path, "http://127.0.0.1:1", "1")
            Thread.sleep(600) // it must not get the directory, though another client of this process was closed
            check(one.record("homepage", "a").wait()) { one.lastRefusal }
            one.close()
            other.inputStream.bufferedReader().useLines { lines -> same(lines.take(2).toList(), listOf("open", "recorded")) }
            other.destroyForcibly().waitFor()
            val last = opened(FileStorage(folder)) // the lock of a killed process has ended
            same(last.account().waiting, 3)
            last.close()
        }
    }
    tests.test("a process that takes the directory because the lock was read is detected") {
        inFolder { folder ->
            val one = opened(FileStorage(folder))
            check(one.record("homepage", "a").wait())
            java.io.File(folder, "state.lock").readBytes() // as a backup inside the app: ends the lock of POSIX
            val other = javaProcess("rappor.telemetry.DeviceProcessKt", folder.path, "http://127.0.0.1:1", "1")
            other.inputStream.bufferedReader().useLines { lines -> same(lines.take(2).toList(), listOf("open", "recorded")) }
            check(!one.record("homepage", "a").wait() && one.status.condition == Condition.STATE_IN_USE) { one.status }
            other.destroyForcibly().waitFor()
            check(one.record("homepage", "a").wait()) { one.lastRefusal }
            same(one.account().waiting, 3)
            one.close()
        }
    }
    tests.test("threads that call at once, and are interrupted, lose nothing") {
        inFolder { folder ->
            val client = opened(FileStorage(folder))
            val results = Collections.synchronizedList(ArrayList<java.util.concurrent.Future<Boolean>>())
            val threads = List(8) { number ->
                thread {
                    repeat(50) { count ->
                        if (count % 10 == 0) Thread.currentThread().interrupt()
                        results.add(client.record("homepage", "v$number"))
                    }
                }
            }
            threads.forEach { it.join() }
            check(results.all { it.wait() }) { client.lastRefusal }
            same(client.account().waiting, 400)
            Thread.currentThread().interrupt()
            client.close()
            check(Thread.interrupted())
            val again = opened(FileStorage(folder))
            until { again.inspect().wait() != null } // an interrupted close does not wait
            same(again.account().waiting, 400)
            again.close()
        }
    }
    tests.test("what an app passes may throw: a log, a transport, a callback") {
        val client = opened(log = { throw IllegalStateException("log") }, transport = { throw IllegalStateException("transport") })
        check(!client.record("nowhere", "x").wait() && client.record("homepage", "x").wait())
        check(!client.flush(0.1).wait())
        until { client.status.condition == Condition.NOT_DELIVERED }
        client.record("homepage", "x").thenAccept { throw IllegalStateException("callback") }
        check(client.record("homepage", "y").wait())
        client.close()
        client.close()
    }
    tests.test("names such as constructor, and values such as NUL, are names and values") {
        val text = HOMEPAGE.replace("\"name\":\"homepage\"", "\"name\":\"constructor\"")
        val client = opened(metrics = sealed(Json.parse(text) as Map<*, *> - "digest"))
        for (value in listOf("", "\u0000", "{\"a\":1}", "\n", "\ufeffx", "\u202e", "a".repeat(2048))) check(client.record("constructor", value).wait()) { client.lastRefusal }
        client.close()
    }
    tests.test("a program that ends without close ends, and its queue is sent by the next one") {
        inFolder { folder ->
            val device = javaProcess("rappor.telemetry.DeviceProcessKt", folder.path, "http://127.0.0.1:1", "3", "leave")
            same(device.inputStream.bufferedReader().readLines(), listOf("open", "recorded", "recorded", "recorded", "leaving"))
            same(device.waitFor(), 0)
            val next = opened(FileStorage(folder))
            same(next.account().waiting, 3)
            next.close()
        }
    }
}
