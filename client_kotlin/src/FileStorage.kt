package rappor.telemetry

import java.io.File
import java.io.IOException
import java.io.RandomAccessFile
import java.nio.channels.FileChannel
import java.nio.file.Files
import java.nio.file.StandardCopyOption.ATOMIC_MOVE
import java.nio.file.StandardCopyOption.REPLACE_EXISTING
import java.nio.file.StandardOpenOption.READ
import java.nio.file.attribute.BasicFileAttributes
import java.nio.file.attribute.PosixFilePermission
import java.security.MessageDigest

private const val CHECK_DIGITS = 16
private const val STARTS = "starts" // a document of the storage's own
private const val SPARE = 1 shl 20 // bytes of the journal beyond twice what it holds, before it is written anew

/**
 * Documents in a directory of the client's own, which is made if there is none and must be kept as long as the app is
 * installed, outside backups. One process at a time has it; the lock ends with the process.
 *
 * Each write is one line of a journal, so that a killed process leaves it whole or without an end.
 */
public class FileStorage(directory: File) : Storage {
    private val directory = directory.absoluteFile
    private val journal = File(this.directory, "state.journal")
    private val note = File(this.directory, "state.withdrawal")

    /** How often the directory was opened: detects a journal that is missing, or an older copy of it. */
    private val witness = File(this.directory, "state.witness")
    private val lock = FolderLock(File(this.directory, "state.lock"))
    private var documents = LinkedHashMap<String, String>()
    private var file: RandomAccessFile? = null
    private var identity: Any? = null
    private var size = 0L

    /** Characters of the documents, kept as a sum: a long queue must not make each write slow. */
    private var live = 0L
    private var hasWitness = false

    override val isWithdrawalNoted: Boolean get() = note.exists()

    override fun open(): Map<String, String> = guarded {
        makeDirectory()
        lock.take()
        try {
            load()
        } catch (error: Exception) {
            close()
            throw error
        }
    }

    override fun write(changes: Map<String, String?>): Unit = guarded {
        checkPlace()
        val line = lineOf(changes)
        val opened = file ?: throw IOException("not open")
        try {
            opened.seek(size)
            opened.write(line)
        } catch (error: IOException) {
            cutBack(opened)
            throw error
        }
        size += line.size
        apply(changes)
        if (DEVICE in changes && !hasWitness) countStart(1)
        if (size > SPARE + 2 * live) replace(documents - STARTS)
    }

    override fun sync(): Unit = guarded { file?.fd?.sync() ?: Unit }

    override fun replace(documents: Map<String, String>): Unit = guarded {
        checkPlace()
        val next = File(directory, "state.journal.next")
        val whole = documents + this.documents.filterKeys { it == STARTS }
        val line = lineOf(whole)
        Files.deleteIfExists(next.toPath())
        RandomAccessFile(next, "rw").use {
            ownerOnly(next)
            it.write(line)
            it.fd.sync()
        }
        file?.close() // Windows replaces no file that is open
        try {
            Files.move(next.toPath(), journal.toPath(), ATOMIC_MOVE, REPLACE_EXISTING)
            size = line.size.toLong()
        } finally {
            file = RandomAccessFile(journal, "rw")
            identity = keyOf(journal)
        }
        this.documents = LinkedHashMap(whole)
        live = whole.values.sumOf { it.length.toLong() }
        syncDirectory()
    }

    override fun erase(): Unit = guarded {
        lock.take()
        try {
            for (name in listOf("state.journal", "state.journal.next", "state.withdrawal")) {
                val path = File(directory, name)
                overwrite(path)
                Files.deleteIfExists(path.toPath())
            }
        } finally {
            close()
        }
    }

    override fun reset(): Unit = guarded {
        makeDirectory()
        lock.take()
        try {
            Files.deleteIfExists(witness.toPath())
            Files.deleteIfExists(journal.toPath())
        } finally {
            close()
        }
    }

    override fun close() {
        try {
            file?.close()
        } catch (error: IOException) {
            // The next open reads what is there.
        }
        file = null
        documents = LinkedHashMap()
        lock.release()
    }

    override fun noteWithdrawal(): Unit = guarded { if (journal.exists()) note.createNewFile() }

    override fun clearWithdrawal(): Unit = guarded { Files.deleteIfExists(note.toPath()) }

