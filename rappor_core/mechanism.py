"""Two-round randomized response for each bit, with exact probabilities.

The permanent round turns a 1 into a 1 with probability `p1`, and a 0 into a 1 with probability
`q1`. The instantaneous round reports a 1 with probability `p2` for a permanent 1, and with
probability `q2` for a permanent 0. All four are integers divided by 2**16, and this module is the
only place that rounds them. The encoder, the decoder, every epsilon and `params_id` use the rounded
values, so devices behave exactly as promised.

RAPPOR (Erlingsson, Pihur, Korolova 2014, arXiv:1407.6981, sections 2 and 3) is the case p1 = 1 -
f/2, q1 = f/2, p2 = q, q2 = p. L-SUE and L-OSUE are two other choices of the same four probabilities
(Arcolezi et al. 2022, "Improving the utility of locally differentially private protocols for
longitudinal and multidimensional frequency estimates"). LOLOHA (Arcolezi, Pinzon, Palamidessi,
Gambs 2023, "Frequency estimation of evolving data under local differential privacy") reports one of
g symbols; each symbol alone behaves like one of these bits. One-shot OUE (Wang et al. 2017,
"Locally differentially private protocols for frequency estimation") has no first round.
"""

from __future__ import annotations

import math

from rappor_core.errors import InformationLostError, ParameterError, shown
from rappor_core.frozen import Frozen

PROBABILITY_BITS = 16
PROBABILITY_SCALE = 1 << PROBABILITY_BITS


def quantize(name: str, probability: float) -> int:
    """Round a probability in [0, 1] to a multiple of 2**-16, returned as its numerator.

    Raises ParameterError if the value is outside [0, 1] or NaN, or if a value other than
    0 or 1 would round to 0 or 1, because a rare event must not become impossible.
    """
    if isinstance(probability, bool) or not isinstance(probability, int | float):
        raise ParameterError(f"{name} = {shown(probability)} is not a number between 0 and 1")
    if not 0.0 <= probability <= 1.0:
        raise ParameterError(f"{name} = {probability!r} is not between 0 and 1")
    scaled = round(probability * PROBABILITY_SCALE)
    if scaled in (0, PROBABILITY_SCALE) and probability not in (0, 1):
        raise ParameterError(
            f"{name} = {probability!r} would be rounded to {scaled // PROBABILITY_SCALE}; "
            f"use 0 or 1 itself, or stay at least {1 / PROBABILITY_SCALE:.6f} away from it"
        )
    return scaled


