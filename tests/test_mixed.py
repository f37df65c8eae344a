"""Mixed networks: answers against brute force, and learning."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from conjoin import Domain, Table
from conjoin.data.columns import Column
from conjoin.data.domain import Variable
from conjoin.data.frames import columns_of
from conjoin.data.mixed_table import MixedDomain, MixedTable
from conjoin.data.number_scale import NumberScale
from conjoin.errors import DataError, ModelError
from conjoin.inference.mixed import MixedAnswers, log_density
from conjoin.inference.number_distribution import NumberDistributions
from conjoin.joint.gaussian_mixture import GaussianPrior, GaussianRows
from conjoin.joint.mixed_learning import EFFORTS, _Learning, learn_mixed
from conjoin.joint.mixture_choices import PRIORS, priors_for
from conjoin.joint.mixture_fit import FitSettings, MixedRows, MixtureFit
from conjoin.joint.number_maps import MapChoice, choose_map, find_atoms, learn_map, log_mass
from conjoin.models.gaussians import Gaussians, Scores, log_cell
from conjoin.models.markov import MarkovNetwork, TableFactor
from conjoin.models.mixed import REST, BinnedComponent, GaussianComponent, MixedNetwork
from conjoin.models.number_map import NumberMap
from mixed_reference import slow_probability

SEEDS = range(4)


def scale(name, step=1.0, low=0.0, high=20.0):
    return NumberScale(name, "number", step == 1.0, step, low, high)


def random_map(rng, step=1.0, atoms=()):
    values = np.concatenate([[-3.0], np.sort(rng.choice(np.arange(0, 20), 5, False)) + 0.5, [24.0]])
    scores = np.sort(rng.normal(0, 1.5, 7)) + np.arange(7) * 0.05
    return NumberMap(values, scores, step, np.array(atoms, float))


def covariance(rng, size):
    root = rng.normal(0, 0.7, (size, size))
    return root @ root.T + 0.2 * np.eye(size)


def random_model(seed, *, binned=True, atoms=True):
    """A small model: two categories, three numbers (one with an atom), three hidden states.

    With an odd seed, two of the hidden states allow one state of a category only.
    """
    rng = np.random.default_rng(seed)
    a, b = Variable("a", ["u", "v"]), Variable("b", ["x", "y", "z"])
    maps = (
        random_map(rng),
        random_map(rng, atoms=[7.0] if atoms else []),
        random_map(rng),
    )
    domain = MixedDomain(Domain([a, b]), tuple(map(scale, "pqr")), ("q", "a", "p", "b", "r"))
    own = [Variable("q", [7.0, REST])] if atoms else []
    hidden = Variable("(hidden)", range(3), hidden=True)
    variables = Domain([a, b, *own, hidden])
    cards = variables.cards.tolist()
    scopes = [(0, 1, len(cards) - 1)] + ([(1, 2, 3)] if atoms else [])
    factors = [TableFactor(s, rng.normal(0, 1, [cards[v] for v in s])) for s in scopes]
    if seed % 2:  # the first two hidden states imply a state of a category
        implied = np.array([[0.0, -np.inf, 0.0], [-np.inf, 0.0, 0.0]])
        factors.append(TableFactor((0, len(cards) - 1), implied))
    total = np.zeros(cards)
    for factor in factors:
        shape = [cards[v] if v in factor.variables else 1 for v in range(len(cards))]
        total = total + factor.table.reshape(shape)
    norm = np.log(np.exp(total).sum())
    factors.append(TableFactor((len(cards) - 1,), np.full(3, -norm)))
    gaussians = Gaussians(
        rng.normal(0, 1, (3, 3)), np.stack([covariance(rng, 3) for _ in range(3)])
    )
    components = [GaussianComponent(MarkovNetwork(variables, factors=factors), gaussians)]
    if binned:
        cuts, bins = [], []
        for name, mapped in zip("pqr", maps, strict=True):
            edges = mapped.to_scores(np.sort(rng.choice(np.arange(1, 19), 2, False)) + 0.5)
            cuts.append(edges)
            bins.append(Variable(name, range(3 + len(mapped.atoms))))
        names = Domain([a, b, *bins])
        pairs = [(0, 2), (1, 3), (2, 3), (3, 4), (0, 4)]
        size = names.cards.tolist()
        tables = [TableFactor(s, rng.normal(0, 1, [size[v] for v in s])) for s in pairs]
        components.append(BinnedComponent(MarkovNetwork(names, factors=tables), tuple(cuts)))
    shares = np.array([0.6, 0.4]) if binned else np.ones(1)
    return MixedNetwork(domain, maps, tuple(components), shares)


def rows_of(model, rows):
    """Rows as mappings; absent columns are missing."""
    categories = model.domain.categories
    table = Table.from_rows(categories, [{n: r.get(n) for n in categories.names} for r in rows])
    numbers = [[r.get(name, np.nan) for name in model.domain.numeric] for r in rows]
    return MixedTable(model.domain, table, np.array(numbers, float))


def mass(model, row):
    return float(np.exp(MixedAnswers(model, rows_of(model, [row])).log_mass()[0]))


def slow_gaussian_mass(model, component, row):
    """The probability of a complete row under a Gaussian component, from the definition."""
    total, network = 0.0, component.network
    for z in range(len(component.gaussians.means)):
        states = {"a": row["a"], "b": row["b"], "(hidden)": z}
        if "q" in network.domain.names:
            states["q"] = 7.0 if row["q"] == 7 else REST
        codes = [network.domain[name].index(states[name]) for name in network.domain.names]
        log_p = sum(f.table[tuple(codes[v] for v in f.variables)] for f in network.factors)
        p, seen, at = np.exp(log_p), [], []
        mean, cov = component.gaussians.means[z], component.gaussians.covariances[z]
        for j, name in enumerate(model.numbers):
            if row[name] in model.maps[j].atoms:
                continue
            low, high = (e[0] for e in model.maps[j].cell(np.array([row[name]], float)))
            m, v = mean[j], cov[j, j]
            if seen:
                slope = np.linalg.solve(cov[np.ix_(seen, seen)], cov[seen, j])
                m, v = m + slope @ (np.array(at) - mean[seen]), v - slope @ cov[seen, j]
            p *= stats.norm.cdf(high, m, v**0.5) - stats.norm.cdf(low, m, v**0.5)
            seen.append(j)
            at.append((low + high) / 2)
        total += p
    return total


def slow_binned_mass(model, component, row):
    network = component.network
    states = dict(row)
    within = 1.0
    for j, name in enumerate(model.numbers):
        mapped = model.maps[j]
        if row[name] in mapped.atoms:
            states[name] = list(mapped.atoms).index(row[name])
            continue
        low, high = (e[0] for e in mapped.cell(np.array([row[name]], float)))
        ends = [-np.inf, *component.cuts[j], np.inf]
        k = int(np.searchsorted(component.cuts[j], (low + high) / 2))
        states[name] = k + len(mapped.atoms)
        whole = stats.norm.cdf(ends[k + 1]) - stats.norm.cdf(ends[k])
        within *= (stats.norm.cdf(high) - stats.norm.cdf(low)) / whole
    names = network.domain.names

    def potential(codes):
        return np.exp(sum(f.table[tuple(codes[v] for v in f.variables)] for f in network.factors))

    norm = sum(potential(codes) for codes in product(*map(range, network.domain.cards)))
    return within * potential([network.domain[n].index(states[n]) for n in names]) / norm


ROWS = [
    {"a": "u", "b": "z", "p": 3, "q": 7, "r": 11},
    {"a": "v", "b": "x", "p": 18, "q": 2, "r": 1},
    {"a": "v", "b": "y", "p": 25, "q": 9, "r": -4},
]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_probability_of_complete_rows_is_that_of_the_definition(seed):
    model = random_model(seed)
    for row in ROWS:
        expected = model.shares[0] * slow_gaussian_mass(model, model.components[0], row)
        expected += model.shares[1] * slow_binned_mass(model, model.components[1], row)
        assert mass(model, row) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_missing_categories_are_summed_out(seed):
    model = random_model(seed)
    for known in ({"p": 3, "q": 7}, {"q": 4, "r": 11, "a": "u"}, {"b": "y"}, {}):
        free = [n for n in "ab" if n not in known]
        states = [model.domain.categories[n].states for n in free]
        parts = [
            mass(model, {**known, **dict(zip(free, s, strict=True))}) for s in product(*states)
        ]
        assert mass(model, known) == pytest.approx(sum(parts), rel=1e-9)
    assert mass(model, {}) == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_values_of_a_number_have_probability_1(seed):
    model = random_model(seed)
    known = {"a": "u", "q": 3, "p": 4}
    values = np.arange(-3000, 3000)
    parts = [mass(model, {**known, "r": float(r)}) for r in values[::1] if -200 < r < 200]
    assert sum(parts) == pytest.approx(mass(model, known), rel=1e-9)


def density(model, row):
    return float(np.exp(log_density(model, rows_of(model, [row]))[0]))


def as_known(row):
    return {n: {v: 1.0} if isinstance(v, str) else float(v) for n, v in row.items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_density_of_rows_is_that_of_the_definition(seed):
    model = random_model(seed)
    for row in [*ROWS, {"p": 3, "r": 5}, {"q": 7, "b": "x"}, {"a": "u"}, {}]:
        assert density(model, row) == pytest.approx(
            slow_probability(model, as_known(row)), rel=1e-9
        )


@pytest.mark.parametrize("seed", range(12))
def test_the_chain_rule_holds_in_any_order(seed):
    """P(a, b, ...) = P(a) P(b | a) ..., whichever column comes first."""
    rng = np.random.default_rng(seed)
    model = random_model(seed, binned=bool(seed % 3))
    steps = rng.choice([1.0, 0.5, 2.0], 3)
    maps = tuple(replace(m, step=step) for m, step in zip(model.maps, steps, strict=True))
    model = replace(model, maps=maps)
    row = dict(ROWS[seed % 3])
    names = rng.permutation(list(row))[: rng.integers(2, 6)].tolist()
    total, known = 0.0, {}
    for name in names:
        answers = MixedAnswers(model, rows_of(model, [known]))
        if name in model.numbers:
            p = answers.number(name)[0].density(row[name])
        else:
            p = answers.category(name)[0][model.domain.categories[name].index(row[name])]
        total += np.log(p)
        known[name] = row[name]
    assert log_density(model, rows_of(model, [known]))[0] == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_categories_given_the_rest(seed):
    model = random_model(seed)
    known = [{"p": 3, "q": 7, "b": "x"}, {"r": 3}, {}, {"q": 9, "p": 14, "r": 0, "b": "z"}]
    found = MixedAnswers(model, rows_of(model, [{**k, "a": "u"} for k in known])).category("a")
    for row, p in zip(known, found, strict=True):
        parts = [slow_probability(model, as_known({**row, "a": s})) for s in "uv"]
        assert p == pytest.approx(np.array(parts) / np.sum(parts), abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["r", "q", "p"])
def test_numbers_given_the_rest(name, seed):
    model = random_model(seed)
    known = [{"b": "x"}, {"a": "u"}, {}, {"a": "v", "b": "z"}]
    for j, other in enumerate(n for n in "pqr" if n != name):
        known[j] |= {other: 3 + 4 * j}
        known[3] |= {other: 14}
    answers = MixedAnswers(model, rows_of(model, known)).number(name)
    for i, row in enumerate(known):
        one, whole = answers[i], slow_probability(model, as_known(row))

        def true(low, high, row=row, whole=whole):
            return slow_probability(model, as_known(row) | {name: [(low, high, 1.0)]}) / whole

        for x in (0, 5, 12, 19):
            assert one.probability(x, x) == pytest.approx(true(x - 0.5, x + 0.5), abs=1e-9)
            at = slow_probability(model, as_known(row) | {name: float(x)}) / whole
            assert one.density(x) == pytest.approx(at, abs=1e-9)
        assert one.probability(2, 12) == pytest.approx(true(1.5, 12.5), abs=1e-9)
        assert one.cdf(5) == pytest.approx(true(-np.inf, 5.5), abs=1e-9)
        assert one.cdf(5) + one.probability(6) == pytest.approx(1, abs=1e-9)
        assert one.probability(high=5) == pytest.approx(one.cdf(5), abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_densities_are_derivatives_of_the_cdf(seed):
    """Knots are between recorded values here, so that the map is a line around each of these."""
    model = random_model(seed, atoms=False)
    answers = MixedAnswers(model, rows_of(model, [{"p": 3, "b": "x"}, {"a": "u", "q": 4}, {}]))
    found, h = answers.number("r"), 1e-4
    for x in (1.0, 8.0, 13.0):
        ends = [found._score_cdf(found.map.to_scores(np.full(3, x + e))) for e in (-h, h)]
        assert found.density(x) == pytest.approx((ends[1] - ends[0]) / (2 * h), rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_atoms_given_the_rest(seed):
    model = random_model(seed)
    known = [{"p": 3, "b": "x"}, {"a": "u"}, {}]
    answers = MixedAnswers(model, rows_of(model, known)).number("q")
    for i, row in enumerate(known):
        true = density(model, {**row, "q": 7}) / density(model, row)
        assert answers.atoms[i, 0] == pytest.approx(true, rel=1e-9)
        assert answers.atoms[i].sum() + answers.weights[i].sum() == pytest.approx(1, abs=1e-9)
        one = answers[i]
        jump = one.cdf(7) - one.cdf(6)
        assert jump > answers.atoms[i, 0]
        assert one.probability(7, 7) == pytest.approx(jump, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_means_and_deviations_are_integrals(seed):
    model = random_model(seed)
    known = [{"p": 3, "b": "x"}, {}, {"r": 2, "a": "v"}]
    answers = MixedAnswers(model, rows_of(model, known)).number("q")
    mapped = answers.map
    for i in range(len(known)):

        def moment(power, i=i):
            total = float(answers.atoms[i] @ mapped.atoms**power)
            parts = zip(answers.weights[i], answers.means[i], answers.sds[i], answers.low, answers.high,
                        strict=True)  # fmt: skip
            for w, m, sd, low, high in parts:
                ends = np.unique(np.clip([m - 12 * sd, *mapped.scores, m, m + 12 * sd], low, high))
                ends = ends[(ends >= m - 12 * sd) & (ends <= m + 12 * sd)]
                inside = stats.norm.cdf(high, m, sd) - stats.norm.cdf(low, m, sd)
                if len(ends) < 2 or inside < 1e-14:
                    continue
                for a, b in pairwise(ends):
                    value, _ = integrate.quad(
                        lambda s, m=m, sd=sd: mapped.to_values(np.array([s]))[0] ** power
                        * stats.norm.pdf(s, m, sd), a, b, epsabs=1e-12, epsrel=1e-12)  # fmt: skip
                    total += w * value / inside
            return total

        mean, square = moment(1), moment(2)
        assert answers[i].mean() == pytest.approx(mean, abs=1e-8)
        assert answers[i].sd() == pytest.approx(np.sqrt(square - mean**2), abs=1e-7)


@pytest.mark.parametrize("seed", SEEDS)
def test_quantiles_invert_the_cdf(seed):
    model = random_model(seed)
    answers = MixedAnswers(model, rows_of(model, [{"p": 3, "b": "x"}, {}]))
    for name in "pqr":
        for i in range(2):
            one = answers.number(name)[i]
            for p in (0.01, 0.3, 0.5, 0.77, 0.999):
                value = one.quantile(p)
                assert isinstance(value, int)
                assert one.cdf(value) >= p - 1e-9
                assert one.cdf(value - 1) < p + 1e-9
            low, high = one.interval(0.8)
            assert one.probability(low - 1, high + 1) >= 0.8 - 1e-9
            assert one.quantile(0.1) <= low <= high <= one.quantile(0.9)
            assert one.median() == one.quantile(0.5)
            assert one.probability(one.mode(), one.mode()) > 0


def test_a_draw_has_the_frequencies_of_the_model():
    model = random_model(1)
    given = {"p": 5, "b": "y"}
    rows = rows_of(model, [given] * 4000)
    drawn = MixedAnswers(model, rows, random_state=3).draws(1)[0]
    again = MixedAnswers(model, rows, random_state=3).draws(1)[0]
    assert (drawn.numbers == again.numbers).all()
    assert (drawn.column("p") == 5).all()
    assert not drawn.holes.any()
    answers = MixedAnswers(model, rows_of(model, [given]))
    share = (drawn.categories.codes[:, 0] == 0).mean()
    assert share == pytest.approx(answers.category("a")[0, 0], abs=0.03)
    for name in "qr":
        one = answers.number(name)[0]
        for x in (3, 7, 11):
            assert (drawn.column(name) <= x).mean() == pytest.approx(one.cdf(x), abs=0.03)


def test_likely_values():
    model = random_model(2)
    rows = rows_of(model, [{"p": 5, "b": "y"}, {"a": "u", "q": 7}, {}])
    answers = MixedAnswers(model, rows)
    for how in ("mean", "median", "mode"):
        filled = answers.likely(how)
        assert not filled.holes.any()
        assert (
            filled.numbers[~np.isnan(rows.numbers)] == rows.numbers[~np.isnan(rows.numbers)]
        ).all()
        expected = getattr(answers.number("r"), how)()
        assert filled.column("r") == pytest.approx(np.rint(expected))
    assert (filled.categories.codes[1:, 1] == answers.category("b")[1:].argmax(axis=1)).all()
    with pytest.raises(ModelError, match="mean"):
        answers.likely("best")


def test_tables_of_other_columns_are_rejected():
    model = random_model(0)
    other = MixedDomain(Domain([Variable("a", ["u", "v"])]), (scale("p"),), ("a", "p"))
    table = MixedTable(other, Table.from_rows(other.categories, [("u",)]), np.ones((1, 1)))
    with pytest.raises(DataError, match="columns"):
        MixedAnswers(model, table)


def test_log_density_is_per_unit():
    """A finer grid changes neither densities nor what follows from them."""
    model = random_model(0, atoms=False)
    half = tuple(replace(m, step=0.5) for m in model.maps)
    finer = replace(model, maps=half)
    rows = rows_of(model, [ROWS[0], {"a": "u", "p": 3}])
    assert log_density(finer, rows) == pytest.approx(log_density(model, rows), abs=1e-9)
    mass = MixedAnswers(finer, rows).log_mass()
    assert log_density(finer, rows) == pytest.approx(mass + np.array([3, 1]) * np.log(2), abs=0.05)


def test_cells():
    z, width = np.array([0.3, -5.0, 9.0, 0.0]), np.array([1.0, 0.5, 0.1, 1e-6])
    exact = stats.norm.sf(np.abs(z) - width / 2) - stats.norm.sf(np.abs(z) + width / 2)
    assert log_cell(z, width) == pytest.approx(np.log(exact), rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_conditionals_of_gaussians(seed):
    rng = np.random.default_rng(seed)
    gaussians = Gaussians(
        rng.normal(0, 1, (2, 3)), np.stack([covariance(rng, 3) for _ in range(2)])
    )
    middle = np.array([[0.3, np.nan, -1.0], [np.nan, 5.0, 0.4], [np.nan] * 3])
    for rows, means, sds in gaussians.conditionals(Scores(middle, np.ones((3, 3))), 1):
        for i, r in enumerate(rows):
            known = [j for j in (0, 2) if not np.isnan(middle[r, j])]
            for z in range(2):
                m, c = gaussians.means[z], gaussians.covariances[z]
                gain = c[1, known] @ np.linalg.inv(c[np.ix_(known, known)])
                assert means[i, z] == pytest.approx(m[1] + gain @ (middle[r, known] - m[known]))
                assert sds[z] ** 2 == pytest.approx(c[1, 1] - gain @ c[known, 1])


def correlated(rng, rows, holes=0.0):
    z = rng.integers(0, 2, rows)
    x = rng.normal(0, 1, (rows, 3)) @ np.array([[1, 0.8, 0.1], [0, 0.5, 0.2], [0, 0, 1]])
    x += 2 * z[:, None]
    x[rng.random(x.shape) < holes] = np.nan
    return Scores(x, np.full(x.shape, 0.2))


def test_one_hidden_state_is_a_gaussian_copula():
    rng = np.random.default_rng(0)
    scores = correlated(rng, 200)
    rows = GaussianRows(scores, np.ones(200))
    prior = GaussianPrior(0.0, 0.0, 0.0)
    start = rows.start(1, prior, rng)
    found = rows.update(start, np.ones((200, 1)), prior)
    assert found.means[0] == pytest.approx(scores.middle.mean(axis=0))
    expected = np.cov(scores.middle.T, ddof=0) + 0.2**2 / 12 * np.eye(3)
    assert found.covariances[0] == pytest.approx(expected)


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_a_share_of_the_variance_within_cells_is_that_of_narrower_cells(share):
    rng = np.random.default_rng(5)
    scores, posterior = correlated(rng, 100, 0.3), rng.dirichlet(np.ones(2), 100)
    scores = Scores(scores.middle, rng.uniform(0.1, 2.0, scores.middle.shape))
    narrower = Scores(scores.middle, scores.width * np.sqrt(share))
    prior = GaussianPrior(4.0, 1e-3, cells=share)
    one, two = (GaussianRows(given, np.ones(100)) for given in (scores, narrower))
    start = one.start(2, prior, rng)
    found = one.update(start, posterior, prior)
    expected = two.update(start, posterior, prior._replace(cells=1.0))
    assert found.covariances == pytest.approx(expected.covariances, abs=1e-9)
    assert found.means == pytest.approx(expected.means, abs=1e-9)
    assert one.log_densities(found, share) == pytest.approx(two.log_densities(found), abs=1e-9)


@pytest.mark.parametrize("patterns", [0, 24])
def test_em_finds_the_gaussian_of_rows_with_holes(patterns):
    rng = np.random.default_rng(1)
    x = rng.multivariate_normal([1, -1], [[1, 0.8], [0.8, 1]], 6000)
    x[x[:, 0] > 1.5, 1] = np.nan  # missing at random: it depends on what is known
    scores = Scores(x, np.full(x.shape, 1e-6))
    rows = GaussianRows(scores, np.ones(len(x)), patterns)
    prior = GaussianPrior(0.0, 1e-9, 0.0)
    found = rows.start(1, prior, rng)
    for _ in range(60):
        posterior = np.ones((len(x), 1))
        rows.fill(found, posterior, rng)
        found = rows.update(found, posterior, prior)
    assert found.means[0] == pytest.approx([1, -1], abs=0.08)
    assert found.covariances[0] == pytest.approx(np.array([[1, 0.8], [0.8, 1]]), abs=0.08)


def test_em_never_lowers_the_likelihood():
    rng = np.random.default_rng(2)
    rows = GaussianRows(correlated(rng, 300, 0.2), np.ones(300))
    prior = GaussianPrior(0.0, 0.0, 0.0)
    found, last = rows.start(3, GaussianPrior(0.0, 1e-2, 0.0), rng), -np.inf
    shares = np.full(3, 1 / 3)
    for _ in range(15):
        logs = rows.log_densities(found) + np.log(shares)
        value = float(np.logaddexp.reduce(logs, axis=1).sum())
        assert value >= last - 1e-6
        last = value
        posterior = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
        shares = posterior.mean(axis=0)
        found = rows.update(found, posterior, prior)


def test_draws_and_sums_over_missing_numbers_agree():
    rng = np.random.default_rng(3)
    scores = correlated(rng, 3000, 0.3)
    found = []
    for patterns in (0, 24):
        rows = MixedRows(
            scores, np.zeros((3000, 0), np.int64), np.zeros(0, np.int64), np.ones(3000)
        )
        rows.numbers = GaussianRows(scores, np.ones(3000), patterns)
        fit = MixtureFit(FitSettings(2, GaussianPrior(4, 1e-4)), None, np.random.default_rng(0))
        found.append(fit.fit(rows).score(rows))
    assert found[0] == pytest.approx(found[1], abs=0.03)


def test_atoms_are_far_more_frequent_than_their_neighbours():
    rng = np.random.default_rng(0)
    smooth = np.round(rng.normal(50, 10, 900))
    ones = np.ones(1000)
    assert find_atoms(np.append(smooth, np.zeros(100)), ones).tolist() == [0]
    assert not len(find_atoms(np.round(rng.normal(0, 1.5, 1000)), ones))
    assert find_atoms(np.full(10, 3.0), np.ones(10)).tolist() == [3]


@pytest.mark.parametrize("choice", [MapChoice(4, False), MapChoice(32, False), MapChoice(8, True)])
def test_the_probabilities_of_recorded_values_add_up(choice):
    rng = np.random.default_rng(0)
    values = np.round(rng.gamma(2, 15, 500))
    mapped = learn_map(values, np.ones(500), 1.0, np.zeros(0), choice)
    grid = np.arange(-2000, 3000.0)
    low, high = mapped.cell(grid)
    total = np.sum(stats.norm.cdf(high) - stats.norm.cdf(low))
    assert total == pytest.approx(1, abs=1e-9)
    assert (np.diff(mapped.values) > 0).all()
    assert (np.diff(mapped.scores) > 0).all()


ONE_SIDED = {
    "counts": lambda rng: rng.poisson(2, 200).astype(float),
    "positive": lambda rng: np.round(rng.gamma(2, 15, 80) + 1),
    "spread": lambda rng: np.round(rng.uniform(3, 9000, 60)),
    "fractions": lambda rng: rng.random(100),
    "scaled": lambda rng: (x := rng.random(100) - 0.3, (x - x.min()) / np.ptp(x))[1],
}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", ONE_SIDED)
def test_tails_of_values_on_one_side_of_zero_end_there(kind, sign):
    values = sign * ONE_SIDED[kind](np.random.default_rng(0))
    scale_ = NumberScale.of("x", values.tolist())
    mapped = learn_map(values, np.ones(len(values)), scale_.step, np.zeros(0), MapChoice(8, False))
    assert (np.diff(mapped.values) > 0).all() and (np.diff(mapped.scores) > 0).all()
    scores = np.linspace(-7.99, 7.99, 4001)
    drawn = np.asarray(scale_.rounded(mapped.to_values(scores)))
    assert (sign * drawn >= 0).all() and (np.diff(drawn) >= 0).all()
    # recorded values are where they were; beyond 0 the map goes on, for evidence that is impossible
    np.testing.assert_allclose(mapped.to_values(mapped.to_scores(values)), values, atol=1e-9)
    assert 5 < np.abs(mapped.to_scores(np.array([-sign * np.ptp(values)]))[0]) < 1000
    ends = mapped.values[[0, -1]] + [-20 * np.ptp(values), 20 * np.ptp(values)]
    knots = np.unique(np.concatenate([mapped.values, ends]))
    at = mapped.to_scores(knots)
    assert stats.norm.cdf(at[-1]) - stats.norm.cdf(at[0]) == pytest.approx(1, abs=1e-12)
    one, none = np.ones((1, 1)), np.full(1, np.inf)
    found = NumberDistributions(scale_, mapped, one[:, :0], one, 0 * one, one, -none, none)
    total = sum(
        integrate.quad(lambda x: found.density(x)[0], low, high)[0]
        for low, high in pairwise(knots.tolist())
        if high - low > 1e-12
    )
    assert total == pytest.approx(1, abs=1e-4)
    fine = mapped.to_values(stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000))
    assert found.mean()[0] == pytest.approx(fine.mean(), rel=1e-3)
    assert found.sd()[0] == pytest.approx(fine.std(), rel=1e-2)
    assert sign * found.sample(np.random.default_rng(0))[0] >= 0


def test_other_tails_are_lines():
    rng = np.random.default_rng(0)
    choice, none = MapChoice(8, False), np.zeros(0)
    both, far = np.round(rng.normal(0, 20, 300)), np.round(rng.normal(900, 20, 300))
    for values, signed in ((both, True), (far, True), (np.abs(both), False)):
        mapped = learn_map(values, np.ones(300), 1.0, none, choice, signed=signed)
        # a line shifts with the values
        shifted = learn_map(values + 1e5, np.ones(300), 1.0, none, choice)
        np.testing.assert_allclose(mapped.values + 1e5, shifted.values, atol=1e-6)
        np.testing.assert_allclose(mapped.scores, shifted.scores)


def test_draws_stay_on_their_side_of_zero():
    rng = np.random.default_rng(3)
    size = rng.gamma(1.0, 900, 90)
    frame = {
        "boils": np.round(size + 4),
        "debt": -np.round(size * rng.random(90), 2),
        "x": size - 500,
    }
    table = MixedTable.of_columns([Column.of_values(n, v.tolist()) for n, v in frame.items()])
    model = learn_mixed(table)
    drawn = MixedAnswers(model, _no_values(table.domain, 20_000)).draws(1)[0]
    assert (drawn.column("boils") >= 0).all() and (drawn.column("debt") <= 0).all()
    assert (drawn.column("x") < 0).any()


def _no_values(domain, rows):
    none = np.full((rows, len(domain.categories)), -1, np.int64)
    return MixedTable(
        domain, Table(domain.categories, none), np.full((rows, len(domain.scales)), np.nan)
    )


def test_recorded_values_are_chosen_where_they_help():
    rng = np.random.default_rng(0)
    heaped = np.where(rng.random(2000) < 0.7, 10 * np.rint(rng.normal(50, 15, 2000) / 10),
                      np.rint(rng.normal(50, 15, 2000)))  # fmt: skip
    smooth = np.round(rng.normal(500, 150, 2000))
    none = np.zeros(0)
    train, held = slice(0, 1500), slice(1500, 2000)
    assert choose_map(heaped[train], np.ones(1500), 1.0, none, heaped[held]).recorded
    choice = choose_map(smooth[train], np.ones(1500), 1.0, none, smooth[held])
    assert not choice.recorded
    best = log_mass(learn_map(smooth[train], np.ones(1500), 1.0, none, choice), smooth[held])
    assert best > stats.norm.logpdf(smooth[held], 500, 150).mean() - 0.05


def table_of(columns):
    """A mixed table: columns of floats are numbers, others are categories."""
    scales = tuple(
        NumberScale.of(n, [x for x in v.tolist() if x == x])
        for n, v in columns.items()
        if v.dtype.kind == "f"
    )
    kept = {n: v for n, v in columns.items() if v.dtype.kind != "f"}
    domain = Domain([Variable(n, sorted(set(v.tolist()) - {"?"})) for n, v in kept.items()])
    count = len(next(iter(columns.values())))
    rows = [[None if v[i] == "?" else v[i] for v in kept.values()] for i in range(count)]
    categories = Table.from_rows(domain, rows)
    numbers = np.stack([columns[s.name] for s in scales], axis=1)
    return MixedTable(MixedDomain(domain, scales, tuple(columns)), categories, numbers)


def example(rows, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, rows)
    x = np.round(rng.normal(40 + 10 * group, 5))
    y = np.round(2 * x + rng.normal(0, 6, rows), 1)
    zero = rng.random(rows) < 0.3
    z = np.where(zero, 0.0, np.round(rng.gamma(3, 20, rows)))
    colour = np.where(zero, "red", np.array(["red", "blue", "green"])[group])
    x[rng.random(rows) < 0.1] = np.nan
    colour = np.where(rng.random(rows) < 0.05, "?", colour)
    kind = np.array(["one", "two"])[(y > 100).astype(int)]
    return {"x": x, "colour": colour, "y": y, "z": z, "kind": kind}


def test_learning_does_not_depend_on_the_order_of_columns():
    columns = example(300)
    table, turned = table_of(columns), table_of(dict(reversed(columns.items())))
    first, second = learn_mixed(table), learn_mixed(turned)
    assert MixedAnswers(first, table).log_mass() == pytest.approx(
        MixedAnswers(second, turned).log_mass(), abs=1e-9
    )
    assert MixedAnswers(first, turned).log_mass() == pytest.approx(
        MixedAnswers(first, table).log_mass(), abs=1e-12
    )
    again = learn_mixed(table)
    assert (MixedAnswers(again, table).log_mass() == MixedAnswers(first, table).log_mass()).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_learning_does_not_depend_on_the_order_of_rows(weighted):
    columns, rng = example(300), np.random.default_rng(2)
    twice = np.concatenate([np.arange(300), rng.integers(0, 300, 40)])  # some rows are equal
    table, order = table_of(columns).select(twice), rng.permutation(len(twice))
    if weighted:
        weights = rng.integers(1, 4, len(twice)) / 2
        categories = Table.adopt(table.categories.domain, table.categories.codes, weights)
        table = MixedTable(table.domain, categories, table.numbers)
    first, second = learn_mixed(table), learn_mixed(table.select(order))
    assert (MixedAnswers(first, table).log_mass() == MixedAnswers(second, table).log_mass()).all()


def test_learning_finds_what_columns_tell_about_each_other():
    train, test = table_of(example(1500)), table_of(example(500, 1))
    model = learn_mixed(train, effort="quick")
    answers = MixedAnswers(model, test)
    y, known = test.column("y"), ~np.isnan(test.column("x"))
    found = answers.number("y")
    assert np.sqrt(np.mean((found.mean() - y)[known] ** 2)) < 7.5  # the noise has 6
    low, high = found.interval(0.9)
    assert 0.85 < np.mean((low <= y) & (y <= high)) < 0.97
    atoms = answers.number("z").atoms[:, 0]
    zero = test.column("z") == 0
    assert atoms[zero].mean() > atoms[~zero].mean() + 0.1
    kind = answers.category("kind")
    right = kind[np.arange(len(test)), test.categories.codes[:, 1]]
    assert -np.log(right).mean() < 0.12


@pytest.mark.parametrize("seed", range(3))
def test_a_strong_dependence_is_found_in_few_rows(seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, 400)
    ill = rng.random(400) < 0.1 + 0.8 * (age > 50)
    columns = {"age": age.tolist(), "ill": np.where(ill, "yes", "no").tolist()}
    table = MixedTable.of_columns([Column.of_values(n, v) for n, v in columns.items()])
    model = learn_mixed(table, effort="quick", random_state=seed)
    rows = table.select(np.array([int(np.argmin(abs(age - 25))), int(np.argmin(abs(age - 80)))]))
    young, old = MixedAnswers(model, rows).category("ill")[:, 1]
    assert young < 0.25
    assert old > 0.75
    # Held-out rows were scored by normalised probabilities: independent columns would give -4.96.
    assert -4.8 < model.provenance["mixed"]["held_out"] < -4.4


def test_priors_are_stronger_for_few_rows():
    assert priors_for(1_000) == priors_for(10**6) == PRIORS
    assert priors_for(10)[0].floor > priors_for(100)[0].floor > PRIORS[0].floor
    assert priors_for(10)[1:] == PRIORS[1:]


def test_a_row_that_breaks_a_rule_is_unlikely_but_possible():
    rng = np.random.default_rng(6)
    x = rng.normal(50, 10, 800).round(2)
    x[:2] = 50, 40
    y = 2 * x
    model = learn_mixed(table_of({"x": x, "y": y}), effort="quick")
    y[1] = 120
    masses = MixedAnswers(model, table_of({"x": x[:2], "y": y[:2]})).log_mass()
    assert model.provenance["mixed"]["states and shares"][-1][0] == 1
    assert masses[0] > -13
    assert -30 < masses[1] < masses[0] - 4


@pytest.mark.parametrize("rows", [1, 2, 10, 60])
def test_few_rows(rows):
    columns = example(rows + 20, 5)
    complete = np.flatnonzero(~np.isnan(columns["x"]) & (columns["colour"] != "?"))
    chosen = np.append(complete[:1], np.arange(rows - 1))
    table = table_of({name: column[chosen] for name, column in columns.items()})
    model = learn_mixed(table)
    assert np.isfinite(MixedAnswers(model, table).log_mass()).all()
    assert not MixedAnswers(model, table).likely().holes.any()


def test_special_tables():
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(50, 10, 200))
    only = learn_mixed(table_of({"x": x}))
    one = MixedAnswers(only, table_of({"x": x[:1]})).number("x")[0]
    assert one.mean() == pytest.approx(x.mean(), abs=1)
    assert one.sd() == pytest.approx(x.std(), abs=1)
    columns = {"x": x, "y": np.full(200, 3.0), "free": rng.random(200)}
    columns["x"] = np.where(np.arange(200) == 7, np.nan, x)
    columns["free"][7] = columns["y"][7] = np.nan
    table = table_of(columns)
    model = learn_mixed(table)
    filled = MixedAnswers(model, table).likely()
    assert filled.column("y")[7] == 3
    assert filled.column("x")[7] == pytest.approx(x.mean(), abs=3)
    assert 0.3 < filled.column("free")[7] < 0.7
    assert MixedAnswers(model, table).log_mass()[7] == pytest.approx(0, abs=1e-9)
    assert MixedAnswers(model, table).number("y")[0].probability(3, 3) > 0.95


def test_wrong_arguments():
    table = table_of(example(60))
    with pytest.raises(ModelError, match="effort"):
        learn_mixed(table, effort="much")
    with pytest.raises(ModelError, match="rows"):
        learn_mixed(table.select(np.zeros(0, np.int64)))
    answers = MixedAnswers(learn_mixed(table), table)
    with pytest.raises(DataError, match="between 0 and 1"):
        answers.number("x").quantile(2)
    with pytest.raises(DataError):
        answers.number("colour")


def test_narrow_and_wide_cells_agree():
    rng = np.random.default_rng(0)
    z, width = rng.normal(0, 3, 2000), rng.uniform(0.01, 0.3, 2000)
    exact = stats.norm.logsf(np.abs(z) - width / 2) + np.log1p(
        -np.exp(stats.norm.logsf(np.abs(z) + width / 2) - stats.norm.logsf(np.abs(z) - width / 2))
    )
    assert log_cell(z, width) == pytest.approx(exact, abs=1e-9)


def test_weights_are_repeated_rows():
    rng = np.random.default_rng(0)
    values, weights = np.round(rng.gamma(2, 15, 200)), rng.integers(1, 4, 200).astype(float)
    repeated = np.repeat(values, weights.astype(int))
    for choice in (MapChoice(16, False), MapChoice(4, True)):
        one = learn_map(values, weights, 1.0, np.zeros(0), choice)
        other = learn_map(repeated, np.ones(len(repeated)), 1.0, np.zeros(0), choice)
        assert one.scores == pytest.approx(other.scores)
    assert (find_atoms(values, weights) == find_atoms(repeated, np.ones(len(repeated)))).all()
    scores = correlated(rng, 200, 0.2)
    often = np.repeat(np.arange(200), weights.astype(int))
    prior = GaussianPrior(4.0, 1e-3)
    gaussians = GaussianRows(scores, weights).start(2, prior, rng)
    share = np.random.default_rng(1).dirichlet([1, 1], 200)
    one = GaussianRows(scores, weights).update(gaussians, share * weights[:, None], prior)
    two = GaussianRows(scores[often], np.ones(len(often))).update(gaussians, share[often], prior)
    assert one.covariances == pytest.approx(two.covariances)


def test_copies_of_rows_are_held_out_together():
    rng = np.random.default_rng(0)
    numbers = np.round(rng.normal(size=(300, 2)), 3)
    frame = pd.DataFrame(numbers, columns=["a", "b"])
    for rows in (frame, pd.concat([frame] * 3)):
        learning = _Learning(MixedTable.of_columns(columns_of(rows)), EFFORTS["quick"], 0, None)
        both = np.concatenate([learning.held, learning.train])
        assert np.array_equal(np.sort(both), np.arange(len(rows)))
        held, train = (
            {tuple(row) for row in learning.values[part]}
            for part in (learning.held, learning.train)
        )
        assert len(learning.held) == pytest.approx(0.15 * len(rows), abs=3) and not held & train


def test_repeated_rows_of_few_values_are_not_copies():
    frame = pd.DataFrame({"a": np.repeat([0.5, 1.5], 200), "b": np.repeat([1.5, 2.5], 200)})
    table = MixedTable.of_columns(columns_of(frame), kinds={"a": "number", "b": "number"})
    learning = _Learning(table, EFFORTS["quick"], 0, None)
    assert len(learning.held) == 60 and len(learning.train) == 340
