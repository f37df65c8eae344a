"""The layout of a network's graph, shared by the plot and the HTML page.

Lengths are in ems (the font size). Variables are boxes around their names; boxes do not overlap.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray

MAX_LETTERS = 22
"""Longer names are shortened."""
HEIGHT = 1.7
"""The height of a box."""
GAP = 0.7
"""The margin around a box."""
MAX_SWEEPS = 200
"""Maximum number of iterations of each stage of the layout."""
MAX_VARIABLES = 150
"""Maximum number of variables shown: those with the strongest links."""


class Shape(NamedTuple):
    """The shape of a picture."""

    aspect: float = 1.5  # its width divided by its height
    space: float = 5.0  # its area divided by that of its boxes
    letters: int = MAX_LETTERS
    # How far variables are moved into empty parts of the picture: with 1, they have equal distances
    # from left to right and from top to bottom
    evenness: float = 0.0
    padding: float = 1.0  # the width of a box less that of its text


@dataclass(frozen=True, eq=False)
class Drawing:
    """A graph with positions, ready to be drawn."""

    variables: IntArray  # the positions in the domain of the variables shown
    labels: list[str]  # their names, shortened if they are long
    centre: FloatArray  # the centre of each box, x and y; y points down
    width: FloatArray  # the widths of the boxes; all are `HEIGHT` high
    pairs: IntArray  # the links shown, weakest first, as positions in `variables`
    strength: FloatArray  # their strengths, divided by the greatest strength
    size: tuple[float, float]  # the width and height of the picture


def draw(
    names: Sequence[str],
    pairs: IntArray,
    strength: FloatArray,
    shape: Shape,
    max_links: int | None = None,
    random_state: int = 0,
) -> Drawing:
    """Choose the links to show and lay out the variables; the strongest pairs come first.

    By default 1.5 times as many links as variables are shown.
    """
    by_link = dict.fromkeys([*pairs.ravel().tolist(), *range(len(names))])
    variables = np.array(sorted(list(by_link)[:MAX_VARIABLES]), np.int64)
    labels = [shortened(names[v], shape.letters) for v in variables]
    width = np.array([text_width(label) + shape.padding for label in labels])
    place = np.full(len(names), -1, np.int64)
    place[variables] = np.arange(len(variables))
    ends = place[pairs].reshape(-1, 2)
    inside = np.flatnonzero((ends >= 0).all(axis=1))
    chosen = inside[chosen_links(ends[inside], len(variables), max_links)]
    centre, size = arrange(width, ends[chosen], np.random.default_rng(random_state), shape)
    shares = strength[chosen] / (strength[0] if len(strength) else 1.0)
    return Drawing(variables, labels, centre, width, ends[chosen], shares, size)


def chosen_links(pairs: IntArray, n: int, max_links: int | None = None) -> IntArray:
    """Return the numbers of the links to show, weakest first; `pairs` come strongest first.

    Those of a maximum spanning tree are chosen first: each variable is shown with its strongest link.
    """
    from scipy import sparse
    from scipy.sparse import csgraph

    numbers = np.arange(len(pairs))
    graph = sparse.coo_array((numbers + 1.0, (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    tree = np.sort(csgraph.minimum_spanning_tree(graph.tocsr()).data).astype(np.int64) - 1
    ranked = np.concatenate([tree, np.setdiff1d(numbers, tree)])
    kept = ranked[: 3 * n // 2 if max_links is None else max(0, max_links)]
    return np.sort(kept)[::-1]


def arrange(
    width: FloatArray, pairs: IntArray, rng: np.random.Generator, shape: Shape
) -> tuple[FloatArray, tuple[float, float]]:
    """Place boxes, linked ones close to each other; return their centres and the picture's size."""
    from scipy import sparse
    from scipy.sparse import csgraph

    n = len(width)
    graph = sparse.coo_array(
        (np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n)
    ).tocsr()
    count, component = csgraph.connected_components(graph, directed=False)
    parts = [np.flatnonzero(component == k) for k in range(count)]
    parts.sort(key=lambda part: (-len(part), part[0]))
    row_width = max(np.sqrt(_area(width, shape) * shape.aspect), width.max(initial=0.0))
    centre = np.zeros((n, 2))
    x = y = row_height = right = 0.0
    for part in parts:  # components are placed in rows, from left to right
        place = np.zeros((1, 2))
        if len(part) > 1:
            distance = csgraph.shortest_path(graph[part][:, part], directed=False, unweighted=True)
            place = _spread(_stress_layout(distance, rng), shape.evenness)
            place = _separate(place, width[part], shape)
        half = np.stack([width[part] / 2, np.full(len(part), HEIGHT / 2)], axis=1)
        low, high = (place - half).min(axis=0), (place + half).max(axis=0)
        if x > 0 and x + high[0] - low[0] > row_width:  # start the next row
            x, y, row_height = 0.0, y + row_height + 2 * GAP, 0.0
        centre[part] = place - low + [x, y]
        x += high[0] - low[0] + 2 * GAP
        right, row_height = max(right, x - 2 * GAP), max(row_height, high[1] - low[1])
    return centre, (right, y + row_height)


