"""Where the variables of a network are drawn: the same places for the picture and for the page.

Lengths are in ems, the size of the letters. Variables are boxes around their names, so that no name
lies on another or on a line.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np

from conjoin.conversion.interactions import Interactions
from conjoin.data.arrays import FloatArray, IntArray

ASPECT = 1.5
"""How much wider than high a picture is."""
SPACE = 5.0
"""How many times the room of its names a picture takes."""
LONGEST = 22
"""How many letters of a name are shown."""
HEIGHT = 1.7
GAP = 0.7
SWEEPS = 200
MOST = 150
"""Of more variables, only those with the strongest links are shown."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """A graph, ready to be drawn.

    Attributes
    ----------
    variables : array of int
        The variables that are shown, by position.
    labels : list of str
        Their names, the long ones shortened.
    centre : array, shape (variables, 2)
        The middle of each box, y downwards.
    width : array of float
        The widths of the boxes; all are `HEIGHT` high.
    pairs : array of int, shape (links, 2)
        The links that are shown, weakest first, by place in `variables`.
    strength : array of float
        Their strengths, as a share of the strongest.
    size : tuple of float
        The width and the height of the whole.
    """

    variables: IntArray
    labels: list[str]
    centre: FloatArray
    width: FloatArray
    pairs: IntArray
    strength: FloatArray
    size: tuple[float, float]


def draw(found: Interactions, max_links: int | None = None, random_state: int = 0) -> Drawing:
    """Choose the links to show and place the variables.

    Parameters
    ----------
    found : Interactions
        The links.
    max_links : int, optional
        About how many to show, by default half as many again as there are variables. The strongest
        links that join the variables into one graph come first, so that each variable is shown with its
        strongest link; then the strongest of the others.
    random_state : int
        The seed of the layout.
    """
    variables = chosen_variables(found)
    labels = [shortened(found.domain.names[v]) for v in variables]
    width = np.array([text_width(label) + 1.0 for label in labels])
    place = np.full(len(found.domain), -1, np.int64)
    place[variables] = np.arange(len(variables))
    pairs = np.stack([place[found.left], place[found.right]], axis=1)
    inside = np.flatnonzero((pairs >= 0).all(axis=1))
    chosen = inside[chosen_links(pairs[inside], len(variables), max_links)]
    centre, size = arrange(width, pairs[chosen], np.random.default_rng(random_state))
    strongest = found.strength[0] if len(found) else 1.0
    return Drawing(
        variables, labels, centre, width, pairs[chosen], found.strength[chosen] / strongest, size
    )


def chosen_variables(found: Interactions) -> IntArray:
    """Return the variables to show: all, or the `MOST` that have the strongest links."""
    if len(found.domain) <= MOST:
        return np.arange(len(found.domain))
    ends = np.stack([found.left, found.right], axis=1).ravel().tolist()
    by_link = dict.fromkeys([*ends, *range(len(found.domain))])
    return np.array(sorted(list(by_link)[:MOST]), np.int64)


def chosen_links(pairs: IntArray, n: int, max_links: int | None = None) -> IntArray:
    """Return the numbers of the links to show, weakest first, of pairs that come strongest first.

    Examples
    --------
    >>> chosen_links(np.array([[0, 1], [1, 2], [0, 2], [2, 3]]), 4, 3).tolist()
    [3, 1, 0]
    """
    group = list(range(n))

    def root(v: int) -> int:
        while group[v] != v:
            group[v] = group[group[v]]
            v = group[v]
        return v

    joining: list[int] = []
    others: list[int] = []
    for number, (i, j) in enumerate(pairs.tolist()):
        a, b = root(i), root(j)
        (others if a == b else joining).append(number)
        group[a] = b
    if max_links is None:
        max_links = 3 * n // 2
    kept = [*joining, *others][: max(0, max_links)]
    return np.array(sorted(kept, reverse=True), np.int64)


def arrange(
    width: FloatArray, pairs: IntArray, rng: np.random.Generator
) -> tuple[FloatArray, tuple[float, float]]:
    """Place boxes, linked ones near each other; return their middles and the size of the whole."""
    from scipy import sparse
    from scipy.sparse import csgraph

    n = len(width)
    graph = sparse.coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    count, part_of = csgraph.connected_components(graph, directed=False)
    parts = [np.flatnonzero(part_of == k) for k in range(count)]
    parts.sort(key=lambda part: (-len(part), part[0]))
    room = float((width + 2 * GAP).sum()) * (HEIGHT + 2 * GAP) * SPACE
    line = max(np.sqrt(room * ASPECT), width.max(initial=0.0))
    centre = np.zeros((n, 2))
    x = y = tall = right = 0.0
    csr = graph.tocsr()
    for part in parts:
        place = np.zeros((1, 2))
        if len(part) > 1:
            distance = csgraph.shortest_path(csr[part][:, part], directed=False, unweighted=True)
            place = _spread(_near(distance, rng), width[part])
        half = np.stack([width[part] / 2, np.full(len(part), HEIGHT / 2)], axis=1)
        low, high = (place - half).min(axis=0), (place + half).max(axis=0)
        if x > 0 and x + high[0] - low[0] > line:  # the next line of parts
            x, y, tall = 0.0, y + tall + 2 * GAP, 0.0
        centre[part] = place - low + [x, y]
        x += high[0] - low[0] + 2 * GAP
        right, tall = max(right, x - 2 * GAP), max(tall, high[1] - low[1])
    return centre, (right, y + tall)


def _near(distance: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return points whose distances are as near as may be to those given (stress majorisation)."""
    n = len(distance)
    square = distance**2
    inner = -(square - square.mean(0) - square.mean(1)[:, None] + square.mean()) / 2
    values, vectors = np.linalg.eigh(inner)
    point = vectors[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 0.0))
    point += rng.normal(scale=0.05, size=point.shape)
    weight = np.where(np.eye(n, dtype=bool), 0.0, 1 / np.maximum(square, 1.0))
    laplacian = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.inv(laplacian + 1 / n) - 1 / n
    for _ in range(SWEEPS):
        gap = np.linalg.norm(point[:, None] - point, axis=2)
        ratio = np.divide(weight * distance, gap, out=np.zeros_like(gap), where=gap > 1e-9)
        step = inverse @ (ratio.sum(axis=1)[:, None] * point - ratio @ point)
        moved = np.abs(step - point).max()
        point = step
        if moved < 1e-3:
            break
    _, _, axes = np.linalg.svd(point - point.mean(axis=0), full_matrices=False)
    turned = (point - point.mean(axis=0)) @ axes.T  # the long way lies flat
    return turned if axes.shape[0] == 2 else np.pad(turned, ((0, 0), (0, 1)))