    /** Read the journal. A last line without its end was never acknowledged; anything else that is not whole is damage. */
    private fun load(): Map<String, String> {
        documents = LinkedHashMap()
        live = 0
        val bytes = if (journal.exists()) journal.readBytes() else ByteArray(0)
        var from = 0
        while (from < bytes.size) {
            val end = (from until bytes.size).firstOrNull { bytes[it] == '\n'.code.toByte() } ?: break
            apply(changesOf(bytes.copyOfRange(from, end)) ?: throw StateException(Condition.STATE_CORRUPT, "the stored state is not whole"))
            from = end + 1
        }
        file = RandomAccessFile(journal, "rw").also { it.setLength(from.toLong()) }
        ownerOnly(journal)
        size = from.toLong()
        identity = keyOf(journal)
        val seen = if (witness.exists()) witness.readText().trim().toIntOrNull() ?: 0 else null
        if (seen != null && DEVICE !in documents) {
            val sentence = "the journal is missing, though it was there before; restore it, or call reset, which draws a new secret"
            throw StateException(Condition.STATE_MISSING, sentence)
        }
        val kept = documents[STARTS]?.toIntOrNull() ?: 0
        hasWitness = false
        if (DEVICE in documents) countStart(maxOf(kept, seen ?: 0) + 1)
        return (documents - STARTS) + if (kept < (seen ?: 0)) mapOf(OLDER_COPY to "{}") else emptyMap()
    }

    /** Counts the uses of the directory in the journal and alongside it: an older copy of the journal has a smaller number. */
    private fun countStart(starts: Int) {
        hasWitness = true // tried once for each use of the directory
        try {
            write(mapOf(STARTS to starts.toString()))
            witness.writeText("$starts\n")
            ownerOnly(witness)
        } catch (error: IOException) {
            // A disk that accepts nothing more: the next start counts.
        }
    }

    /** Throws IOException, or StateException, if the journal is not the one that was opened. */
    private fun checkPlace() {
        lock.check()
        if (keyOf(journal) != identity) throw IOException("the state was moved or deleted")
    }

    private fun apply(changes: Map<String, String?>) {
        for ((key, text) in changes) {
            val before = if (text == null) documents.remove(key) else documents.put(key, text)
            live += (text?.length ?: 0) - (before?.length ?: 0)
        }
    }

    /** Remove a line that is not wholly there, on a full disk; if that fails, read everything again next time. */
    private fun cutBack(opened: RandomAccessFile) {
        try {
            opened.setLength(size)
        } catch (error: IOException) {
            close()
        }
    }

    /** Throws IOException for a directory that cannot be made, or that anybody can write to. */
    private fun makeDirectory() {
        if (directory.isDirectory) return refuseOpenDirectory()
        if (!directory.mkdirs() && !directory.isDirectory) throw IOException("${directory.path} cannot be made")
        ownerOnly(directory)
    }

    private fun refuseOpenDirectory() {
        val permissions = try {
            Files.getPosixFilePermissions(directory.toPath())
        } catch (error: UnsupportedOperationException) {
            return // Windows
        }
        if (PosixFilePermission.OTHERS_WRITE in permissions) throw IOException("anybody can write to ${directory.path}")
    }

    private fun ownerOnly(path: File) {
        for (isAllowed in listOf(false, true)) { // first nobody may, then the owner
            path.setReadable(isAllowed, isAllowed)
            path.setWritable(isAllowed, isAllowed)
            if (path.isDirectory) path.setExecutable(isAllowed, isAllowed)
        }
    }

    /** Zeros over a file, which need no room; what cannot be overwritten is deleted all the same. */
    private fun overwrite(path: File) {
        try {
            if (path.exists()) RandomAccessFile(path, "rws").use { it.write(ByteArray(it.length().toInt())) }
        } catch (error: IOException) {
            // A disk that accepts nothing.
        }
    }

    private fun syncDirectory() {
        try {
            FileChannel.open(directory.toPath(), READ).use { it.force(true) }
        } catch (error: IOException) {
            // Windows opens no directories.
        }
    }

    private fun keyOf(path: File): Any? = try {
        val attributes = Files.readAttributes(path.toPath(), BasicFileAttributes::class.java)
        attributes.fileKey() ?: path.path // Windows has no keys, and deletes no file that is open
    } catch (error: IOException) {
        null
    }

    /** The digits of a check, and a JSON list of keys and documents. */
    private fun lineOf(changes: Map<String, String?>): ByteArray {
        val body = changes.entries.joinToString(",", "[", "]") { (key, text) -> "[${Json.write(key)},$text]" }
        return "${checkOf(body)} $body\n".toByteArray()
    }

    private fun changesOf(line: ByteArray): Map<String, String?>? {
        val text = line.decodeToString()
        val body = text.drop(CHECK_DIGITS + 1)
        if (text.take(CHECK_DIGITS) != checkOf(body)) return null
        return (Json.parse(body) as List<*>).associate { change ->
            (change as List<*>).let { (key, document) -> key as String to document?.let(Json::write) }
        }
    }

    private fun checkOf(body: String): String =
        MessageDigest.getInstance("SHA-256").digest(body.toByteArray()).toHex().take(CHECK_DIGITS)

    private fun <T> guarded(act: () -> T): T = try {
        act()
    } catch (error: IOException) {
        throw StateException(Condition.STATE_UNAVAILABLE, "the state cannot be used: ${error.message}")
    } catch (error: SecurityException) {
        throw StateException(Condition.STATE_UNAVAILABLE, "the state cannot be used: ${error.message}")
    }
}
