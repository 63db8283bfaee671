package rappor.telemetry

import java.net.CookieHandler
import java.net.CookieManager
import java.net.HttpCookie
import java.net.URI
import java.security.KeyStore
import java.util.Collections
import javax.net.ssl.HttpsURLConnection
import javax.net.ssl.KeyManagerFactory
import javax.net.ssl.SSLContext
import javax.net.ssl.TrustManagerFactory

/** A context with a fresh certificate of 127.0.0.1, which trusts it. */
private fun tlsOfLoopback(): SSLContext = inFolder { file ->
    val words = "-genkeypair -alias a -keyalg EC -dname CN=x -ext san=ip:127.0.0.1 -storepass password -storetype PKCS12 -keystore"
    val keytool = listOf(System.getProperty("java.home") + "/bin/keytool") + words.split(" ") + file.path
    check(ProcessBuilder(keytool).redirectErrorStream(true).start().waitFor() == 0)
    val store = KeyStore.getInstance(file, "password".toCharArray())
    val keys = KeyManagerFactory.getInstance("SunX509").apply { init(store, "password".toCharArray()) }
    val certificates = KeyStore.getInstance("PKCS12").apply {
        load(null)
        setCertificateEntry("a", store.getCertificate("a"))
    }
    val trusted = TrustManagerFactory.getInstance("PKIX").apply { init(certificates) }
    SSLContext.getInstance("TLS").apply { init(keys.keyManagers, trusted.trustManagers, null) }
}

