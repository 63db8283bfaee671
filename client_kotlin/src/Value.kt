package rappor.telemetry

/** What an app records, and what the client records in its place. */
internal sealed class Value {
    data class Text(val text: String) : Value()

    data class Truth(val isTrue: Boolean) : Value()

    data class Amount(val number: Double) : Value()

    data class Two(val first: Value, val second: Value) : Value()

    /** The symbol of a number that was found while its period ran. */
    data class Symbol(val index: Int) : Value()

    /** A period of a metric of kind `number` in which nothing was recorded. */
    object NoData : Value()

    companion object {
        /** The value of JSON. Throws FormatException for what no metric accepts. */
        fun of(json: Any?): Value = when {
            json == null -> NoData
            json is String -> Text(json)
            json is Boolean -> Truth(json)
            json is Double -> Amount(json)
            json is List<*> && json.size == 2 -> Two(of(json[0]), of(json[1]))
            else -> throw FormatException("no metric accepts such a value")
        }
    }
}
