package rappor.telemetry

import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.ScheduledThreadPoolExecutor
import java.util.concurrent.ThreadFactory
import java.util.concurrent.ThreadPoolExecutor
import java.util.concurrent.TimeUnit

/** Threads that never keep a program from ending. */
private fun daemons(name: String) = ThreadFactory { act -> Thread(act, name).apply { isDaemon = true } }

/** The client's one thread, with its timers. */
internal fun clientThread(): ScheduledThreadPoolExecutor = ScheduledThreadPoolExecutor(1, daemons("rappor-telemetry")).apply {
    removeOnCancelPolicy = true
    executeExistingDelayedTasksAfterShutdownPolicy = false
}

/** One act after the other, on a thread that ends when there are none for a second. */
internal class ThreadUntilIdle(name: String) {
    private val pool = ThreadPoolExecutor(1, 1, 1, TimeUnit.SECONDS, LinkedBlockingQueue(), daemons(name)).apply {
        allowCoreThreadTimeOut(true)
    }

    fun run(act: () -> Unit): Unit = pool.execute(act)
}
