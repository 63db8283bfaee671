package rappor.telemetry

internal const val OLDER_COPY = "older_copy"

/**
 * Where a device's documents are kept: texts of JSON by key. The client calls it from one thread at a time.
 *
 * Every function throws StateException if it cannot do what it promises, and nothing else.
 */
public interface Storage {
    /**
     * Begins to use the documents and returns all of them. Only one client of them can be open at a time. An
     * additional text `older_copy` reports that they are older than the last that were kept.
     */
    public fun open(): Map<String, String>

    /** Keeps all of these changes or none; null removes a document. What it kept survives the end of the process. */
    public fun write(changes: Map<String, String?>)

    /** Returns when everything that was written would survive a loss of power. */
    public fun sync()

    /** Keeps these documents in the place of all that there are: nothing of an earlier one remains in files. */
    public fun replace(documents: Map<String, String>)

    /** Deletes documents that cannot be read or written, but not that there were some. It may be closed before. */
    public fun erase()

    /** Forgets all documents, and that there ever were some. It is closed before. */
    public fun reset()

    /** Ends the use. It can be opened again. */
    public fun close()

    /** Notes for the process that has the documents open, or will, that the person has withdrawn consent. */
    public fun noteWithdrawal()

    /** Whether a withdrawal is noted. */
    public val isWithdrawalNoted: Boolean

    /** Removes the note of a withdrawal. */
    public fun clearWithdrawal()
}

/** Documents in memory: for tests, and if nothing may be kept. */
public class MemoryStorage : Storage {
    private val documents = LinkedHashMap<String, String>()

    override var isWithdrawalNoted: Boolean = false
        private set

    override fun open(): Map<String, String> = LinkedHashMap(documents)

    override fun write(changes: Map<String, String?>) {
        for ((key, text) in changes) if (text == null) documents.remove(key) else documents[key] = text
    }

    override fun sync() {}

    override fun replace(documents: Map<String, String>) {
        this.documents.clear()
        this.documents.putAll(documents)
    }

    override fun erase(): Unit = documents.clear()

    override fun reset(): Unit = documents.clear()

    override fun close() {}

    override fun noteWithdrawal() {
        isWithdrawalNoted = true
    }

    override fun clearWithdrawal() {
        isWithdrawalNoted = false
    }
}
