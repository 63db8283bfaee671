package rappor.telemetry

/** The documents of a device over a `Storage`: one transaction at a time, from one thread. */
internal class StateFile(private val storage: Storage) {
    private var documents: HashMap<String, Document>? = null

    /**
     * Run an act over the documents, and keep what it changed, or nothing of it if it throws. onWithdrawal: is called
     * first if another process has noted a withdrawal since; all is wiped by then. Throws StateException.
     */
    fun <T> transact(onWithdrawal: () -> Unit = {}, act: (Transaction) -> T): T {
        val isStart = documents == null
        val known = documents ?: load()
        if (storage.isWithdrawalNoted) {
            endConsent()
            if (!isStart) onWithdrawal() // a start knows what the person answered since
        }
        val store = Transaction(known)
        val result = act(store)
        if (store.changes.isNotEmpty()) keep(store.changes)
        return result
    }

    fun sync(): Unit = storage.sync()

    /** Wipe queue, values and secret, in memory and in files. Throws StateException. */
    fun endConsent() {
        val store = Transaction(documents ?: load())
        withdraw(store)
        keep(store.changes)
        rewrite()
        storage.clearWithdrawal()
    }

    fun close() {
        documents = null
        storage.close()
    }

    private fun load(): HashMap<String, Document> {
        val texts = storage.open()
        val read = HashMap<String, Document>()
        for ((key, text) in texts) if (key != OLDER_COPY) read[key] = Damaged.orDocument(key, text)
        documents = read
        val device = read[DEVICE]
        if (OLDER_COPY in texts && device is DeviceState) keep(mapOf(DEVICE to device.counted("state:older_copy")))
        if (texts.isNotEmpty()) tryToRewrite() // what an earlier process forgot does not remain in the file
        return read
    }

    private fun keep(changes: Map<String, Document?>) {
        val known = documents ?: return
        val forgets = changes.any { (key, document) -> known[key].let { it is LineState && periodOf(it.note) != periodOf((document as? LineState)?.note) } }
        try {
            storage.write(changes.mapValues { (_, document) -> document?.let { Json.write(it.toJson()) } })
        } catch (error: StateException) {
            close() // what is stored is read again
            throw error
        }
        for ((key, document) in changes) if (document == null) known.remove(key) else known[key] = document
        if (forgets) tryToRewrite()
    }

    private fun rewrite() {
        val known = documents ?: return
        storage.replace(known.mapValues { Json.write(it.value.toJson()) })
    }

    /** Replace the files by what is known now; if that fails, the next start does. */
    private fun tryToRewrite() {
        try {
            rewrite()
        } catch (error: StateException) {
            // A full disk: what was to be kept is kept.
        }
    }

    /** Up to where a note names its meaning and its period; what comes after is what it collected. */
    private fun periodOf(note: String?): String? = note?.substringBefore(",\"kept\"")?.substringBefore(",\"dwell\"")
}
