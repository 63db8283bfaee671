package rappor.telemetry

import example.desktop.Telemetry
import java.io.File
import java.util.jar.JarFile

private val README = File(ROOT, "client_kotlin/README.md").readText()
private val SOURCES = File(ROOT, "client_kotlin/src").listFiles()!!.sortedBy { it.name }

/** The first lines of the README, as they are there, but for the directory and the address. */
private fun example(folder: File, address: String): RapporClient {
    fun File(name: String) = java.io.File(folder, name)
    // README begins
    val client = RapporClient.open(
        metrics = File("metrics.json").readText(), // rappor metrics compile metrics.toml -o metrics.json
        storage = FileStorage(File("state")), // the client's own directory, kept as long as the app is installed
        collector = address,
        consent = true, // what the person answered
    )
    client.record("homepage", "https://example.org/")
    // README ends
    return client
}

/** The pages and the shape of what is shipped. */
internal fun readmeTests(tests: Tests) {
    tests.test("the first ten lines of the README run as they are") {
        val here = File(ROOT, "client_kotlin/test/ReadmeTests.kt").readText().substringAfter("// README begins\n").substringBefore("    // README ends")
        val wanted = here.trimIndent().trim().replace("address,", "\"https://collector.example.org\",")
        same(README.substringAfter("```kotlin\n").substringBefore("\n```"), wanted)
        Witness().use { witness ->
            inFolder { folder ->
                folder.mkdirs()
                File(folder, "metrics.json").writeText(HOMEPAGE)
                val client = example(folder, witness.url)
                check(client.flush(10.0).wait()) { client.lastError }
                same(witness.reports.size, 1)
                client.close()
            }
        }
    }
    tests.test("the desktop example remembers the answer, shows the account and withdraws") {
        Witness().use { witness ->
            inFolder { folder ->
                val options = Options(delivery = FAST, doNotTrack = { false })
                Telemetry(folder, HOMEPAGE, witness.url, options).use { telemetry ->
                    same(telemetry.answer, null)
                    check(!telemetry.client.record("homepage", "a").wait())
                    telemetry.decide(true)
                    check(telemetry.client.record("homepage", "a").wait())
                    check("homepage: reports made: 1" in telemetry.account())
                }
                Telemetry(folder, HOMEPAGE, witness.url, options).use { telemetry ->
                    check(telemetry.answer == true && telemetry.client.flush(10.0).wait())
                    telemetry.decide(false)
                    check("Consent: not given" in telemetry.account()) { telemetry.account() }
                }
                same(witness.reports.size, 1)
            }
        }
    }
    tests.test("every public declaration has a comment that documents it") {
        val lacking = SOURCES.flatMap { file ->
            val lines = file.readLines()
            lines.indices.filter { lines[it].trim().startsWith("public ") }.filter { at ->
                val before = lines.subList(0, at).map { it.trim() }.dropLastWhile { it.startsWith("@") }.lastOrNull().orEmpty()
                !before.endsWith("*/")
            }.map { "${file.name}:${it + 1}" }
        }
        same(lacking, emptyList<String>())
        check(SOURCES.sumOf { file -> file.readLines().count { it.trim().startsWith("public ") } } > 80)
    }
    tests.test("the jar uses no class outside Kotlin's library and this list of Android 8, and no reflection") {
        val allowed = File(ROOT, "client_kotlin/test/android_api_26.txt").readLines().filter { it.isNotBlank() && !it.startsWith("#") }.toSet()
        val used = HashMap<String, String>()
        JarFile(File(ROOT, "build/kotlin/rappor-telemetry-client.jar")).use { jar ->
            for (entry in jar.entries().asSequence().filter { it.name.endsWith(".class") }) {
                val (version, names) = ClassFile.read(jar.getInputStream(entry).readBytes())
                same(version, 52, entry.name) // Java 8
                for (name in names) used[name] = entry.name
            }
        }
        val others = used.keys.filterNot { it.startsWith("rappor/telemetry/") || it.startsWith("kotlin/") }.toSet()
        check(others.size > 80) { others.size }
        val metadata = RapporClient::class.java.getAnnotation(Metadata::class.java)
        same(metadata.metadataVersion.take(2), listOf(2, 0), "which the compiler of an app must be able to read")
        same((others - allowed).associateWith { used[it] }, emptyMap<String, String?>())
        same(allowed - others, emptySet<String>(), "no longer used")
        check(used.keys.none { it.startsWith("kotlin/reflect/full") || it.startsWith("kotlin/reflect/jvm/") && "Internal" !in it })
    }
}

/** Names of classes in the pool of constants of a class file, also those within descriptors. */
private object ClassFile {
    private val DESCRIPTOR = Regex("L((?:java|javax|android|sun|com|jdk|org|kotlin|kotlinx)/[\\w/$]+);")

    fun read(bytes: ByteArray): Pair<Int, Set<String>> = java.io.DataInputStream(bytes.inputStream()).use { data ->
        data.readInt()
        data.readUnsignedShort()
        val version = data.readUnsignedShort()
        val texts = HashMap<Int, String>()
        val classes = ArrayList<Int>()
        val size = data.readUnsignedShort()
        var index = 1
        while (index < size) {
            when (val tag = data.readUnsignedByte()) {
                1 -> texts[index] = data.readUTF()
                7 -> classes.add(data.readUnsignedShort())
                3, 4, 9, 10, 11, 12, 17, 18 -> data.readInt()
                5, 6 -> {
                    data.readLong()
                    index++
                }
                8, 16, 19, 20 -> data.readUnsignedShort()
                15 -> data.skipBytes(3)
                else -> throw AssertionError("tag $tag")
            }
            index++
        }
        // A text of metadata is not a descriptor; those begin with L, [ or (, or are signatures.
        val inDescriptors = texts.values.filter { it.isNotEmpty() && it[0] in "L[(<" }
            .flatMap { text -> DESCRIPTOR.findAll(text).map { it.groupValues[1] } }
        Pair(version, (classes.mapNotNull { texts[it] }.filterNot { it.startsWith("[") } + inDescriptors).toSet())
    }
}
