package rappor.telemetry

import java.io.File
import java.util.Random

/** A disk that accepts nothing while `isFull`. */
private class FullDisk(private val disk: Storage) : Storage by disk {
    @Volatile var isFull = false

    private fun <T> unlessFull(act: () -> T): T =
        if (isFull) throw StateException(Condition.STATE_UNAVAILABLE, "the state cannot be used: No space left on device") else act()

    override fun write(changes: Map<String, String?>) = unlessFull { disk.write(changes) }

    override fun sync() = unlessFull { disk.sync() }

    override fun replace(documents: Map<String, String>) = unlessFull { disk.replace(documents) }

    override fun noteWithdrawal() = unlessFull { disk.noteWithdrawal() }
}

private fun texts(storage: MemoryStorage, act: (MutableMap<String, String?>) -> Unit) {
    val texts = HashMap<String, String?>(storage.open())
    val before = texts.keys.toSet()
    act(texts)
    storage.write((before - texts.keys).associateWith { null } + texts)
}

/** Bits that were flipped, documents that are not whole, and disks that are full. */
internal fun damageTests(tests: Tests) {
    tests.test("whatever bit of the journal is flipped, nothing is thrown and no secret stays") {
        inFolder { folder ->
            val first = opened(FileStorage(folder))
            repeat(3) { check(first.record("homepage", "v$it").wait()) }
            first.close()
            val files = folder.listFiles()!!.associateWith { it.readBytes() }
            val secret = secretIn(bytesOf(folder))
            val (random, seen) = Pair(Random(3), HashMap<Condition, Int>())
            repeat(150) { flip ->
                for ((file, bytes) in files) file.writeBytes(bytes)
                val journal = File(folder, "state.journal")
                val bytes = journal.readBytes()
                val at = random.nextInt(bytes.size)
                bytes[at] = (bytes[at].toInt() xor (1 shl random.nextInt(8))).toByte()
                journal.writeBytes(bytes)
                val client = opened(FileStorage(folder))
                client.record("homepage", "c").wait()
                client.inspect().wait()
                val condition = client.status.condition
                seen[condition] = (seen[condition] ?: 0) + 1
                check(client.setConsent(false).wait()) { "$flip ${client.status}" }
                same(client.status.condition, Condition.NO_CONSENT)
                check(secret.take(16) !in bytesOf(folder)) { "flip $flip" }
                client.close()
            }
            check((seen[Condition.STATE_CORRUPT] ?: 0) > 100) { seen }
        }
    }
    tests.test("a journal that is cut anywhere has all that was acknowledged before the cut") {
        inFolder { folder ->
            val first = opened(FileStorage(folder))
            repeat(5) { check(first.record("homepage", "v$it").wait()) }
            first.close()
            val journal = File(folder, "state.journal")
            val whole = journal.readBytes()
            var before = 0
            for (cut in whole.size downTo 0 step 97) {
                journal.writeBytes(whole.copyOf(cut))
                File(folder, "state.witness").writeText("1\n")
                val client = opened(FileStorage(folder))
                val account = client.inspect().wait()
                check(client.status.condition in listOf(Condition.ACTIVE, Condition.STATE_MISSING)) { "$cut ${client.status}" }
                if (cut == whole.size) before = account!!.waiting
                check((account?.waiting ?: 0) <= before)
                client.close()
            }
            same(before, 5)
        }
    }
    tests.test("a line that is damaged closes its metric, others continue, and a withdrawal wipes all the same") {
        val wrong = listOf("", "null", "{}", "[]", "7", "{\"agreed\":null}", "{\"agreed\":{},\"entries\":{\"a\":null}}", "\ud800", "{".repeat(500))
        for (text in wrong) {
            val storage = MemoryStorage()
            opened(storage).apply { check(record("homepage", "x").wait()) }.close()
            texts(storage) { it["line/homepage"] = text }
            val client = opened(storage)
            check(!client.record("homepage", "y").wait() && "damaged" in client.lastRefusal) { "$text ${client.lastRefusal}" }
            same(client.account().metrics, mapOf<String, MetricAccount?>("homepage" to null))
            check(client.setConsent(false).wait())
            check(storage.open().keys.none { it.startsWith("queue/") })
            check(client.setConsent(true).wait() && !client.record("homepage", "y").wait()) { text }
            client.close()
        }
    }
    tests.test("a device that is damaged is used no more, and starts over by reset alone") {
        val storage = MemoryStorage()
        opened(storage).apply { check(record("homepage", "x").wait()) }.close()
        val device = storage.open().getValue("device")
        val whole = Json.parse(device) as Map<*, *>
        val wrong = listOf("null", "{}", device.drop(1)) + listOf(
            "version" to 2.0, "committed" to null, "counters" to mapOf("a" to null), "next" to "1", "waiting" to -1.0,
            "secret" to "00".repeat(32), "secret" to "zz", "stops" to mapOf("a" to 1.0), "budget" to "x",
        ).map { Json.write(whole + it) }
        for (text in wrong) {
            texts(storage) { it["device"] = text }
            val client = opened(storage)
            check(!client.record("homepage", "x").wait()) { text }
            same(client.status.condition, Condition.STATE_CORRUPT, text)
            client.setConsent(false).wait()
            same(client.status.condition, Condition.NO_CONSENT)
            check(whole["secret"].toString() !in storage.open().toString())
            client.setConsent(true).wait()
            same(client.status.condition, Condition.STATE_CORRUPT, text)
            check(client.reset().wait() && client.record("homepage", "x").wait())
            client.close()
        }
    }
    tests.test("what is damaged of the queue is dropped and counted, and the rest is delivered") {
        for (prefix in listOf("queue/", "batch/")) for (text in listOf("null", "{}", "{\"metric\":\"homepage\"}", "x")) {
            Witness().use { witness ->
                val storage = MemoryStorage()
                val offline = opened(storage, delivery = FAST.copy(batchReports = 2))
                repeat(6) { check(offline.record("homepage", "x").wait()) }
                if (prefix == "batch/") until { offline.flush(0.1).wait() || offline.account().batches == 3 }
                offline.close()
                texts(storage) { texts -> texts[texts.keys.first { it.startsWith(prefix) }] = text }
                val client = opened(storage, witness.url)
                check(!client.flush(5.0).wait()) { "not all of it was delivered" }
                check(client.flush(5.0).wait())
                val account = client.account()
                check((account.counters["dropped:damaged"] ?: 0) >= 1 && witness.reports.size >= 4) { account }
                same(account.batches, 0)
                client.close()
            }
        }
    }
    tests.test("what a period had so far is damaged: the metric starts its period over") {
        for ((metrics, name) in listOf(NUMBERS to "crashes", PLACES to "filter")) for (note in listOf("{", "{}", "{\"of\":[\"DAY\"],\"used\":[1]}", "[]", "{\"of\":[\"DAY\",1]}")) {
            val storage = MemoryStorage()
            fun record(client: RapporClient) = if (metrics == NUMBERS) client.add(name).wait() else client.recordLocation(name, 40.7, -74.0).wait()
            opened(storage, metrics = metrics).apply { check(record(this)) { lastRefusal } }.close()
            val key = "line/$name"
            texts(storage) { it[key] = Json.write(Json.parse(it[key]!!) as Map<*, *> + ("note" to note)) }
            val client = opened(storage, metrics = metrics)
            check(record(client)) { "$note ${client.lastRefusal}" }
            check(client.setConsent(false).wait())
            client.close()
        }
    }
    tests.test("on a full disk nothing is recorded, and recording continues when there is room") {
        inFolder { folder ->
            val disk = FullDisk(FileStorage(folder))
            val client = opened(disk)
            check(client.record("homepage", "a").wait())
            disk.isFull = true
            check(!client.record("homepage", "b").wait() && "No space" in client.lastRefusal) { client.lastRefusal }
            same(client.status.condition, Condition.STATE_UNAVAILABLE)
            check(!client.flush(0.2).wait())
            disk.isFull = false
            check(client.record("homepage", "b").wait()) { client.lastRefusal }
            same(client.account().waiting, 2)
            client.close()
        }
    }
    tests.test("a withdrawal on a full disk overwrites and deletes the state: no secret stays") {
        inFolder { folder ->
            val disk = FullDisk(FileStorage(folder))
            val client = opened(disk)
            check(client.record("homepage", "a").wait())
            val secret = secretIn(bytesOf(folder))
            disk.isFull = true
            check(client.setConsent(false).wait()) { client.status }
            check(secret.take(16) !in bytesOf(folder))
            disk.isFull = false
            check(!client.setConsent(true).wait())
            same(client.status.condition, Condition.STATE_MISSING)
            check(client.reset().wait() && client.record("homepage", "a").wait())
            client.close()
        }
    }
    tests.test("a first start on a full disk is unavailable, and continues when there is room") {
        val disk = FullDisk(MemoryStorage()).apply { isFull = true }
        val client = opened(disk)
        check(!client.record("homepage", "a").wait())
        same(client.status.condition, Condition.STATE_UNAVAILABLE)
        disk.isFull = false
        check(client.record("homepage", "a").wait())
        client.close()
    }
    tests.test("a directory that anybody can write to is neither used nor changed") {
        inFolder { folder ->
            folder.mkdirs()
            folder.setWritable(true, false)
            val client = opened(FileStorage(folder))
            check(!client.record("homepage", "a").wait() && "anybody can write" in client.lastRefusal) { client.lastRefusal }
            same(folder.list()!!.size, 0)
            folder.setWritable(false, false)
            folder.setWritable(true, true)
            check(client.record("homepage", "a").wait()) { client.lastRefusal }
            client.close()
        }
    }
    tests.test("a folder that cannot be made is unavailable") {
        inFolder { folder ->
            folder.writeText("a file")
            val client = opened(FileStorage(folder))
            check(!client.record("homepage", "a").wait())
            same(client.status.condition, Condition.STATE_UNAVAILABLE)
            client.close()
        }
    }
}