def _spread(point: FloatArray, width: FloatArray) -> FloatArray:
    """Stretch points to the room that their boxes need, and push boxes apart that overlap."""
    area = float((width + 2 * GAP).sum()) * (HEIGHT + 2 * GAP) * SPACE
    wide = np.sqrt(area * ASPECT)
    extent = np.maximum(np.ptp(point, axis=0), 1e-9)
    flat = min(1.0, 4 * extent[1] / extent[0])  # a chain is a line
    place = (point - point.min(axis=0)) / extent * [wide, area / wide * flat]
    need_x = (width[:, None] + width) / 2 + 2 * GAP
    need_y = HEIGHT + GAP
    number = np.arange(len(width))
    behind = np.sign(number[:, None] - number)
    for _ in range(SWEEPS):
        gap = place[:, None] - place
        over_x, over_y = need_x - np.abs(gap[..., 0]), need_y - np.abs(gap[..., 1])
        clash = (over_x > 1e-6) & (over_y > 1e-6)
        np.fill_diagonal(clash, False)
        if not clash.any():
            break
        sideways = clash & (over_x < over_y)
        upright = clash & ~sideways
        ahead = np.where(gap == 0, behind[..., None], np.sign(gap))
        place[:, 0] += (np.where(sideways, over_x, 0.0) * ahead[..., 0]).sum(axis=1) * 0.5
        place[:, 1] += (np.where(upright, over_y, 0.0) * ahead[..., 1]).sum(axis=1) * 0.5
    return place


def shortened(name: str) -> str:
    """Return a name without the middle of what is too long.

    Examples
    --------
    >>> shortened("export-administration-act-south-africa")
    'export-admin…th-africa'
    """
    if len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST - 10]}…{name[-9:]}"


def text_width(text: str) -> float:
    """Return about how wide a text is, in ems."""
    total = 0.0
    for letter in text:
        if unicodedata.east_asian_width(letter) in "WF":
            total += 1.0
        elif letter in "ijlIft.,:;|!'-()[] ":
            total += 0.38
        else:
            total += 0.72 if letter.isupper() or letter in "mwMW@%" else 0.6
    return total
