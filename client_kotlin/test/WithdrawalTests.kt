package rappor.telemetry

import java.io.File
import java.util.Random
import java.util.concurrent.locks.LockSupport

private val MOMENTS = Integer.getInteger("rappor.moments", 100)

/** Nothing leaves once a withdrawal is complete, whatever was being done, and no secret stays in the files. */
internal fun withdrawalTests(tests: Tests) {
    for (way in listOf("withdrawal", "close")) tests.test("nothing is sent after a $way, at $MOMENTS random moments") {
        val random = Random(7)
        var aborted = 0
        for (moment in 0 until MOMENTS / if (way == "close") 4 else 1) {
            Witness { Thread.sleep(random.nextInt(3).toLong()).let { _ -> it.accepted } }.use { witness ->
                val delivery = FAST.copy(batchReports = 1, meanDelay = if (moment % 2 == 0) 0.0 else 3600.0)
                val client = opened(MemoryStorage(), witness.url, delivery = delivery)
                repeat(6) { client.record("homepage", "x") }
                val flushed = if (moment % 2 == 0) null else client.flush(20.0)
                LockSupport.parkNanos(random.nextInt(12_000_000).toLong())
                if (way == "close") client.close() else check(client.setConsent(false).wait()) { client.status }
                witness.settle()
                val (bytes, connections) = Pair(witness.numBytes, witness.connections)
                if (witness.reports.size < 6) aborted++
                if (flushed?.wait() == true) same(witness.reports.size, 6) // by then all was delivered
                Thread.sleep(10)
                same(Pair(witness.numBytes, witness.connections), Pair(bytes, connections), "moment $moment")
                client.close()
            }
        }
        check(aborted > 3) { "only $aborted were in time" }
    }
    for (answer in listOf(null, "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{$HANG", "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{$DRIP", "HTTP/1.1 2$HANG")) {
        tests.test("a withdrawal while a server hangs does not wait for it, after ${answer?.length ?: 0} characters of an answer") { hang(answer) }
    }
    tests.test("a withdrawal while a handshake hangs has nothing of a request sent") {
        Witness().use { silent -> // it reads, and waits for a head that never comes
            val client = opened(collector = silent.url.replace("http:", "https:"))
            check(client.record("homepage", "x").wait())
            val flushed = client.flush(20.0)
            until { silent.numBytes > 0 }
            val begun = System.nanoTime()
            check(client.setConsent(false).wait())
            check(System.nanoTime() - begun < 1_500_000_000L)
            silent.settle()
            val (bytes, connections) = Pair(silent.numBytes, silent.connections)
            check(!flushed.wait())
            Thread.sleep(50)
            same(Pair(silent.numBytes, silent.connections), Pair(bytes, connections))
            check(bytes < 1000 && silent.received.isEmpty()) { bytes } // a greeting of TLS
            client.close()
        }
    }
    tests.test("what is recorded and withdrawn again and again never leaves without consent") {
        Witness().use { witness ->
            val client = opened(collector = witness.url, delivery = FAST.copy(meanDelay = 0.0))
            repeat(200) {
                val recorded = client.record("homepage", "x")
                val consent = it % 2 == 1
                client.setConsent(consent)
                if (!consent) recorded.wait()
            }
            check(client.setConsent(false).wait())
            witness.settle()
            val bytes = witness.numBytes
            Thread.sleep(20)
            same(witness.numBytes, bytes)
            client.close()
        }
    }
    tests.test("a withdrawal in a second process is done by the one that has the state, and before anything else") {
        inFolder { folder ->
            val one = opened(FileStorage(folder))
            check(one.record("homepage", "a").wait())
            val secret = secretIn(bytesOf(folder))
            val other = javaProcess("rappor.telemetry.DeviceProcessKt", folder.path, "http://127.0.0.1:1", "0", "withdraw")
            same(other.inputStream.bufferedReader().readText().trim(), "false: nothing is recorded: consent is withdrawn, but the state could not be wiped yet: another process, or another client, uses the state")
            check(!one.record("homepage", "b").wait())
            same(one.status.condition, Condition.NO_CONSENT)
            check(secret.take(16) !in bytesOf(folder) && !File(folder, "state.withdrawal").exists())
            check(one.setConsent(true).wait() && one.record("homepage", "b").wait()) { one.lastRefusal }
            one.close()
        }
    }
    tests.test("a withdrawal that was noted is finished at the next start, with consent or without") {
        for (consent in listOf(true, false)) inFolder { folder ->
            Witness().use { witness ->
                opened(FileStorage(folder)).apply { check(record("homepage", "a").wait()) }.close()
                val secret = secretIn(bytesOf(folder))
                File(folder, "state.withdrawal").createNewFile()
                val next = opened(FileStorage(folder), witness.url, consent = consent)
                check(next.flush(2.0).wait())
                check(secret.take(16) !in bytesOf(folder))
                same(next.status.condition, if (consent) Condition.ACTIVE else Condition.NO_CONSENT)
                same(witness.reports.size, 0)
                next.close()
            }
        }
    }
    tests.test("a state that was moved away is not called wiped, and no second secret is drawn") {
        inFolder { folder ->
            val client = opened(FileStorage(folder))
            check(client.record("homepage", "a").wait())
            val moved = File(folder.parentFile, "moved")
            check(folder.renameTo(moved))
            check(!client.record("homepage", "b").wait())
            check(!client.setConsent(false).wait() && "moved or deleted" in client.status.sentence) { client.status }
            client.close()
        }
    }
}

/** A server sends some of an answer and hangs, or drips: a withdrawal, a close and a record do not wait for it. */
private fun hang(answer: String?) = Witness { answer }.use { witness ->
    for (way in 0..1) {
        val client = opened(collector = witness.url)
        check(client.record("homepage", "x").wait())
        val flushed = client.flush(20.0)
        until { witness.received.size == way + 1 }
        Thread.sleep(20) // it reads the answer
        val begun = System.nanoTime()
        check(client.record("homepage", "y").wait())
        if (way == 0) check(client.setConsent(false).wait()) else client.close()
        check(System.nanoTime() - begun < 1_900_000_000L) { (System.nanoTime() - begun) / 1e9 }
        check(!flushed.wait())
        client.close()
    }
}
