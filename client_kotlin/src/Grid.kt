package rappor.telemetry

private const val ALPHABET = "0123456789bcdefghjkmnpqrstuvwxyz"
private const val MAX_CELLS = 1_000_000L

/** One cell of a level by its column and row: rows from the south, but for quadkeys from the north. */
internal data class Cell(val x: Int, val y: Int)

/** Cells of a grid over a box: quadkey, geohash and square (docs/porting.md, part 7). */
internal class Grid(private val fields: GridFields) {
    private val south = fields.box[0]
    private val west = fields.box[1]
    private val north = fields.box[2]
    private val east = fields.box[3]
    val finest: Int = fields.levels.last()

    /** The finest cell of a point in degrees, or null outside the box. Throws ValueRefused. */
    fun locate(latitude: Double, longitude: Double): Cell? {
        val inside = latitude in south..north && longitude in west..east
        val wrapped = if (inside) longitude else wrapped(latitude, longitude)
        return if (inside || inBox(latitude, wrapped)) square(latitude, wrapped, finest) else null
    }

    /** The value of a finest cell at a level. */
    fun value(cell: Cell?, level: Int): String = if (cell == null) OTHER else name(parent(cell, level), level)

    /** The integer by which cells of a level are ordered. */
    fun code(cell: Cell, level: Int): Long = when (fields.kind) {
        GridKind.SQUARE -> cell.y.toLong() * (fields.columns.toLong() shl level) + cell.x
        GridKind.QUADKEY -> interleave(cell.x, cell.y)
        GridKind.GEOHASH -> if (level % 2 == 1) interleave(cell.x, cell.y) else interleave(cell.y, cell.x)
    }

    /** Every value of a level with its bit: the cells of the box by code, `other`, and `no_data` if declared. */
    fun domain(level: Int, noData: String?): Map<String, Int> {
        val names = cells(level).sortedBy { code(it, level) }.map { name(it, level) }
        return (names + listOfNotNull(OTHER, noData)).withIndex().associate { (bit, name) -> name to bit }
    }

    private fun parent(cell: Cell, level: Int): Cell {
        val (fine, coarse) = listOf(bits(finest), bits(level))
        return Cell(cell.x shr fine.first - coarse.first, cell.y shr fine.second - coarse.second)
    }

    private fun name(cell: Cell, level: Int): String {
        if (fields.kind == GridKind.SQUARE) return "$level-${cell.y}-${cell.x}"
        val each = if (fields.kind == GridKind.QUADKEY) 2 else 5
        val code = code(cell, level)
        return String(CharArray(level) { i -> ALPHABET[(code shr each * (level - 1 - i)).toInt() and (1 shl each) - 1] })
    }

    private fun cells(level: Int): List<Cell> {
        val (first, last) = listOf(square(south, west, level), square(north, east, level))
        val rows = minOf(first.y, last.y)..maxOf(first.y, last.y)
        val width = size(level).first
        val spans = when {
            fields.kind == GridKind.SQUARE -> listOf(0 until width)
            west <= east -> listOf(first.x..last.x)
            last.x >= first.x -> listOf(0 until width)
            else -> listOf(first.x until width, 0..last.x)
        }
        val number = spans.sumOf { it.last.toLong() - it.first + 1 } * (rows.last.toLong() - rows.first + 1)
        if (number > MAX_CELLS) throw FormatException("grid: more than a million cells")
        return rows.flatMap { y -> spans.flatMap { span -> span.map { x -> Cell(x, y) } } }
    }

    private fun inBox(latitude: Double, longitude: Double): Boolean {
        if (latitude !in south..north) return false
        return if (west <= east) longitude in west..east else longitude >= west || longitude <= east
    }

    private fun wrapped(latitude: Double, longitude: Double): Double {
        if (!isFinite(latitude) || !isFinite(longitude)) throw ValueRefused("a point is not finite")
        if (Math.abs(longitude) > 360) throw ValueRefused("a point has a longitude that is not between -360 and 360 degrees")
        val wrapped = ((longitude + 180) % 360 + 360) % 360 - 180
        if (Math.abs(longitude) <= 90 && inBox(longitude, latitude)) {
            throw ValueRefused("a point lies in the box only with latitude and longitude swapped")
        }
        if (Math.abs(latitude) > 90) throw ValueRefused("a point has a latitude that is not between -90 and 90 degrees")
        return if (wrapped == -180.0 && !inBox(latitude, wrapped)) 180.0 else wrapped
    }

    private fun isFinite(number: Double): Boolean = !number.isNaN() && !number.isInfinite()

    /** Columns and rows of a level. */
    private fun size(level: Int): Pair<Int, Int> = when (fields.kind) {
        GridKind.SQUARE -> Pair(fields.columns shl level, fields.rows shl level)
        else -> bits(level).let { (forX, forY) -> Pair(1 shl forX, 1 shl forY) }
    }

    /** Binary digits of column and row at a level. */
    private fun bits(level: Int): Pair<Int, Int> =
        if (fields.kind == GridKind.GEOHASH) Pair((5 * level + 1) / 2, 5 * level / 2) else Pair(level, level)

    private fun square(latitude: Double, longitude: Double, level: Int): Cell {
        val (columns, rows) = size(level)
        val turn = (longitude + 180) / 360
        return when (fields.kind) {
            GridKind.GEOHASH -> Cell(clamp(turn * columns, columns), clamp((latitude + 90) / 180 * rows, rows))
            GridKind.QUADKEY -> {
                val sine = Math.sin(latitude * (Math.PI / 180))
                val down = if (sine > -1 && sine < 1) 0.5 - atanh(sine) * (1 / (2 * Math.PI)) else -sine
                Cell(clamp(turn * columns, columns), clamp(down * rows, rows))
            }
            GridKind.SQUARE -> {
                val ahead = longitude - west
                val across = (if (west > east && ahead < 0) ahead + 360 else ahead) / (east - west + if (west > east) 360 else 0)
                Cell(clamp(across * columns, columns), clamp((latitude - south) / (north - south) * rows, rows))
            }
        }
    }

    private fun clamp(value: Double, size: Int): Int = value.toInt().coerceIn(0, size - 1)

    /** As fdlibm computes it, so that every client has the same cell for a point on an edge. */
    private fun atanh(x: Double): Double {
        val size = Math.abs(x)
        val half = if (size < 0.5) Math.log1p(2 * size + 2 * size * size / (1 - size)) else Math.log1p(2 * size / (1 - size))
        return if (x < 0) -0.5 * half else 0.5 * half
    }

    private fun interleave(low: Int, high: Int): Long {
        var code = 0L
        for (i in 31 downTo 0) code = code shl 2 or (high ushr i and 1).toLong() * 2 or (low ushr i and 1).toLong()
        return code
    }
}
