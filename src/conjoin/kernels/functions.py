"""Elementary functions in single precision, plain enough to become vector instructions in loops."""

from __future__ import annotations

import numpy as np

from conjoin.kernels.jit import compiled_fused, power_of_two

f32 = np.float32

LOG2_E = f32(1 / np.log(2))
# The logarithm of 2 in two parts, the first of so few bits that whole multiples of it are exact.
LOG_2_HIGH = f32(355 / 512)
LOG_2_LOW = f32(np.log(2) - 355 / 512)
LOWEST = f32(-87.0)
"""Below this, e^x is no normal number of single precision."""


@compiled_fused
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


@compiled_fused
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
