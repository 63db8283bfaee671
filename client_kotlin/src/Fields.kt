package rappor.telemetry

/** A text or a document that does not have its form; the message names the place, never a value. */
internal class FormatException(message: String) : IllegalArgumentException(message)

/** An object of JSON, read strictly. where: what errors name. */
internal class Fields(private val where: String, value: Any?) {
    private val map: Map<*, *> = value as? Map<*, *> ?: throw FormatException("$where is not an object")

    /** The keys, in their order. */
    val keys: List<String> get() = map.keys.map { it as String }

    operator fun get(key: String): Any? = map[key]

    operator fun contains(key: String): Boolean = map.containsKey(key)

    fun text(key: String): String = map[key] as? String ?: wrong(key, "text")

    fun textOrNull(key: String): String? = if (map[key] == null) null else text(key)

    fun truth(key: String): Boolean = map[key] as? Boolean ?: wrong(key, "true or false")

    fun number(key: String): Double = map[key] as? Double ?: wrong(key, "a number")

    /** A number; null represents infinity, a missing key does not. */
    fun bound(key: String): Double =
        if (map[key] == null && key in this) Double.POSITIVE_INFINITY else number(key)

    /** A whole number, positive or 0. */
    fun whole(key: String, largest: Int = Int.MAX_VALUE): Int {
        val number = number(key)
        return if (number in 0.0..largest.toDouble() && number == Math.rint(number)) number.toInt() else wrong(key, "a whole number")
    }

    fun wholeOrNull(key: String): Int? = if (map[key] == null) null else whole(key)

    fun list(key: String): List<Any?> = map[key] as? List<*> ?: wrong(key, "a list")

    fun texts(key: String): List<String> = list(key).map { it as? String ?: wrong(key, "a list of text") }

    fun numbers(key: String): List<Double> = list(key).map { it as? Double ?: wrong(key, "a list of numbers") }

    fun fields(key: String): Fields = Fields("$where: $key", map[key])

    /** The fields of the key as a map, each value read by `read` from its own name. */
    fun <T> mapOf(key: String, read: Fields.(String) -> T): Map<String, T> {
        val inner = fields(key)
        return inner.keys.associateWith { inner.read(it) }
    }

    /** One constant of an enumeration by its name in lower case. */
    inline fun <reified T : Enum<T>> choice(key: String): T {
        val word = text(key)
        return enumValues<T>().find { it.name.lowercase() == word } ?: wrong(key, "known here")
    }

    fun refuseOtherKeys(known: Collection<String>) {
        val unknown = keys - known.toSet()
        if (unknown.isNotEmpty()) throw FormatException("$where has an unknown key: ${unknown.first()}")
    }

    fun wrong(key: String, wanted: String): Nothing = throw FormatException("$where: `$key` is not $wanted")
}
