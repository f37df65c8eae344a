"""Elementary functions, plain enough to become vector instructions in loops."""

from __future__ import annotations

import numpy as np

from conjoin.kernels.kernel import inner, inner_fused, inner_sums, power_of_two

f32 = np.float32

LOG2_E = f32(1 / np.log(2))
# The logarithm of 2 in two parts, the first of so few bits that whole multiples of it are exact.
LOG_2_HIGH = f32(355 / 512)
LOG_2_LOW = f32(np.log(2) - 355 / 512)
LOWEST = f32(-87.0)
"""Below this, e^x is no normal number of single precision."""


@inner_fused
def exp32(x):
    """Return e^x for x from -87 to 0: a power of two times Taylor's series, to 1e-7."""
    k = np.floor(x * LOG2_E + f32(0.5))
    r = x - k * LOG_2_HIGH
    r = r - k * LOG_2_LOW
    t = f32(1) + r * f32(1 / 7)
    t = f32(1) + r * f32(1 / 6) * t
    t = f32(1) + r * f32(1 / 5) * t
    t = f32(1) + r * f32(1 / 4) * t
    t = f32(1) + r * f32(1 / 3) * t
    t = f32(1) + r * f32(1 / 2) * t
    t = f32(1) + r * t
    return t * power_of_two(k)


@inner_fused
def log1p32(e):
    """Return log(1 + e) for e from 0 to 1, by the series of the inverse hyperbolic tangent."""
    t = e / (f32(2) + e)
    u = t * t
    s = f32(1 / 11) + u * f32(1 / 13)
    s = f32(1 / 9) + u * s
    s = f32(1 / 7) + u * s
    s = f32(1 / 5) + u * s
    s = f32(1 / 3) + u * s
    s = f32(1) + u * s
    return f32(2) * t * s


LOG2_E_64 = 1 / np.log(2)
LOG_2_HIGH_64 = np.float64(np.float32(np.log(2)))
LOG_2_LOW_64 = -1.904654299957768e-09  # log(2) less its single-precision value
LOWEST_64 = -700.0


@inner_fused
def exp64(x):
    """Return e^x for x from -700 to 0: a power of two times Taylor's series, to 1e-15."""
    k = np.floor(x * LOG2_E_64 + 0.5)
    r = x - k * LOG_2_HIGH_64
    r = r - k * LOG_2_LOW_64
    t = 1 + r * (1 / 13)
    t = 1 + r * (1 / 12) * t
    t = 1 + r * (1 / 11) * t
    t = 1 + r * (1 / 10) * t
    t = 1 + r * (1 / 9) * t
    t = 1 + r * (1 / 8) * t
    t = 1 + r * (1 / 7) * t
    t = 1 + r * (1 / 6) * t
    t = 1 + r * (1 / 5) * t
    t = 1 + r * (1 / 4) * t
    t = 1 + r * (1 / 3) * t
    t = 1 + r * (1 / 2) * t
    t = 1 + r * t
    return t * power_of_two(k)


@inner_fused
def log1p64(e):
    """Return log(1 + e) for e from 0 to 1, by the series of the inverse hyperbolic tangent."""
    large = e > 0.4142135623730951  # then half the logarithm of 2 is taken out
    y = (1 + e) * 0.7071067811865476
    t = (y - 1) / (y + 1) if large else e / (2 + e)
    u = t * t
    s = 1 / 19 + u * (1 / 21)
    s = 1 / 17 + u * s
    s = 1 / 15 + u * s
    s = 1 / 13 + u * s
    s = 1 / 11 + u * s
    s = 1 / 9 + u * s
    s = 1 / 7 + u * s
    s = 1 / 5 + u * s
    s = 1 / 3 + u * s
    s = 1 + u * s
    return 2 * t * s + (0.34657359027997264 if large else 0.0)


@inner_sums
def sum_of(values):
    """Return the sum of numbers, added up in any order."""
    total = 0.0
    for i in range(len(values)):
        total += values[i]
    return total


@inner
def is_set(word, r):
    """Return whether a bit of a word is set."""
    return (word >> np.uint64(r)) & np.uint64(1) != np.uint64(0)


@inner
def add_lanes(line, word, weight):
    """Add a weight to those of 64 numbers whose bit in the word is set."""
    for r in range(64):
        line[r] += weight if is_set(word, r) else 0.0


@inner_sums
def sum_lanes(line, word):
    """Add up those of 64 numbers whose bit in the word is set."""
    total = 0.0
    for r in range(64):
        total += line[r] if is_set(word, r) else 0.0
    return total
