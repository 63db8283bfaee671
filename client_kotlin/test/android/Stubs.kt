// The signatures of Android that examples/kotlin_android uses, without any behavior.
@file:Suppress("unused", "UNUSED_PARAMETER", "PackageDirectoryMismatch")

package android.app

import java.io.File
import java.io.InputStream

open class Application {
    val noBackupFilesDir: File get() = File("no_backup")
    val assets: Assets get() = Assets()

    open fun onCreate() {}

    fun getSharedPreferences(name: String, mode: Int): Preferences = Preferences()

    companion object {
        const val MODE_PRIVATE: Int = 0
    }
}

class Assets {
    fun open(name: String): InputStream = ByteArray(0).inputStream()
}

class Preferences {
    fun getBoolean(key: String, otherwise: Boolean): Boolean = otherwise

    fun edit(): Preferences = this

    fun putBoolean(key: String, value: Boolean): Preferences = this

    fun apply() {}
}
