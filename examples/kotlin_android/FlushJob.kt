package example.android

import android.app.job.JobParameters
import android.app.job.JobService

/** Sends what waits, in a window that the system chose: once a day, with a network. Doze delays it, and nothing is lost. */
class FlushJob : JobService() {
    override fun onStartJob(parameters: JobParameters): Boolean {
        (application as App).telemetry.flush(60.0).thenAccept { isDone -> jobFinished(parameters, !isDone) }
        return true // it continues on the client's thread
    }

    override fun onStopJob(parameters: JobParameters): Boolean = true // the system needs the time: again later
}
