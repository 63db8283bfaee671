package rappor.telemetry

internal const val OTHER = "other"

internal enum class Kind { STRING, CATEGORY, BOOLEAN, LOCATION, NUMBER, PAIR }

internal enum class Encoding { BLOOM, ONE_HOT, BOOLEAN, SYMBOL, ORDERED }

internal enum class Hash { MMH3, MD5 }

/** How a value becomes bits, and what happens to each bit; probabilities over 2^16. */
internal data class Params(
    val encoding: Encoding,
    val hash: Hash,
    val numBits: Int,
    val numHashes: Int,
    val numCohorts: Int,
    val p1: Int,
    val q1: Int,
    val p2: Int,
    val q2: Int,
) {
    /** Whether exactly one bit is set, in B and in every report: the rounds exchange symbols. */
    val hasSymbols: Boolean get() = encoding == Encoding.SYMBOL || encoding == Encoding.ORDERED
    val numBytes: Int get() = (numBits + 7) / 8

    fun toJson(): Map<String, Any> = linkedMapOf(
        "encoding" to encoding.name.lowercase(), "hash" to hash.name.lowercase(), "num_bits" to numBits,
        "num_hashes" to numHashes, "num_cohorts" to numCohorts, "p1" to p1, "q1" to q1, "p2" to p2, "q2" to q2,
    )

    companion object {
        fun of(fields: Fields): Params = Params(
            fields.choice("encoding"), fields.choice("hash"), fields.whole("num_bits", 65_536), fields.whole("num_hashes", 64),
            fields.whole("num_cohorts", 65_536), fields.whole("p1", 65_536), fields.whole("q1", 65_536),
            fields.whole("p2", 65_536), fields.whole("q2", 65_536),
        )
    }
}

/** What a kind of metric asks for in addition to what all kinds share. */
internal sealed class Details

/** Of kinds that ask for nothing more. */
internal object NoDetails : Details()

internal enum class Mode { MEMO, WINDOW, ONCE }

internal enum class GridKind { QUADKEY, GEOHASH, SQUARE }

/** box: south, west, north, east, in degrees. */
internal data class GridFields(val kind: GridKind, val box: List<Double>, val levels: List<Int>, val rows: Int, val columns: Int)

/** Of kind `location`. */
internal data class Place(
    val grid: GridFields,
    val level: Int,
    val slots: List<Slot>,
    val mode: Mode,
    val window: Int,
    val isTrips: Boolean,
    val maxGapMinutes: Int,
    /** In mode `window` the turn is redrawn in each block of `window` periods, not once for life. */
    val isFresh: Boolean,
    /** A slot and period without a fix answers with the last known cell, at most so many periods old. */
    val hold: Int,
) : Details() {
    companion object {
        fun of(fields: Fields): Place {
            fields.refuseOtherKeys(
                listOf("grid", "level", "slots", "slot", "mode", "window", "pairs", "max_gap_minutes", "turn", "hold"),
            )
            val grid = fields.fields("grid")
            if (grid.text("kind") == "h3") grid.wrong("kind", "quadkey, geohash or square: this client has no hexagons")
            return Place(
                GridFields(
                    grid.choice("kind"), grid.numbers("box"), grid.numbers("levels").map { it.toInt() },
                    grid.whole("rows"), grid.whole("columns"),
                ),
                fields.whole("level"), fields.texts("slots").map(Slot::of), fields.choice("mode"), fields.whole("window"),
                fields.truth("pairs"), fields.whole("max_gap_minutes"), "turn" in fields,
                if ("hold" in fields) fields.whole("hold") else 0,
            )
        }
    }
}

internal enum class OfPeriod { SUM, COUNT, MEAN, MEDIAN, MAX, LAST }

/** Of kind `number`. */
internal data class NumberDetails(
    val ofPeriod: OfPeriod,
    val edges: List<Double>,
    val isLog: Boolean,
    val isWhole: Boolean,
    val asksMean: Boolean,
    /** Whether "any data?" is a question, or no data is the number 0. */
    val isDataAsked: Boolean,
    val isOnce: Boolean,
    val spread: Int,
) : Details() {
    companion object {
        fun of(fields: Fields): NumberDetails {
            fields.refuseOtherKeys(listOf("unit", "of_period", "edges", "scale", "whole", "ask", "none", "mode", "spread"))
            return NumberDetails(
                fields.choice("of_period"), fields.numbers("edges"), fields.text("scale") == "log", fields.truth("whole"),
                fields.text("ask") == "mean", fields.text("none") == "apart", fields.text("mode") == "once",
                fields.whole("spread"),
            )
        }
    }
}

/** Of kind `pair`. of: the names of the sides. values: the list of each side. */
internal data class PairDetails(val of: List<String>, val values: List<List<Value>>) : Details() {
    /** Every pair as text, the second side running fastest. */
    val texts: List<String> = values[0].flatMap { first -> values[1].map { "${textOf(first)} | ${textOf(it)}" } }

    companion object {
        fun of(fields: Fields): PairDetails {
            fields.refuseOtherKeys(listOf("of", "values"))
            val values = fields.list("values").map { side ->
                (side as? List<*> ?: fields.wrong("values", "two lists")).map { Value.of(it) }
            }
            return PairDetails(fields.texts("of"), values)
        }

        private fun textOf(value: Value): String = when (value) {
            is Value.Text -> value.text
            is Value.Truth -> value.isTrue.toString()
            else -> throw FormatException("a pair has text or truth values")
        }
    }
}

/** A metric as `rappor metrics compile` writes it, without what a device does not need. */
internal data class Definition(
    val name: String,
    val kind: Kind,
    /** The last day. */
    val expires: Int,
    val params: Params,
    val maxMemoizedValues: Int,
    val categories: List<String>,
    val fallback: String?,
    val maxReports: Int?,
    val period: Period,
    val maxReportsPerPeriod: Int,
    val acceptDays: Int,
    val noData: String?,
    val platforms: List<String>,
    val details: Details,
) {
    companion object {
        private val KEYS = listOf(
            "name", "kind", "description", "owner", "expires", "params", "max_memoized_values", "categories", "fallback",
            "max_reports", "period", "max_reports_per_period", "min_reports", "accept_days", "keep_raw_days",
            "min_reports_per_cohort", "no_data", "platforms", "lives", "location", "details",
        )

        /** Read a definition. Throws FormatException, also for a key that is not known: it may restrict what is sent. */
        fun of(fields: Fields): Definition {
            fields.refuseOtherKeys(KEYS)
            val kind: Kind = fields.choice("kind")
            return Definition(
                fields.text("name"), kind, Days.of(fields.text("expires")), Params.of(fields.fields("params")),
                fields.whole("max_memoized_values"), fields.texts("categories"), fields.textOrNull("fallback"),
                fields.wholeOrNull("max_reports"), fields.choice("period"), fields.whole("max_reports_per_period"),
                fields.whole("accept_days"), fields.textOrNull("no_data"),
                if ("platforms" in fields) fields.texts("platforms") else listOf("app"),
                when (kind) {
                    Kind.LOCATION -> Place.of(fields.fields("location"))
                    Kind.NUMBER -> NumberDetails.of(fields.fields("details"))
                    Kind.PAIR -> PairDetails.of(fields.fields("details"))
                    Kind.STRING, Kind.CATEGORY, Kind.BOOLEAN -> NoDetails
                },
            )
        }
    }
}
