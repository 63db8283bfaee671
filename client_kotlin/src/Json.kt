package rappor.telemetry

private const val MAX_DEPTH = 64

/** JSON as maps, lists, strings, doubles, booleans and null; objects keep the order of their keys. */
internal object Json {
    /** Read a text. Throws FormatException for anything that is not JSON, and for a key that is repeated. */
    fun parse(text: String): Any? {
        val parser = Parser(text)
        val value = parser.value(0)
        parser.end()
        return value
    }

    fun write(value: Any?): String = StringBuilder().also { append(it, value) }.toString()

    private fun append(out: StringBuilder, value: Any?) {
        when (value) {
            null, is Boolean -> out.append(value)
            is Number -> out.append(numberText(value))
            is Map<*, *> -> {
                out.append('{')
                value.entries.forEachIndexed { i, (key, item) ->
                    if (i > 0) out.append(',')
                    quote(out, key.toString())
                    out.append(':')
                    append(out, item)
                }
                out.append('}')
            }
            is List<*> -> {
                out.append('[')
                value.forEachIndexed { i, item ->
                    if (i > 0) out.append(',')
                    append(out, item)
                }
                out.append(']')
            }
            else -> quote(out, value.toString())
        }
    }

    private fun numberText(value: Number): String {
        val number = value.toDouble()
        require(number.isFinite()) { "JSON has no number such as $number" }
        val isWhole = number == Math.rint(number) && Math.abs(number) < 1e15 && !(number == 0.0 && 1 / number < 0)
        return if (value !is Double || isWhole) value.toLong().toString() else number.toString()
    }

    private fun quote(out: StringBuilder, text: String) {
        out.append('"')
        if (text.none { it < ' ' || it == '"' || it == '\\' }) {
            out.append(text)
        } else {
            escape(out, text)
        }
        out.append('"')
    }

    private fun escape(out: StringBuilder, text: String) {
        for (unit in text) when {
            unit == '"' || unit == '\\' -> out.append('\\').append(unit)
            unit < ' ' -> out.append(escapeOf(unit))
            else -> out.append(unit)
        }
    }

    private fun escapeOf(unit: Char): String = when (unit) {
        '\b' -> "\\b"
        '\t' -> "\\t"
        '\n' -> "\\n"
        '\u000c' -> "\\f"
        '\r' -> "\\r"
        else -> "\\u" + bigEndian(unit.code, 2).toHex()
    }
}

private class Parser(private val text: String) {
    private var at = 0

    fun value(depth: Int): Any? {
        if (depth > MAX_DEPTH) wrong("nested too deeply")
        skipSpace()
        val value: Any? = when (val mark = peek()) {
            '{' -> fields(depth)
            '[' -> items(depth)
            '"' -> string()
            't' -> word("true", true)
            'f' -> word("false", false)
            'n' -> word("null", null)
            else -> if (mark == '-' || mark in '0'..'9') number() else wrong("unexpected character")
        }
        skipSpace()
        return value
    }

    fun end() {
        if (at < text.length) wrong("text after the value")
    }

    private fun fields(depth: Int): Map<String, Any?> {
        val fields = LinkedHashMap<String, Any?>()
        each('}') {
            skipSpace()
            val key = string()
            skipSpace()
            take(':')
            if (key in fields) wrong("the key is repeated")
            fields[key] = value(depth + 1)
        }
        return fields
    }

    private fun items(depth: Int): List<Any?> {
        val items = ArrayList<Any?>()
        each(']') { items.add(value(depth + 1)) }
        return items
    }

    private fun each(close: Char, item: () -> Unit) {
        at++
        skipSpace()
        if (peek() == close) {
            at++
            return
        }
        while (true) {
            item()
            if (peek() == close) break
            take(',')
        }
        at++
    }

    private fun string(): String {
        take('"')
        val read = StringBuilder()
        while (true) {
            when (val unit = next()) {
                '"' -> return read.toString()
                '\\' -> read.append(escaped())
                else -> if (unit < ' ') wrong("a control character in a text") else read.append(unit)
            }
        }
    }

    private fun escaped(): Char = when (val mark = next()) {
        '"', '\\', '/' -> mark
        'b' -> '\b'
        'f' -> '\u000c'
        'n' -> '\n'
        'r' -> '\r'
        't' -> '\t'
        'u' -> {
            if (at + 4 > text.length) wrong("the text is cut")
            val digits = text.substring(at, at + 4)
            if (!digits.all { it in "0123456789abcdefABCDEF" }) wrong("not an escape")
            at += 4
            digits.toInt(16).toChar()
        }
        else -> wrong("not an escape")
    }

    private fun number(): Double {
        val found = NUMBER.find(text, at)
        if (found == null || found.range.first != at) wrong("not a number")
        at = found.range.last + 1
        return found.value.toDouble()
    }

    private fun <T> word(word: String, value: T): T {
        if (!text.startsWith(word, at)) wrong("unexpected character")
        at += word.length
        return value
    }

    private fun skipSpace() {
        while (at < text.length && text[at] in " \t\n\r") at++
    }

    private fun peek(): Char = if (at < text.length) text[at] else wrong("the text is cut")

    private fun next(): Char = peek().also { at++ }

    private fun take(mark: Char) {
        if (next() != mark) wrong("not '$mark'")
    }

    private fun wrong(what: String): Nothing = throw FormatException("not JSON: $what at character $at")

    private companion object {
        val NUMBER = Regex("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?")
    }
}
