package rappor.telemetry

import java.io.File
import java.io.IOException
import java.io.RandomAccessFile
import java.nio.channels.FileLock
import java.nio.channels.OverlappingFileLockException
import java.util.UUID

/** A lock of the operating system on a file: it ends with the process that holds it, however that ends. */
internal class FolderLock(private val path: File) {
    private var held: FileLock? = null
    private var file: RandomAccessFile? = null
    private var name = ""
    private val token = UUID.randomUUID().toString()

    /** Throws StateException if another process, or another client of this one, has it. */
    fun take() {
        if (held != null) return
        // The process must not open the file a second time: closing it would end the lock that it has.
        name = path.canonicalPath
        synchronized(names) {
            if (!names.add(name)) throw busy()
            try {
                val opened = RandomAccessFile(path, "rw")
                held = opened.channel.tryLock() ?: throw busy().also { opened.close() }
                opened.setLength(0)
                opened.writeBytes(token)
                file = opened
            } catch (error: OverlappingFileLockException) {
                throw busy()
            } finally {
                if (held == null) names.remove(name)
            }
        }
    }

    /**
     * Throws StateException if another process has it: the system ends a lock as soon as anything in this process reads
     * the file and closes it, such as an app that copies its folder.
     */
    fun check() {
        val opened = file ?: throw busy()
        val read = ByteArray(token.length)
        opened.seek(0)
        opened.read(read) // in one call: this is part of each write
        if (read.decodeToString() != token) throw busy()
    }

    fun release() {
        val lock = held ?: return
        held = null
        file = null
        synchronized(names) {
            try {
                lock.channel().close()
            } catch (error: IOException) {
                // Then it ends with the process.
            }
            names.remove(name)
        }
    }

    private fun busy() = StateException(Condition.STATE_IN_USE, "another process, or another client, uses the state")

    private companion object {
        /** What this process has locked. */
        val names = HashSet<String>()
    }
}