/** How batches leave, and what answers end them. */
internal fun deliveryTests(tests: Tests) {
    tests.test("the head of a request has these headers and no others") {
        Witness().use { witness ->
            val client = RapporClient.open(HOMEPAGE, MemoryStorage(), witness.url, true, Options(key = "rk_report_x", delivery = FAST, doNotTrack = { false }))
            check(client.record("homepage", "x").wait() && client.flush(5.0).wait()) { client.lastError }
            client.close()
            val lines = witness.received[0].head.trim().lines()
            same(lines[0], "POST /v1/reports HTTP/1.1")
            val found = lines.drop(1).associate { it.substringBefore(':') to it.substringAfter(": ") }
            val wanted = mapOf(
                "User-Agent" to "rappor/1", "Accept" to "*/*", "Accept-Encoding" to "identity", "Connection" to "close",
                "Content-Type" to "application/vnd.rappor.batch", "Content-Encoding" to "gzip", "Authorization" to "Bearer rk_report_x",
                "Host" to witness.url.removePrefix("http://"), "Content-Length" to "256",
            )
            same(found.toSortedMap().toString(), wanted.toSortedMap().toString())
        }
    }
    tests.test("nothing is sent before what it depends on would survive a loss of power") {
        val (log, memory) = Pair(Collections.synchronizedList(ArrayList<String>()), MemoryStorage())
        val storage = object : Storage by memory {
            override fun write(changes: Map<String, String?>) = memory.write(changes).also { log.add("write") }

            override fun sync() = memory.sync().also { log.add("sync") }
        }
        val client = opened(storage, transport = { log.add("send").let { throw java.io.IOException("offline") } })
        repeat(3) {
            check(client.record("homepage", "v$it").wait())
            client.flush(0.1).wait()
        }
        val sent = log.indices.filter { log[it] == "send" }
        check(sent.size >= 3 && sent.all { log[it - 1] == "sync" }) { log }
        client.close()
    }
    tests.test("cookies of the app are not sent: the batch waits, and the status gives the reason") {
        Witness().use { witness ->
            val cookies = CookieManager()
            CookieHandler.setDefault(cookies)
            try {
                cookies.cookieStore.add(URI(witness.url), HttpCookie("user", "ada").apply { path = "/"; version = 0 })
                val client = opened(collector = witness.url)
                check(client.record("homepage", "x").wait() && !client.flush(0.3).wait())
                check("CookieHandler" in client.status.sentence) { client.status }
                same(witness.connections, 0)
                cookies.cookieStore.removeAll()
                check(client.flush(5.0).wait()) { client.lastError }
                client.close()
            } finally {
                CookieHandler.setDefault(null)
            }
        }
    }
    tests.test("only the collector's own answer about this very batch ends it") {
        var answer: (Received) -> String? = { it.accepted }
        Witness { answer(it) }.use { witness ->
            val storage = MemoryStorage()
            val client = opened(storage, witness.url, delivery = FAST.copy(timeout = 0.2))
            check(client.record("homepage", "x").wait())
            val strange: List<(Received) -> String?> = listOf(
                { response(200, "<html>hello</html>", "text/html") }, { response(200, "{}") }, { it.accepted.replace(it.id, "0".repeat(32)) },
                { it.accepted.replace("\"version\":1", "\"version\":2") }, { it.accepted.replace("accepted", "?") },
                { response(200, "[".repeat(10_000)) }, { response(302, "", more = "Location: ${witness.url}/x\r\n") },
                { response(400, "{}") }, { response(409, "no", "text/plain") }, { it.problem(400).replace("body_sha256\":\"", "body_sha256\":\"0") },
                { it.problem(401) }, { response(403, "") }, { response(404, "") }, { response(407, "") }, { it.problem(429) }, { it.problem(500) },
                { response(503, "", more = "Retry-After: 0\r\n") }, { "garbage\r\n\r\n" }, { "" }, { "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{" }, { null },
                { response(101, "") }, { response(204, "") }, { response(999, "") },
            )
            var connections = 0
            for ((number, other) in strange.withIndex()) {
                answer = other
                until(what = { "$number ${client.status}" }) {
                    check(!client.flush(0.05).wait()) { number }
                    witness.connections > connections
                }
                connections = witness.connections
                same(client.account().waiting, 1, number)
            }
            answer = { it.problem(401) }
            client.flush(0.05).wait()
            until { client.status.condition == Condition.KEY_REFUSED }
            answer = { it.accepted }
            check(client.flush(5.0).wait()) { client.lastError }
            val bodies = witness.received.map { it.body.toHex() }.toSet()
            same(bodies.size, 1, "the same bytes are sent again")
            same(client.status.condition, Condition.ACTIVE)
            for (status in listOf(400, 409, 415, 422)) {
                answer = { it.problem(status) }
                check(client.record("homepage", "y").wait() && !client.flush(5.0).wait())
                same(client.account().waiting, 0, status)
            }
            same(client.account().counters["dropped:http_400:homepage"], 1L, client.account().counters)
            client.close()
        }
    }
    tests.test("413 splits a batch in two, down to single reports, and drops nothing") {
        Witness { if (it.reports.size > 1) it.problem(413) else it.accepted }.use { witness ->
            val client = opened(collector = witness.url)
            repeat(9) { check(client.record("homepage", "x").wait()) }
            check(client.flush(20.0).wait()) { client.lastError }
            val ids = witness.received.map { it.id }
            same(ids.size, ids.toSet().size)
            same(client.account().counters["accepted:homepage"], 9L)
            client.close()
        }
    }
    tests.test("over https a certificate that nobody vouches for gets nothing, and one that is trusted gets the batch") {
        val tls = tlsOfLoopback()
        val before = HttpsURLConnection.getDefaultSSLSocketFactory()
        Witness(tls).use { witness ->
            val client = opened(collector = witness.url)
            check(client.record("homepage", "x").wait() && !client.flush(0.5).wait())
            until { client.status.condition == Condition.NOT_DELIVERED }
            check("SSLHandshakeException" in client.status.sentence) { client.status }
            same(witness.numBytes, 0L)
            try {
                HttpsURLConnection.setDefaultSSLSocketFactory(tls.socketFactory)
                check(client.flush(10.0).wait()) { client.lastError }
            } finally {
                HttpsURLConnection.setDefaultSSLSocketFactory(before)
            }
            same(witness.reports.size, 1)
            client.close()
        }
    }
    tests.test("one deadline holds for a whole exchange, also where the answer drips") {
        Witness { "HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n$DRIP" }.use { witness ->
            val client = opened(collector = witness.url, delivery = FAST.copy(timeout = 0.3))
            check(client.record("homepage", "x").wait())
            val begun = System.nanoTime()
            check(!client.flush(0.1).wait())
            check(System.nanoTime() - begun < 1_000_000_000L)
            until(3) { client.status.condition == Condition.NOT_DELIVERED }
            client.close()
        }
    }
    tests.test("batches of 1 to 100 reports have few sizes, one metric each, sorted by content") {
        Witness().use { witness ->
            val sizes = HashSet<Int>()
            val client = opened(collector = witness.url)
            for (number in listOf(1, 2, 20, 50, 100, 101)) {
                repeat(number) { check(client.record("homepage", "v$it").wait()) }
                check(client.flush(20.0).wait())
            }
            for (one in witness.received) {
                sizes.add(one.body.size)
                same(one.reports, sortedByContent(one.reports))
                check(one.reports.size <= 100)
            }
            check(sizes.all { it % 256 == 0 } && sizes.size <= 8) { sizes }
            client.close()
        }
    }
    tests.test("past the bounds the oldest wait no more, counted") {
        var now = 20_500 * 86_400_000L
        val client = opened(delivery = FAST.copy(maxQueued = 3, batchReports = 1), now = { now })
        repeat(5) {
            check(client.record("homepage", "x").wait())
            now += 86_400_000
        }
        check(!client.flush(0.3).wait())
        until { client.account().counters["dropped:queue_full"] == 2L }
        now += 95L * 86_400_000
        until {
            client.flush(0.2).wait()
            client.account().counters["dropped:too_old:homepage"] == 3L || client.account().counters["dropped:too_old"] == 3L
        }
        same(client.account().waiting, 0)
        client.close()
        val silent = opened(delivery = FAST.copy(maxQueued = 300, isAutomatic = false))
        repeat(1000) { check(silent.record("homepage", "x").wait()) }
        check(silent.account().waiting <= 550) { silent.account() } // though nothing ever asked for sending
        silent.close()
    }
    tests.test("the delay is geometric, redrawn after a start, and not longer than ten times its mean") {
        val secure = java.security.SecureRandom()
        val delays = List(20_000) { geometricDelay(600.0) { number -> ByteArray(number).also(secure::nextBytes) } }
        val mean = delays.average()
        check(Math.abs(mean - 600) < 4.9 * 600 / Math.sqrt(20_000.0)) { mean } // 1 in a million; a mean off by 10 % fails
        check(delays.all { it > 0 && it <= 6000 })
        var now = 20_500 * 86_400_000L
        val storage = MemoryStorage()
        val delivery = FAST.copy(meanDelay = 600.0)
        fun sendAt() = (Json.parse(storage.open().getValue("device")) as Map<*, *>)["sendAt"] as Double
        opened(storage, delivery = delivery, now = { now }).apply { check(record("homepage", "x").wait()) }.close()
        val first = sendAt()
        now += 86_400_000 // over while the app was closed
        opened(storage, delivery = delivery, now = { now }).apply { account() }.close()
        check(sendAt() != first && sendAt() > now / 1000.0)
        now -= 30L * 86_400_000 // the clock was set
        opened(storage, delivery = delivery, now = { now }).apply { account() }.close()
        check(sendAt() <= now / 1000.0 + 6000)
    }
}