class TwoRoundMechanism(Frozen):
    """The probabilities of both rounds for one bit on the device, as integers in [0, 2**16].

    They are public, because they are part of the metric's definition.
    """

    p1: int  # P(B'=1) for B=1
    q1: int  # P(B'=1) for B=0; p1 > q1
    p2: int  # P(S=1) for B'=1
    q2: int  # P(S=1) for B'=0; p2 != q2

    def __post_init__(self) -> None:
        for name in ("p1", "q1", "p2", "q2"):
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= PROBABILITY_SCALE:
                raise ParameterError(
                    f"{name} = {shown(value)} is not an integer between 0 and {PROBABILITY_SCALE}"
                )
        if self.p1 == self.q1:
            raise InformationLostError(
                f"the permanent response keeps nothing: p1 = q1 = {self.p1 / PROBABILITY_SCALE} "
                "(f = 1); choose f below 1"
            )
        if self.p1 < self.q1:
            raise ParameterError(f"p1 = {self.p1} is below q1 = {self.q1}; swap them")
        if self.p2 == self.q2:
            raise InformationLostError(
                f"the instantaneous response keeps nothing: "
                f"p = q = {self.p2 / PROBABILITY_SCALE}; choose q different from p"
            )

    @classmethod
    def rappor(cls, prob_f: float, prob_p: float, prob_q: float) -> TwoRoundMechanism:
        """Return RAPPOR's mechanism (arXiv:1407.6981, section 2).

        Args:
            prob_f: The parameter f, in [0, 1).
            prob_p: The probability of a 1 after a permanent 0, in [0, 1].
            prob_q: The probability of a 1 after a permanent 1, in [0, 1].

        Returns:
            The mechanism, with probabilities as multiples of 2**-16.

        Raises:
            InformationLostError: f rounds to 1, which removes all information about the value.
        """
        quantize("prob_f", prob_f)  # so that an error message shows prob_f, not prob_f / 2
        q1 = quantize("prob_f / 2", prob_f / 2)
        if 2 * q1 == PROBABILITY_SCALE:
            raise InformationLostError(
                f"prob_f = {prob_f!r}: the permanent response keeps nothing; choose f below 1"
            )
        p2 = quantize("prob_q", prob_q)
        return cls(p1=PROBABILITY_SCALE - q1, q1=q1, p2=p2, q2=quantize("prob_p", prob_p))

    @classmethod
    def symmetric(cls, epsilon_infinity: float, epsilon_one: float) -> TwoRoundMechanism:
        """Return L-SUE (RAPPOR's symmetric rounds) with these epsilons for a pair of bits.

        The second round is solved for the rounded first round. Both are rounded toward privacy, so
        the real epsilons are never too large.

        Args:
            epsilon_infinity: The epsilon of all reports of a value together, in nats.
            epsilon_one: The epsilon of one report, in nats, below `epsilon_infinity`.

        Returns:
            The mechanism, with probabilities as multiples of 2**-16.
        """
        _check_epsilons(epsilon_infinity, epsilon_one)
        p1 = math.floor(PROBABILITY_SCALE * _sigmoid(epsilon_infinity / 2))
        q1 = PROBABILITY_SCALE - p1
        target = PROBABILITY_SCALE * _sigmoid(epsilon_one / 2)
        _check_certain(epsilon_infinity, q1)
        second = (target - q1) / (p1 - q1) if p1 > q1 else 0.5
        return cls._solved(p1, q1, second, (epsilon_infinity, epsilon_one))

    @classmethod
    def optimized(cls, epsilon_infinity: float, epsilon_one: float) -> TwoRoundMechanism:
        """Return L-OSUE (p1 = 1/2, q_star = 1/2) with these epsilons for a pair of bits.

        Args:
            epsilon_infinity: The epsilon of all reports of a value together, in nats.
            epsilon_one: The epsilon of one report, in nats, below `epsilon_infinity`.

        Returns:
            The mechanism, rounded toward privacy as in `symmetric`.
        """
        _check_epsilons(epsilon_infinity, epsilon_one)
        q1 = math.ceil(PROBABILITY_SCALE * _sigmoid(-epsilon_infinity))
        target = PROBABILITY_SCALE * _sigmoid(epsilon_one)
        spread = PROBABILITY_SCALE - 2 * q1
        _check_certain(epsilon_infinity, q1)
        second = (target - q1) / spread if spread else 0.5
        return cls._solved(PROBABILITY_SCALE // 2, q1, second, (epsilon_infinity, epsilon_one))

    @classmethod
    def symbols(
        cls, num_symbols: int, epsilon_infinity: float, epsilon_one: float
    ) -> TwoRoundMechanism:
        """Return LOLOHA over g symbols: keep the symbol with probability p, or else change it.

        The wrong symbols are equally likely. Their probabilities are multiples of 2**-16, rounded
        toward privacy, and the true symbol has the remainder, so that the g probabilities add up
        exactly. The second round is solved for P(S = x | x) = e^epsilon_one / (e^epsilon_one + g -
        1), given the rounded first one.

        Args:
            num_symbols: The number of symbols g, 2 or more.
            epsilon_infinity: The epsilon of all reports of a value together, in nats.
            epsilon_one: The epsilon of one report, in nats.

        Returns:
            The mechanism, with probabilities as multiples of 2**-16.

        Raises:
            ParameterError: `epsilon_one` is too close to `epsilon_infinity`.
        """
        _check_epsilons(epsilon_infinity, epsilon_one)
        p1, q1 = _symbol_round("epsilon_infinity", num_symbols, epsilon_infinity)
        others = num_symbols - 1
        target = math.exp(epsilon_one) / (math.exp(epsilon_one) + others)
        keep = (target * PROBABILITY_SCALE - q1) / (p1 - q1)
        q2 = math.ceil(PROBABILITY_SCALE * (1 - keep) / others)
        if q2 < 0:
            raise ParameterError(
                f"epsilon_one = {epsilon_one!r} is too close to epsilon_infinity = "
                f"{epsilon_infinity!r}; lower epsilon_one"
            )
        return cls(p1=p1, q1=q1, p2=PROBABILITY_SCALE - others * q2, q2=q2)

    @classmethod
    def one_shot(cls, epsilon: float) -> TwoRoundMechanism:
        """Return OUE: no permanent round, p2 = 1/2, q2 = 1 / (e^epsilon + 1), rounded up."""
        _check_epsilon(epsilon)
        q2 = math.ceil(PROBABILITY_SCALE * _sigmoid(-epsilon))
        return cls(p1=PROBABILITY_SCALE, q1=0, p2=PROBABILITY_SCALE // 2, q2=q2)

    @classmethod
    def one_symbol(cls, num_symbols: int, epsilon: float) -> TwoRoundMechanism:
        """Return k-ary randomized response over g symbols, without a permanent round.

        Args:
            num_symbols: The number of symbols g, 2 or more.
            epsilon: The epsilon in nats; P(symbol kept) = e^epsilon / (e^epsilon + g - 1).

        Returns:
            The mechanism; the probabilities of wrong symbols are rounded up.
        """
        _check_epsilon(epsilon)
        p2, q2 = _symbol_round("epsilon", num_symbols, epsilon)
        return cls(p1=PROBABILITY_SCALE, q1=0, p2=p2, q2=q2)

    @classmethod
    def _solved(
        cls, p1: int, q1: int, p2: float, epsilons: tuple[float, float]
    ) -> TwoRoundMechanism:
        """Return the mechanism whose second round is symmetric, with P(S=1 | B'=1) = `p2`."""
        if p2 > 1:
            raise ParameterError(
                f"epsilon_one = {epsilons[1]!r} is too close to epsilon_infinity = "
                f"{epsilons[0]!r}: no instantaneous response can reach it with probabilities over "
                "2**16; lower epsilon_one"
            )
        truth = math.floor(PROBABILITY_SCALE * p2)
        return cls(p1=p1, q1=q1, p2=truth, q2=PROBABILITY_SCALE - truth)

    @property
    def rates(self) -> tuple[float, float, float, float]:
        """Return p1, q1, p2 and q2 as floats, without rounding."""
        scale = PROBABILITY_SCALE
        return self.p1 / scale, self.q1 / scale, self.p2 / scale, self.q2 / scale

    @property
    def has_permanent_round(self) -> bool:
        """Return whether there is a permanent round; False for one-time RAPPOR (f = 0).

        Without a permanent round, there is no bound on what many reports together reveal.
        """
        return self.p1 != PROBABILITY_SCALE or self.q1 != 0

    @property
    def q_star(self) -> float:
        """Return P(S=1 given B=1) as a float, without rounding."""
        return self._report_probability(self.p1)

    @property
    def p_star(self) -> float:
        """Return P(S=1 given B=0) as a float, without rounding."""
        return self._report_probability(self.q1)

    def _report_probability(self, permanent: int) -> float:
        mixed = permanent * self.p2 + (PROBABILITY_SCALE - permanent) * self.q2
        return mixed / (PROBABILITY_SCALE * PROBABILITY_SCALE)


def _symbol_round(name: str, num_symbols: int, epsilon: float) -> tuple[int, int]:
    """Return the probabilities, times 2**16, of keeping a symbol and of each other symbol.

    The latter is rounded up.
    """
    if type(num_symbols) is not int or not 2 <= num_symbols <= 256:
        raise ParameterError(f"num_symbols = {num_symbols!r} is not a whole number, 2 to 256")
    lie = math.ceil(PROBABILITY_SCALE / (math.exp(epsilon) + num_symbols - 1))
    keep = PROBABILITY_SCALE - (num_symbols - 1) * lie
    if keep <= lie:
        raise InformationLostError(f"{name} = {epsilon!r} keeps nothing")
    return keep, lie


def _check_certain(epsilon_infinity: float, q1: int) -> None:
    """Reject a first round without any noise: its epsilon is too large for multiples of 2**-16."""
    if q1 == 0:
        raise ParameterError(
            f"epsilon_infinity = {epsilon_infinity!r} is more than probabilities over "
            f"{PROBABILITY_SCALE} can promise; use 20 or less, or prob_f = 0 for none"
        )


def _check_epsilon(epsilon: float) -> None:
    if not 0 < epsilon < 11:
        raise ParameterError(f"epsilon = {epsilon!r} is not above 0 and below 11 nats")


def _check_epsilons(epsilon_infinity: float, epsilon_one: float) -> None:
    if not (math.isfinite(epsilon_infinity) and 0 < epsilon_one < epsilon_infinity):
        raise ParameterError(
            f"epsilon_one = {epsilon_one!r} must be above 0 and below "
            f"epsilon_infinity = {epsilon_infinity!r}, which must be finite"
        )


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))
