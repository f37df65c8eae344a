"""Gibbs chains of many rows side by side, for binary variables: one lane of a vector each.

The rows share the shape of their log-odds: which conjunctions may occur. The weights differ from row to
row, or not even these. The state of a row is one word, bit v for variable v; a conjunction holds if the
word agrees with its value on its mask. There are no branches, and numbers are of single precision.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.jit import compiled, inner, inner_fused, power_of_two
from conjoin.kernels.random import STEP, scatter

LANES = 128
"""How many rows go side by side."""

F = np.float32
ZERO = np.uint32(0)


@inner
def seed(counters, random):
    """Start the generators of all lanes (xoshiro128+)."""
    for lane in range(LANES):
        for k in range(2):
            word = scatter(counters[lane] + STEP * np.uint64(k + 1))
            random[2 * k * LANES + lane] = np.uint32(word & np.uint64(0xFFFFFFFF))
            random[(2 * k + 1) * LANES + lane] = np.uint32(word >> np.uint64(32))
        random[lane] |= np.uint32(1)


@inner_fused
def draw(bit, odds, random, word, ones, sums):
    """Draw a variable in all lanes, given its log-odds; add its probabilities to the sums."""
    for lane in range(LANES):
        x = odds[lane]
        t = max(abs(x) * F(-1.4426950408889634), F(-126.0))
        shifted = t + F(12582912.0)  # the nearest whole number ends up in the lowest bits
        whole = shifted - F(12582912.0)
        r = t - whole
        e = F(1.3333558e-3)
        e = e * r + F(9.618129e-3)
        e = e * r + F(5.550411e-2)
        e = e * r + F(2.402265e-1)
        e = e * r + F(6.931472e-1)
        e = e * r + F(1.0)
        e *= power_of_two(whole)
        more = F(1.0) / (F(1.0) + e)
        less = e * more
        p = more if x >= F(0.0) else less
        q = less if x >= F(0.0) else more
        sums[lane] += q
        sums[LANES + lane] += p
        a, b = random[lane], random[LANES + lane]
        c, d = random[2 * LANES + lane], random[3 * LANES + lane]
        result = np.uint32(a + d)
        c2, d2 = np.uint32(c ^ a), np.uint32(d ^ b)
        random[lane] = np.uint32(a ^ d2)
        random[LANES + lane] = np.uint32(b ^ c2)
        random[2 * LANES + lane] = np.uint32(c2 ^ np.uint32(b << np.uint32(9)))
        random[3 * LANES + lane] = np.uint32(
            np.uint32(d2 << np.uint32(11)) | np.uint32(d2 >> np.uint32(21))
        )
        u = F(np.int32(result >> np.uint32(8))) * F(1.0 / 16777216.0)
        chosen = bit if u < p else ZERO
        word[lane] = np.uint32((word[lane] & ~bit) | chosen)
        ones[lane] = F(1.0) if u < p else F(0.0)


@inner
def own_weights(bias, mask, value, weight, start, end, word, odds):
    """Work out the log-odds of a variable in all lanes; each lane has weights of its own."""
    for lane in range(LANES):
        odds[lane] = bias[lane]
    for s in range(start, end, 4):
        m0, m1, m2, m3 = mask[s], mask[s + 1], mask[s + 2], mask[s + 3]
        v0, v1, v2, v3 = value[s], value[s + 1], value[s + 2], value[s + 3]
        w0, w1, w2, w3 = weight[s], weight[s + 1], weight[s + 2], weight[s + 3]
        for lane in range(LANES):
            x = word[lane]
            t = odds[lane]
            t += w0[lane] if np.uint32((x ^ v0) & m0) == ZERO else F(0.0)
            t += w1[lane] if np.uint32((x ^ v1) & m1) == ZERO else F(0.0)
            t += w2[lane] if np.uint32((x ^ v2) & m2) == ZERO else F(0.0)
            t += w3[lane] if np.uint32((x ^ v3) & m3) == ZERO else F(0.0)
            odds[lane] = t


@inner_fused
def shared_weights(bias, weight, ones, odds):
    """Do the same for pairs of variables whose weights are those of all lanes.

    The variables come in fours, filled up with weights of 0.
    """
    for lane in range(LANES):
        odds[lane] = bias[lane]
    for j in range(0, len(weight), 4):
        w0, w1, w2, w3 = weight[j], weight[j + 1], weight[j + 2], weight[j + 3]
        four = ones[j * LANES : (j + 4) * LANES]
        for lane in range(LANES):
            t = odds[lane] + w0 * four[lane]
            u = w1 * four[LANES + lane]
            t += w2 * four[2 * LANES + lane]
            u += w3 * four[3 * LANES + lane]
            odds[lane] = t + u


@inner
def end_sweep(done, samples, batch, now, sums):
    """Forget the sums while burning in, put them away at the end of a batch; return the next one."""
    if done <= 0:
        now[:] = F(0.0)
    elif done * sums.shape[0] // samples > batch:
        sums[batch] = now
        now[:] = F(0.0)
        batch += 1
    return batch


@compiled
def sweep_lanes(order, ptr, mask, value, weight, pairs, bias, burn_in, samples, counters, sums):
    """Run one chain a lane; set the sums of p(x=0), p(x=1) by batch and variable.

    Slots of a line come in fours, filled up with weights of 0; `pairs` is a matrix of weights instead
    of them all, or has no rows. `sums` is batches by variables by twice the lanes.
    """
    n = len(bias)
    random = np.empty(4 * LANES, np.uint32)
    word = np.empty(LANES, np.uint32)
    odds = np.empty(LANES, np.float32)
    ones = np.zeros(4 * ((n + 3) // 4) * LANES, np.float32)
    now = np.zeros((n, 2 * LANES), np.float32)
    seed(counters, random)
    for lane in range(LANES):
        word[lane] = np.uint32(scatter(counters[lane]) >> np.uint64(32))
        for v in range(n):
            ones[v * LANES + lane] = F((word[lane] >> np.uint32(v)) & np.uint32(1))
    batch = 0
    for sweep in range(burn_in + samples):
        for k in range(len(order)):
            v = order[k]
            if len(pairs):
                shared_weights(bias[v], pairs[v], ones, odds)
            else:
                own_weights(bias[v], mask, value, weight, ptr[v], ptr[v + 1], word, odds)
            draw(np.uint32(1 << v), odds, random, word, ones[v * LANES : (v + 1) * LANES], now[v])
        batch = end_sweep(sweep + 1 - burn_in, samples, batch, now, sums)


@compiled
def compacted(ptr, mask, value, weight, new_ptr, new_mask, new_value, new_weight):
    """Leave out the slots that have no weight in any lane; fill lines up to fours."""
    n = 0
    for line in range(len(ptr) - 1):
        new_ptr[line] = n
        for s in range(ptr[line], ptr[line + 1]):
            used = False
            row = weight[s]
            for lane in range(LANES):
                used |= row[lane] != F(0.0)
            if used:
                new_mask[n], new_value[n] = mask[s], value[s]
                new_weight[n] = row
                n += 1
        while n % 4 != 0:
            new_mask[n], new_value[n] = ZERO, ZERO
            new_weight[n] = F(0.0)
            n += 1
    new_ptr[len(ptr) - 1] = n
