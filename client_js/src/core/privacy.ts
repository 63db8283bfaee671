/** Epsilons of the two rounds, in nats, as docs/porting.md ("What a response costs") has them. */

/** The fields of a definition that say how a value becomes bits, and what happens to each bit. */
export interface Params {
  readonly encoding: "bloom" | "one_hot" | "boolean" | "symbol" | "ordered" | "coded_prefix" | "flow_symbol";
  readonly hash: "mmh3" | "md5";
  readonly num_bits: number;
  readonly num_hashes: number;
  readonly num_cohorts: number;
  readonly p1: number;
  readonly q1: number;
  readonly p2: number;
  readonly q2: number;
}

const SCALE = 65536;

/** Whether exactly one bit is set, in B and in every report: the rounds exchange symbols. */
export const hasSymbols = ({ encoding }: Params): boolean => /sym|ord/.test(encoding); // symbol, ordered, flow_symbol

/** The evidence of a bit shown set (`ones`) and of one shown clear (`zeros`), together. */
const combine = (params: Params, ones: number, zeros: number): number => {
  if (hasSymbols(params)) return ones;
  const [a, b] = [Math.abs(ones), Math.abs(zeros)];
  return params.encoding === "boolean" ? Math.max(a, b) : params.num_hashes * (a + b);
};

/** Whether all reports of a value come from one memoized response. */
export const hasPermanentRound = (params: Params): boolean =>
  !(params.p1 === SCALE && params.q1 === 0);

/** The bound for all reports of one memoized value; infinite without a permanent round. */
export const epsilonInfinity = (params: Params): number => {
  const [p1, q1] = [params.p1 / SCALE, params.q1 / SCALE];
  if (q1 === 0 || p1 === 1) return Infinity;
  return combine(params, Math.log(p1 / q1), Math.log((1 - q1) / (1 - p1)));
};

const logMixture = (weight: number, ifOne: number, ifZero: number, n: number): number => {
  const terms: number[] = [];
  for (const [w, base] of [[weight, ifOne], [1 - weight, ifZero]] as const) {
    if (w > 0 && base > 0) terms.push(Math.log(w) + n * Math.log(base));
  }
  const largest = Math.max(...terms);
  if (largest === -Infinity) return largest;
  return largest + Math.log(terms.reduce((sum, term) => sum + Math.exp(term - largest), 0));
};

/** The bound for n reports of one memoized value; 0 for none. */
export const epsilonN = (params: Params, n: number): number => {
  if (n === 0) return 0;
  const [p1, q1] = [params.p1 / SCALE, params.q1 / SCALE];
  const [p2, q2] = [params.p2 / SCALE, params.q2 / SCALE];
  const ones = logMixture(p1, p2, q2, n) - logMixture(q1, p2, q2, n);
  const zeros = logMixture(q1, 1 - p2, 1 - q2, n) - logMixture(p1, 1 - p2, 1 - q2, n);
  return combine(params, ones, zeros);
};

/**
 * The most that each of n >= 1 reports of a life counts, whatever values they are of. The mean cost of
 * symbols rises to one peak and falls; that of bits falls from the first report on.
 */
export const epsilonPerReport = (params: Params, n: number): number => {
  let most = 0;
  for (let reports = 1; reports <= (hasSymbols(params) ? n : 1); reports++) {
    const mean = epsilonN(params, reports) / reports;
    if (mean <= most) break;
    most = mean;
  }
  return most;
};
