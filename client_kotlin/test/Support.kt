package rappor.telemetry

import java.io.ByteArrayInputStream
import java.io.DataInputStream
import java.io.File
import java.io.InputStream
import java.net.InetAddress
import java.net.ServerSocket
import java.net.Socket
import java.nio.file.Files
import java.security.MessageDigest
import java.util.Base64
import java.util.Collections
import java.util.concurrent.Future
import java.util.concurrent.TimeUnit.SECONDS
import java.util.zip.GZIPInputStream
import javax.net.ssl.SSLContext
import kotlin.concurrent.thread

/** A metric of strings that accepts as many reports as a test makes. */
internal val HOMEPAGE: String by lazy {
    val row = vectors("compiled")["good"]["metrics"]["document"]["metrics"].rows.first { it["definition"]["name"].text == "homepage" }
    val many = mapOf("max_memoized_values" to 1e6, "max_reports_per_period" to 10_000.0)
    sealed(mapOf("version" to 1.0, "budget" to null, "metrics" to listOf(changed(row.json, listOf("definition"), row["definition"].json as Map<*, *> + many))))
}
internal val NUMBERS: String by lazy { sealed(vectors("numbers")["metrics"]["document"].json) }
internal val PLACES: String by lazy { sealed(vectors("compiled")["good"]["places"]["document"].json) }

/** A request that reached a server. */
internal class Received(val head: String, val body: ByteArray) {
    private val plain = if ("gzip" in head) GZIPInputStream(ByteArrayInputStream(body)).readBytes() else body
    val id: String = plain.copyOfRange(5, 21).toHex()

    /** Metric, day and bits of each report. */
    val reports: List<QueuedReport> = DataInputStream(ByteArrayInputStream(plain, 21, plain.size)).use { data ->
        (0 until data.readUnsignedShort()).flatMap {
            val name = ByteArray(data.readUnsignedByte()).also(data::readFully).decodeToString()
            val paramsId = ByteArray(16).also(data::readFully).toHex()
            val (day, size, rows) = Triple(data.readInt(), data.readUnsignedShort(), data.readInt())
            List(rows) {
                val cohort = data.readUnsignedShort()
                QueuedReport(name, paramsId, cohort, day, Base64.getEncoder().encodeToString(ByteArray(size).also(data::readFully)))
            }
        }
    }

    val accepted: String get() = answered(reports.map { "{\"status\":\"accepted\"}" })

    fun refused(reason: String): String = answered(reports.map { "{\"status\":\"refused\",\"reason\":\"$reason\"}" })

    private fun answered(results: List<String>) = response(
        200, "{\"version\":1,\"batch_id\":\"$id\",\"duplicate\":false,\"results\":[${results.joinToString(",")}]}",
    )

    fun problem(status: Int): String {
        val digest = MessageDigest.getInstance("SHA-256").digest(body).toHex()
        val text = "{\"type\":\"urn:rappor-telemetry:problem:x\",\"status\":$status,\"body_sha256\":\"$digest\"}"
        return response(status, text, "application/problem+json; charset=utf-8")
    }
}

internal fun response(status: Int, text: String, type: String = "application/json", more: String = ""): String =
    "HTTP/1.1 $status X\r\nContent-Type: $type\r\n${more}Content-Length: ${text.toByteArray().size}\r\nConnection: close\r\n\r\n$text"

/** What an answer ends with whose server then sends one byte after the other, for ever. */
internal const val DRIP = "\u0001"

/** What an answer ends with whose server then sends nothing more, and keeps the connection. */
internal const val HANG = "\u0002"

private val LOOPBACK_ADDRESS = InetAddress.getByName("127.0.0.1")

/** A server on loopback that answers what a test wants; null: never. tls: by which it encrypts. */
internal class Witness(tls: SSLContext? = null, private val answer: (Received) -> String? = { it.accepted }) : AutoCloseable {
    val received: MutableList<Received> = Collections.synchronizedList(ArrayList())

    /** Bytes of requests that arrived, whole or not. */
    @Volatile var numBytes = 0L

    @Volatile var connections = 0
    private val server =
        tls?.serverSocketFactory?.createServerSocket(0, 50, LOOPBACK_ADDRESS) ?: ServerSocket(0, 50, LOOPBACK_ADDRESS)
    private val open: MutableList<Socket> = Collections.synchronizedList(ArrayList())
    val url = "${if (tls == null) "http" else "https"}://127.0.0.1:${server.localPort}"
    val reports: List<QueuedReport> get() = synchronized(received) { received.flatMap { it.reports } }

