package rappor.telemetry

import java.io.File

/** Tests by name; prints the failures, then `N passed, N failed`. */
internal class Tests(private val only: String?) {
    private var passed = 0
    private val failed = ArrayList<String>()

    fun test(name: String, act: () -> Unit) {
        if (only != null && only !in name) return
        val begun = System.nanoTime()
        try {
            act()
            passed++
        } catch (error: Throwable) {
            failed.add(name)
            val here = error.stackTrace.filter { it.className.startsWith("rappor") }.take(6)
            println("FAILED $name: $error\n${here.joinToString("\n") { "  at $it" }}")
        }
        val seconds = (System.nanoTime() - begun) / 1e9
        if (seconds > 1) println("%s: %.1f s".format(java.util.Locale.ROOT, name, seconds))
    }

    fun end(): Int {
        println("$passed passed, ${failed.size} failed")
        return if (failed.isEmpty() && passed > 0) 0 else 1
    }
}

internal fun check(isTrue: Boolean, message: () -> Any = { "" }) {
    if (!isTrue) throw AssertionError(message())
}

internal fun <T> same(found: T, wanted: T, what: Any = "") {
    if (found != wanted) throw AssertionError("$what: $found is not $wanted")
}

internal fun near(found: Double, wanted: Double, what: Any = "") {
    if (!(Math.abs(found - wanted) < 1e-9 || found == wanted)) throw AssertionError("$what: $found is not $wanted")
}

internal inline fun <reified E : Throwable> fails(what: Any = "", act: () -> Unit): E {
    try {
        act()
    } catch (error: Throwable) {
        return error as? E ?: throw AssertionError("$what: another error", error)
    }
    throw AssertionError("$what: no ${E::class.java.simpleName}")
}

/** Loosely typed JSON of the vectors. */
internal class Row(val json: Any?) {
    private val map get() = json as Map<*, *>

    operator fun get(key: String): Row = Row(map[key])

    operator fun get(index: Int): Row = Row((json as List<*>)[index])

    operator fun contains(key: String): Boolean = key in map

    val rows: List<Row> get() = (json as List<*>).map(::Row)
    val entries: List<Pair<String, Row>> get() = map.map { it.key as String to Row(it.value) }
    val text: String get() = json as String
    val textOrNull: String? get() = json as String?
    val number: Double get() = json as Double
    val int: Int get() = number.toInt()
    val bytes: ByteArray get() = text.fromHex()
    val value: Value get() = Value.of(json)

    override fun toString(): String = Json.write(json).take(300)
}

internal val ROOT: File = File(System.getProperty("rappor.root", ".")).absoluteFile

internal fun vectors(name: String): Row = Row(Json.parse(File(ROOT, "tests/vectors/v1/$name.json").readText()))

/** A document with its digest, as `rappor metrics compile` writes it. */
internal fun sealed(document: Any?): String {
    val fields = document as Map<*, *>
    return Json.write(fields + ("digest" to Metrics.digestOf(fields["budget"], fields["metrics"])))
}

internal fun metricsOf(document: Row): Metrics = Metrics.read(sealed(document.json))

/** A copy of a JSON value with one place changed; a path has keys and indexes. */
internal fun changed(json: Any?, path: List<Any>, value: Any?): Any? {
    if (path.isEmpty()) return value
    val rest = path.drop(1)
    return when (json) {
        is List<*> -> json.mapIndexed { i, item -> if (i == path[0]) changed(item, rest, value) else item }
        is Map<*, *> -> json + (path[0] to changed(json[path[0]], rest, value))
        else -> throw AssertionError("no such path")
    }
}

/** A transaction over documents in memory, kept unless the act throws. */
internal class Documents(vararg given: Pair<String, Document>) {
    val all = HashMap<String, Document>(mapOf(*given))

    fun <T> run(act: (Transaction) -> T): T {
        val store = Transaction(all)
        val result = act(store)
        for ((key, document) in store.changes) if (document == null) all.remove(key) else all[key] = document
        return result
    }

    companion object {
        fun of(secret: String) = Documents(DEVICE to DeviceState(secret, Derivation.check(secret.fromHex())))
    }
}

internal val ZEROS: Randomness = { ByteArray(it) }

fun main(arguments: Array<String>) {
    val tests = Tests(arguments.firstOrNull())
    vectorTests(tests)
    placeVectorTests(tests)
    numberVectorTests(tests)
    clientTests(tests)
    withdrawalTests(tests)
    damageTests(tests)
    deliveryTests(tests)
    reportedTests(tests)
    readmeTests(tests)
    System.exit(tests.end())
}
