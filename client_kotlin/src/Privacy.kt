package rappor.telemetry

private const val SCALE = 65_536.0

/** Epsilons of the two rounds, in nats (docs/porting.md, part 10). */
internal object Privacy {
    /** The bound for all reports of one memoized value; infinite without a permanent round. */
    fun epsilonInfinity(params: Params): Double {
        val (p1, q1) = listOf(params.p1 / SCALE, params.q1 / SCALE)
        if (q1 == 0.0 || p1 == 1.0) return Double.POSITIVE_INFINITY
        return combine(params, Math.log(p1 / q1), Math.log((1 - q1) / (1 - p1)))
    }

    /** The bound for n reports of one memoized value. */
    fun epsilonN(params: Params, n: Int): Double {
        if (n == 0) return 0.0
        val (p1, q1) = listOf(params.p1 / SCALE, params.q1 / SCALE)
        val (p2, q2) = listOf(params.p2 / SCALE, params.q2 / SCALE)
        val ones = logMixture(p1, p2, q2, n) - logMixture(q1, p2, q2, n)
        val zeros = logMixture(q1, 1 - p2, 1 - q2, n) - logMixture(p1, 1 - p2, 1 - q2, n)
        return combine(params, ones, zeros)
    }

    /**
     * The most that each of n reports counts, whatever values they are of. The mean cost of symbols rises to one
     * peak and falls; that of bits falls from the first report on.
     */
    fun epsilonPerReport(params: Params, n: Int): Double {
        var most = 0.0
        for (reports in 1..if (params.hasSymbols) n else 1) {
            val mean = epsilonN(params, reports) / reports
            if (mean <= most) break
            most = mean
        }
        return most
    }

    /** The evidence of a bit that is set (`ones`) and of one that is clear (`zeros`), together. */
    private fun combine(params: Params, ones: Double, zeros: Double): Double {
        val (a, b) = listOf(Math.abs(ones), Math.abs(zeros))
        return when {
            params.hasSymbols -> ones
            params.encoding == Encoding.BOOLEAN -> maxOf(a, b)
            else -> params.numHashes * (a + b)
        }
    }

    private fun logMixture(weight: Double, ifOne: Double, ifZero: Double, n: Int): Double {
        val terms = listOf(weight to ifOne, 1 - weight to ifZero)
            .filter { (w, base) -> w > 0 && base > 0 }
            .map { (w, base) -> Math.log(w) + n * Math.log(base) }
        val largest = terms.maxOrNull() ?: return Double.NEGATIVE_INFINITY
        return largest + Math.log(terms.sumOf { Math.exp(it - largest) })
    }
}
