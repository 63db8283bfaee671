@file:Suppress("unused", "UNUSED_PARAMETER", "PackageDirectoryMismatch")

package android.app.job

import android.app.Application

class JobParameters

abstract class JobService {
    val application: Application = Application()

    abstract fun onStartJob(parameters: JobParameters): Boolean

    abstract fun onStopJob(parameters: JobParameters): Boolean

    fun jobFinished(parameters: JobParameters, wantsReschedule: Boolean) {}
}
