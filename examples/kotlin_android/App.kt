package example.android

import android.app.Application
import android.location.Location
import java.io.File
import rappor.telemetry.FileStorage
import rappor.telemetry.RapporClient

/** An app that reports the usual place of a day, randomized on the phone. */
class App : Application() {
    lateinit var telemetry: RapporClient

    override fun onCreate() {
        super.onCreate()
        val answers = getSharedPreferences("telemetry", MODE_PRIVATE)
        telemetry = RapporClient.open(
            metrics = assets.open("metrics.json").use { it.readBytes().decodeToString() },
            storage = FileStorage(File(noBackupFilesDir, "rappor")), // a restored copy would be a second device
            collector = "https://collector.example.org",
            consent = answers.getBoolean("consent", false),
        )
    }

    /** What the person chose in the settings. */
    fun decide(consent: Boolean) {
        getSharedPreferences("telemetry", MODE_PRIVATE).edit().putBoolean("consent", consent).apply()
        telemetry.setConsent(consent)
    }

    /** A fix of the app's own location updates. It stays on the phone. */
    fun onLocation(fix: Location) {
        telemetry.recordLocation("usual_place", fix.latitude, fix.longitude, fix.time)
    }
}
