package rappor.telemetry

import java.io.ByteArrayOutputStream
import java.io.IOException
import java.io.InputStream
import java.net.CookieHandler
import java.net.HttpURLConnection
import java.net.URI
import java.net.URISyntaxException
import java.util.zip.GZIPInputStream

private const val MAX_ANSWER = 4 shl 20
private val LOOPBACK = Regex("localhost|\\[::1]|127\\.[0-9]+\\.[0-9]+\\.[0-9]+")

/** A batch to be sent. */
public class Request internal constructor(
    /** The bytes of the body. */
    public val body: ByteArray,
    /** The media type of the batch. */
    public val contentType: String,
    /** `gzip`, or empty. */
    public val encoding: String,
    /** Seconds for the whole exchange. */
    public val timeout: Double,
) {
    private var action: (() -> Unit)? = null

    /** Whether nothing may leave any more: consent was withdrawn, the client was closed, or the time is over. */
    @Volatile
    public var isAborted: Boolean = false
        private set

    /** Runs an action, on a separate thread, when the request is aborted, or now if it was. A later action replaces it. */
    public fun onAbort(action: () -> Unit) {
        synchronized(this) { this.action = action }
        if (isAborted) action()
    }

    /** Never waits: to disconnect may wait for a thread that reads, and that one for a server. */
    internal fun abort() {
        isAborted = true
        synchronized(this) { action }?.let { act -> Thread(act, "rappor-telemetry-abort").apply { isDaemon = true }.start() }
    }
}

/** What came back from a collector. */
public class Response(
    /** The status of HTTP. */
    public val status: Int,
    /** The header Content-Type, or empty. */
    public val contentType: String,
    /** The header Retry-After, or empty. */
    public val retryAfter: String,
    /** The body. */
    public val text: String,
)

/** Sends batches. */
public fun interface Transport {
    /**
     * Sends one batch and waits for its answer. Nothing leaves once the request is aborted.
     *
     * @throws IOException if nothing came back.
     */
    @Throws(IOException::class)
    public fun send(request: Request): Response
}

/** Sends batches by `HttpURLConnection`: a connection for each, by which no two can be linked, and no cookies. */
internal class HttpTransport(private val url: URI, private val key: String?) : Transport {
    override fun send(request: Request): Response {
        refuseCookies()
        val connection = url.toURL().openConnection() as HttpURLConnection
        request.onAbort { connection.disconnect() }
        try {
            prepare(connection, request)
            connection.connect()
            if (request.isAborted) throw IOException("aborted")
            connection.outputStream.use { it.write(request.body) }
            val status = connection.responseCode
            if (status < 0) throw IOException("no answer of HTTP")
            val stream = connection.errorStream ?: if (status < 400) connection.inputStream else null
            val isGzip = connection.contentEncoding == "gzip" // from a gateway, unasked
            return Response(
                status, connection.contentType.orEmpty(), connection.getHeaderField("Retry-After").orEmpty(),
                stream?.use { textOf(if (isGzip) GZIPInputStream(it) else it, request) }.orEmpty(),
            )
        } finally {
            connection.disconnect()
        }
    }

    private fun prepare(connection: HttpURLConnection, request: Request) {
        connection.requestMethod = "POST"
        connection.doOutput = true
        connection.instanceFollowRedirects = false
        connection.connectTimeout = millis(request.timeout)
        connection.readTimeout = millis(request.timeout)
        connection.setFixedLengthStreamingMode(request.body.size) // which also is never sent twice by the platform
        connection.setRequestProperty("User-Agent", "rappor/1") // the platform's names the device
        connection.setRequestProperty("Accept", "*/*")
        connection.setRequestProperty("Accept-Encoding", "identity")
        connection.setRequestProperty("Connection", "close")
        connection.setRequestProperty("Content-Type", request.contentType)
        if (request.encoding.isNotEmpty()) connection.setRequestProperty("Content-Encoding", request.encoding)
        if (key != null) connection.setRequestProperty("Authorization", "Bearer $key")
    }

    /** A cookie handler of the app would add its cookies, which identify the person; the platform cannot leave them out. */
    private fun refuseCookies() {
        val headers = CookieHandler.getDefault()?.get(url, emptyMap()).orEmpty()
        if (headers.values.any { !it.isNullOrEmpty() }) {
            throw IOException("the app's CookieHandler has cookies for the collector's address; use another host for it")
        }
    }

    private fun millis(seconds: Double): Int = Math.min(seconds * 1000, Int.MAX_VALUE.toDouble()).toInt()

    /** The text of an answer; empty for more than a collector ever sends. */
    private fun textOf(stream: InputStream, request: Request): String {
        val read = ByteArrayOutputStream()
        val piece = ByteArray(8192)
        while (true) {
            if (request.isAborted) throw IOException("aborted") // an answer that drips never ends
            val size = stream.read(piece)
            if (size < 0) return read.toByteArray().decodeToString()
            read.write(piece, 0, size)
            if (read.size() > MAX_ANSWER) return ""
        }
    }
}

/** The address of batches. Throws ParameterException for an invalid address, or one that would show the key. */
internal fun batchUrl(collector: String, key: String?, isDevelopment: Boolean): URI {
    val url = try {
        URI(collector)
    } catch (error: URISyntaxException) {
        throw ParameterException("`collector` is not an address such as https://host:port/prefix")
    }
    val scheme = url.scheme?.lowercase()
    if ((scheme != "https" && scheme != "http") || url.host == null || url.userInfo != null || url.query != null || url.fragment != null) {
        throw ParameterException("`collector` is not an address such as https://host:port/prefix")
    }
    if (key != null) {
        if (!key.all { it in '!'..'~' } || key.isEmpty()) throw ParameterException("the key holds characters that a header cannot carry, or none")
        if (scheme == "http" && !LOOPBACK.matches(url.host.lowercase()) && !isDevelopment) {
            throw ParameterException("over plain http anybody on the way can read the key; use https")
        }
    }
    return URI(collector.removeSuffix("/") + "/v1/reports")
}
