"""Two samples that were taken in pairs: how often are they that far apart by chance alone?

A permutation test. If it does not matter to a pair which of its two is which, exchanging them
changes nothing; so the statistic is held to those of random exchanges, each pair for itself. What
drifts from pair to pair, as a busy machine does, then hits both samples alike.
"""

import numpy

ROUNDS = 4999


def _signs(pairs, rounds, seed):
    """For each round and pair 1, or -1 for an exchange; the first round exchanges none."""
    rng = numpy.random.default_rng(seed)
    yield numpy.ones(pairs)
    for _ in range(rounds):
        yield rng.integers(0, 2, pairs) * 2.0 - 1.0


def _p_value(statistics):
    statistics = numpy.array(statistics)
    # Sums in another order may differ in their last bits.
    return float(numpy.mean(statistics >= statistics[0] * (1 - 1e-12)))


def distribution_p(pairs, rounds=ROUNDS, seed=1):
    """Kolmogorov and Smirnov's distance: any difference between the two distributions."""
    pairs = numpy.asarray(pairs, dtype=float)
    values = pairs.ravel()
    order = numpy.argsort(values, kind="stable")
    ends = numpy.append(numpy.flatnonzero(numpy.diff(values[order])), values.size - 1)

    def distance(signs):
        labels = numpy.column_stack((signs, -signs)).ravel()
        return numpy.abs(numpy.cumsum(labels[order])[ends]).max() / len(pairs)
    return _p_value([distance(signs) for signs in _signs(len(pairs), rounds, seed)])


def rank_p(pairs, rounds=ROUNDS, seed=1):
    """Mean rank: one sample tends to be greater, as Wilcoxon, Mann and Whitney ask."""
    pairs = numpy.asarray(pairs, dtype=float)
    values, places = numpy.unique(pairs.ravel(), return_inverse=True)
    counts = numpy.bincount(places, minlength=values.size)
    middles = numpy.cumsum(counts) - (counts - 1) / 2
    ranks = middles[places].reshape(pairs.shape)
    more = ranks[:, 0] - ranks[:, 1]
    return _p_value([abs(float(signs @ more)) for signs in _signs(len(pairs), rounds, seed)])