def _area(width: FloatArray, shape: Shape) -> float:
    """Return the area that a picture of these boxes should have."""
    return float((width + 2 * GAP).sum()) * (HEIGHT + 2 * GAP) * shape.space


def _stress_layout(distance: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return points whose distances approximate those given (stress majorisation)."""
    n = len(distance)
    square = distance**2
    inner = -(square - square.mean(0) - square.mean(1)[:, None] + square.mean()) / 2
    values, vectors = np.linalg.eigh(inner)
    point = vectors[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 0.0))
    point += rng.normal(scale=0.05, size=point.shape)
    weight = np.where(np.eye(n, dtype=bool), 0.0, 1 / np.maximum(square, 1.0))
    laplacian = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.inv(laplacian + 1 / n) - 1 / n
    for _ in range(MAX_SWEEPS):
        gap = np.linalg.norm(point[:, None] - point, axis=2)
        ratio = np.divide(weight * distance, gap, out=np.zeros_like(gap), where=gap > 1e-9)
        step = inverse @ (ratio.sum(axis=1)[:, None] * point - ratio @ point)
        moved = np.abs(step - point).max()
        point = step
        if moved < 1e-3:
            break
    _, _, axes = np.linalg.svd(point - point.mean(axis=0), full_matrices=False)
    turned = (point - point.mean(axis=0)) @ axes.T  # the longer axis is horizontal
    return turned if axes.shape[0] == 2 else np.pad(turned, ((0, 0), (0, 1)))


def _spread(point: FloatArray, evenness: float) -> FloatArray:
    """Move points towards equal distances along each axis, in the same order."""
    rank = np.argsort(np.argsort(point, axis=0, kind="stable"), axis=0, kind="stable")
    even = point.min(axis=0) + rank / max(1, len(point) - 1) * np.ptp(point, axis=0)
    return (1 - evenness) * point + evenness * even


def _separate(point: FloatArray, width: FloatArray, shape: Shape) -> FloatArray:
    """Stretch points to the area that their boxes need, and push overlapping boxes apart."""
    if shape.aspect < 1:  # the longer axis is vertical
        point = point[:, ::-1]
    area = _area(width, shape)
    wide = np.sqrt(area * shape.aspect)
    extent = np.maximum(np.ptp(point, axis=0), 1e-9)
    flat = min(1.0, 4 * extent.min() / extent.max())  # a chain stays a line
    size = np.array([wide, area / wide])
    size[extent.argmin()] *= flat
    place = (point - point.min(axis=0)) / extent * size
    need_x = (width[:, None] + width) / 2 + 2 * GAP
    need_y = HEIGHT + GAP
    number = np.arange(len(width))
    behind = np.sign(number[:, None] - number)
    for _ in range(MAX_SWEEPS):
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


def shortened(name: str, letters: int = MAX_LETTERS) -> str:
    """Return a name, with the middle replaced by an ellipsis if it is too long."""
    if len(name) <= letters:
        return name
    after = letters * 9 // MAX_LETTERS
    return f"{name[: letters - after - 1]}…{name[-after:]}"


def text_width(text: str) -> float:
    """Return the approximate width of a text, in ems."""
    total = 0.0
    for letter in text:
        if unicodedata.east_asian_width(letter) in "WF":
            total += 1.0
        elif letter in "ijlIft.,:;|!'-()[] ":
            total += 0.38
        else:
            total += 0.72 if letter.isupper() or letter in "mwMW@%" else 0.6
    return total


def shade(strength: float) -> str:
    """Return the colour of a link: pale if it is weak, dark if it is strong."""
    weak, strong = np.array([195, 207, 224]), np.array([31, 78, 140])
    red, green, blue = (weak + (strong - weak) * min(1.0, strength) ** 0.7).round().astype(int)
    return f"#{red:02x}{green:02x}{blue:02x}"


def line_width(strength: Any) -> Any:
    """Return the width of the line of a link, in ems."""
    return 0.06 + 0.5 * strength