    init {
        thread(isDaemon = true) {
            while (!server.isClosed) {
                val socket = try {
                    server.accept()
                } catch (error: java.io.IOException) {
                    break
                }
                open.add(socket)
                connections++
                thread(isDaemon = true) { quietly { serve(socket) } }
            }
        }
    }

    private fun serve(socket: Socket): Unit = socket.use {
        val input = socket.getInputStream()
        val head = StringBuilder()
        while (!head.endsWith("\r\n\r\n")) head.append(next(input).toChar())
        val size = Regex("(?i)content-length: (\\d+)").find(head)!!.groupValues[1].toInt()
        val one = Received(head.toString(), ByteArray(size) { next(input).toByte() })
        received.add(one)
        val text = answer(one)
        if (text != null) socket.getOutputStream().write(text.removeSuffix(DRIP).removeSuffix(HANG).toByteArray())
        if (text == null || text.endsWith(HANG)) next(input)
        while (text?.endsWith(DRIP) == true) {
            socket.getOutputStream().write(' '.code)
            Thread.sleep(20)
        }
    }

    private fun next(input: InputStream): Int = input.read().also {
        if (it < 0) throw java.io.EOFException()
        numBytes++
    }

    private fun quietly(act: () -> Unit) = try {
        act()
    } catch (error: java.io.IOException) {
        // The client went away.
    }

    /** Returns when all that had left a client before is counted. */
    fun settle() {
        val accepted = connections
        Socket(server.inetAddress, server.localPort).use { until { connections > accepted } }
        var (before, quiet) = Pair(-1L, 0)
        until {
            val isRead = synchronized(open) { open.all(::isRead) }
            quiet = if (isRead && numBytes == before) quiet + 1 else 0
            before = numBytes
            quiet > 1
        }
        connections--
    }

    private fun isRead(socket: Socket): Boolean = try {
        socket.isClosed || socket.getInputStream().available() == 0
    } catch (error: java.io.IOException) {
        true // closed at this moment
    }

    override fun close() {
        server.close()
        synchronized(open) { open.toList() }.forEach { it.close() }
    }
}

internal val OFFLINE = Transport { throw java.io.IOException("offline") }
internal val FAST = Delivery(meanDelay = 3600.0, firstPause = 0.001, longestPause = 0.01)

/** A client for a test. now: milliseconds since 1970. */
internal fun opened(
    storage: Storage = MemoryStorage(),
    collector: String = "http://127.0.0.1:1",
    metrics: String = HOMEPAGE,
    consent: Boolean = true,
    delivery: Delivery = FAST,
    transport: Transport? = OFFLINE.takeIf { collector.endsWith(":1") },
    level: PrivacyLevel = PrivacyLevel.STANDARD,
    doNotTrack: Boolean = false,
    log: (String) -> Unit = {},
    now: () -> Long = System::currentTimeMillis,
): RapporClient = RapporClient.open(
    metrics, storage, collector, consent,
    Options(delivery = delivery, transport = transport, clock = now, privacyLevel = level, doNotTrack = { doNotTrack }, log = log),
)

internal fun <T> Future<T>.wait(): T = get(30, SECONDS)

internal fun RapporClient.account(): DeviceAccount = inspect().wait() ?: throw AssertionError("no account: ${status.sentence}")

internal fun <T> inFolder(act: (File) -> T): T {
    val folder = Files.createTempDirectory("rappor-kotlin-").toFile()
    return try {
        act(File(folder, "state"))
    } finally {
        folder.deleteRecursively()
    }
}

internal fun bytesOf(folder: File): String = // but the lock, which reading would end
    folder.walk().filter { it.isFile && it.name != "state.lock" }.joinToString("") { it.readBytes().toString(Charsets.ISO_8859_1) }

internal fun secretIn(text: String): String = Regex("secret\\\\*\":\\\\*\"([0-9a-f]{64})").find(text)!!.groupValues[1]

internal fun until(seconds: Int = 20, what: () -> Any = { "" }, isDone: () -> Boolean) {
    val end = System.nanoTime() + seconds * 1_000_000_000L
    while (!isDone()) {
        if (System.nanoTime() > end) throw AssertionError("not within $seconds s: ${what()}")
        Thread.sleep(2)
    }
}

/** A program of this class path in a process of its own. */
internal fun javaProcess(main: String, vararg arguments: String): Process =
    ProcessBuilder(
        listOf(System.getProperty("java.home") + "/bin/java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path")) +
            listOf("-Drappor.root=$ROOT", main) + arguments,
    ).redirectError(ProcessBuilder.Redirect.INHERIT).start()
