@file:Suppress("unused", "PackageDirectoryMismatch")

package android.location

class Location(val latitude: Double, val longitude: Double, val time: Long)
