"""What a network says of a few variables once all others are known, row by row.

The state of the free variables is one word: a bit for each state of each, set for the one it is in. A
conjunction of tests is the mask of the states that it forbids, and holds if the word has none of them.
The log-odds of a variable are then a sum of weights over masks, which is done four or eight at a time.
"""

# Loops over indices, plain branches and long argument lists are what the compiler wants.

from __future__ import annotations

import numpy as np

from conjoin.kernels.jit import compiled, inner, inner_sums, popcount
from conjoin.kernels.random import STEP, uniform

ONE = np.uint64(1)
NONE = np.uint64(0)


@inner_sums
def line_sum(masks, weights, start, end, word):
    """Add the weights of the conjunctions that hold."""
    mask, weight = masks[start:end], weights[start:end]
    total = 0.0
    for k in range(len(mask)):
        total += weight[k] if mask[k] & word == np.uint64(0) else 0.0
    return total


@compiled
def residual_weights(
    codes, first_state, dead, weight, residual_of, soft, soft_ptr, soft_test, soft_off, test_state,
    test_mask, alive, out,
):  # fmt: skip
    """Set `out` to the weight of each residual feature on one row of codes.

    `dead` has, for each state of each known variable, the hard features that it rules out, as bits;
    `first_state` says where a variable's states start in it, -1 for free ones. Soft features come
    after the hard ones in `weight`; each known test that fails multiplies theirs by its off value.
    """
    out[:] = 0.0
    alive[:] = NONE
    for v in range(len(first_state)):
        if first_state[v] >= 0:
            row = dead[first_state[v] + np.int64(codes[v])]
            for k in range(len(row)):
                alive[k] |= row[k]
    hard = len(weight) - len(soft)
    for k in range(len(alive)):
        word = ~alive[k]
        base = k * 64
        while word != NONE:
            low = word & (~word + ONE)
            f = base + np.int64(popcount(low - ONE))
            word ^= low
            if f >= hard:
                break
            out[residual_of[f]] += weight[f]
    for k in range(len(soft)):
        scale = weight[hard + k]
        for e in range(soft_ptr[k], soft_ptr[k + 1]):
            t = soft_test[e]
            state = np.int64(codes[test_state[t]])
            if (test_mask[t, state >> 6] >> np.uint64(state & 63)) & ONE == NONE:
                scale *= soft_off[e]
        out[residual_of[hard + k]] += scale


@inner
def lines_of(
    res_weight, res_ptr, res_slot, res_coef, slot_weight, slot_mask, slot_scope, slot_ptr, line_var,
    masks, weights, ptr, bias, linked,
):  # fmt: skip
    """Turn weights of residual features into lines: per log-odds a constant, masks and weights.

    `linked` is set to the free variables that each depends on, as bits.
    """
    slot_weight[:] = 0.0
    for r in range(len(res_weight)):
        w = res_weight[r]
        if w != 0.0:
            for e in range(res_ptr[r], res_ptr[r + 1]):
                slot_weight[res_slot[e]] += res_coef[e] * w
    linked[:] = NONE
    n = 0
    for line in range(len(line_var)):
        ptr[line] = n
        bias[line] = 0.0
        scope = NONE
        for s in range(slot_ptr[line], slot_ptr[line + 1]):
            w = slot_weight[s]
            if slot_mask[s] == NONE:
                bias[line] += w
            elif w != 0.0:
                masks[n] = slot_mask[s]
                weights[n] = w
                scope |= slot_scope[s]
                n += 1
        linked[line_var[line]] |= scope
    ptr[len(line_var)] = n


@inner
def conditional(card, line, b, masks, weights, ptr, bias, word, p):
    """Set the distribution of a free variable of several states given the others."""
    top = -np.inf
    for s in range(card):
        k = line + s
        p[b + s] = 0.0
        if card > 1:
            p[b + s] = bias[k] + line_sum(masks, weights, ptr[k], ptr[k + 1], word)
        top = max(top, p[b + s])
    total = 0.0
    for s in range(card):
        p[b + s] = np.exp(p[b + s] - top)
        total += p[b + s]
    for s in range(card):
        p[b + s] /= total


@inner
def enumerated(members, cards, bit, first_line, masks, weights, ptr, bias, values, p, out):
    """Set the marginals of a component of few states, by visiting all of them.

    States are visited in depth first order; the log-potential of a prefix, the later members in their
    state 0, is that of a shorter prefix plus one difference of log-odds.
    """
    k = len(members)
    digit = np.zeros(k, np.int64)
    prefix = np.zeros(k + 1)
    word = NONE
    for m in range(k):
        word |= ONE << np.uint64(bit[members[m]])
    n = 0
    depth = 0
    top = -np.inf
    while depth >= 0:
        if depth == k:
            values[n] = prefix[k]
            top = max(top, prefix[k])
            n += 1
            depth -= 1
            while depth >= 0:  # the next state of the deepest member that has one
                v = members[depth]
                word ^= ONE << np.uint64(bit[v] + digit[depth])
                if digit[depth] + 1 < cards[v]:
                    digit[depth] += 1
                    word ^= ONE << np.uint64(bit[v] + digit[depth])
                    break
                digit[depth] = 0
                word ^= ONE << np.uint64(bit[v])
                depth -= 1
            if depth < 0:
                break
        v = members[depth]
        line = first_line[v]
        s = digit[depth]
        if s == 0:
            prefix[depth + 1] = prefix[depth]
        elif cards[v] == 2:
            prefix[depth + 1] = prefix[depth] + (
                bias[line] + line_sum(masks, weights, ptr[line], ptr[line + 1], word)
            )
        else:
            a, b = line, line + s
            prefix[depth + 1] = prefix[depth] + (
                bias[b]
                + line_sum(masks, weights, ptr[b], ptr[b + 1], word)
                - bias[a]
                - line_sum(masks, weights, ptr[a], ptr[a + 1], word)
            )
        depth += 1
    total = 0.0
    for i in range(n):
        values[i] = np.exp(values[i] - top)
        total += values[i]
    # Fold the last member away, again and again.
    for m in range(k - 1, -1, -1):
        v = members[m]
        card = cards[v]
        for s in range(card):
            p[s] = 0.0
        n //= card
        for i in range(n):
            rest = 0.0
            for s in range(card):
                x = values[i * card + s]
                p[s] += x
                rest += x
            values[i] = rest
        for s in range(card):
            out[bit[v] + s] = p[s] / total


@inner
def sampled(
    order, cards, bit, first_line, masks, weights, ptr, bias, linked, burn_in, samples, counter, p,
    sums,
):  # fmt: skip
    """Run one Gibbs chain; add each conditional distribution to the sums of its batch.

    A variable's distribution is worked out again only after one that it depends on has changed.
    """
    n = len(order)
    word = NONE
    state = np.zeros(len(cards), np.int64)
    for k in range(n):
        v = order[k]
        counter += STEP
        state[v] = np.int64(uniform(counter) * cards[v])
        word |= ONE << np.uint64(bit[v] + state[v])
    affects = np.zeros(len(cards), np.uint64)
    for v in range(len(cards)):
        for k in range(n):
            if (linked[order[k]] >> np.uint64(v)) & ONE:
                affects[v] |= ONE << np.uint64(order[k])
    stale = ~NONE
    now = np.zeros(sums.shape[1])
    batch = 0
    for sweep in range(burn_in + samples):
        for k in range(n):
            v = order[k]
            card = cards[v]
            b = bit[v]
            line = first_line[v]
            counter += STEP
            u = uniform(counter)
            if card == 2:
                if (stale >> np.uint64(v)) & ONE:
                    d = bias[line] + line_sum(masks, weights, ptr[line], ptr[line + 1], word)
                    e = np.exp(-abs(d))
                    high = 1.0 / (1.0 + e)
                    low = e * high
                    p[b + 1] = high if d >= 0.0 else low
                    p[b] = low if d >= 0.0 else high
                    stale ^= ONE << np.uint64(v)
                now[b] += p[b]
                now[b + 1] += p[b + 1]
                if (u < p[b + 1]) != (state[v] == 1):
                    word ^= np.uint64(3) << np.uint64(b)
                    state[v] ^= 1
                    stale |= affects[v]
                continue
            if (stale >> np.uint64(v)) & ONE:
                conditional(card, line, b, masks, weights, ptr, bias, word, p)
                stale ^= ONE << np.uint64(v)
            new = -1
            for s in range(card):
                now[b + s] += p[b + s]
                if new < 0:
                    u -= p[b + s]
                    if u < 0.0:
                        new = s
            if new < 0:  # rounding: the likeliest state
                new = 0
                for s in range(1, card):
                    if p[b + s] > p[b + new]:
                        new = s
            if new != state[v]:
                word ^= (ONE << np.uint64(b + state[v])) | (ONE << np.uint64(b + new))
                state[v] = new
                stale |= affects[v]
        done = sweep + 1 - burn_in
        if done <= 0:
            now[:] = 0.0
        elif done == samples or done * sums.shape[0] // samples > batch:
            sums[batch] = now
            now[:] = 0.0
            batch += 1


@inner
def small_components(
    cards, bit, first_line, masks, weights, ptr, bias, linked, joint, limit, values, p, mean, exact,
):  # fmt: skip
    """Enumerate the components that have few states; return how many variables are left."""
    n = len(cards)
    members = np.empty(n, np.int64)
    everyone = NONE
    for v in range(n):
        everyone |= ONE << np.uint64(v)
        exact[v] = False
    left = everyone
    rest = n
    while left != NONE:
        component = left & (~left + ONE)
        while True:  # grow until nothing more is linked, either way
            grown = component
            for v in range(n):
                if (component >> np.uint64(v)) & ONE:
                    grown |= linked[v]
                elif linked[v] & component:
                    grown |= ONE << np.uint64(v)
            if grown == component:
                break
            component = grown
        left &= ~component
        size = 0
        states = 1
        for v in range(n):
            if (component >> np.uint64(v)) & ONE:
                members[size] = v
                size += 1
                if states <= limit:
                    states *= cards[v]
        if (joint and states <= limit) or size == 1:
            enumerated(
                members[:size], cards, bit, first_line, masks, weights, ptr, bias, values, p, mean
            )
            rest -= size
            for m in range(size):
                exact[members[m]] = True
    return rest


@compiled
def marginals(
    codes, counters, first_state, dead, weight, residual_of, soft, soft_ptr, soft_test, soft_off,
    test_state, test_mask, res_ptr, res_slot, res_coef, slot_mask, slot_scope, slot_ptr, line_var,
    order, cards, bit, first_line, joint, limit, burn_in, samples, mean, batch_sums, exact, place,
    lane_weight, lane_bias,
):  # fmt: skip
    """Work out the marginals of the free variables for each row of known ones.

    A component of the free variables with at most `limit` states is enumerated if the conditionals
    have a joint distribution; others are sampled, here or, if there are any `lane_weight`, later: then
    the log-odds of row r go into lane r, slot s at its place. Returns how many rows have something
    that is not exact; `exact` is set for each row and variable.
    """
    n = len(cards)
    res_weight = np.empty(len(res_ptr) - 1)
    slot_weight = np.empty(len(slot_mask))
    masks = np.empty(len(slot_mask), np.uint64)
    weights = np.empty(len(slot_mask))
    alive = np.empty(dead.shape[1], np.uint64)
    ptr = np.empty(len(line_var) + 1, np.int64)
    bias = np.empty(len(line_var))
    linked = np.empty(n, np.uint64)
    chain = np.empty(n, np.int64)
    values = np.empty(max(limit, cards.max()))
    p = np.empty(mean.shape[1])
    unsure = 0
    for r in range(codes.shape[0]):
        residual_weights(
            codes[r], first_state, dead, weight, residual_of, soft, soft_ptr, soft_test, soft_off,
            test_state, test_mask, alive, res_weight,
        )  # fmt: skip
        lines_of(
            res_weight, res_ptr, res_slot, res_coef, slot_weight, slot_mask, slot_scope, slot_ptr,
            line_var, masks, weights, ptr, bias, linked,
        )  # fmt: skip
        rest = small_components(
            cards, bit, first_line, masks, weights, ptr, bias, linked, joint, limit, values, p,
            mean[r], exact[r],
        )  # fmt: skip
        if rest == 0:
            continue
        unsure += 1
        if len(lane_weight):
            for s in range(len(slot_mask)):
                if place[s] >= 0:
                    lane_weight[place[s], r] = slot_weight[s]
            for line in range(len(line_var)):
                lane_bias[line, r] = bias[line]
            continue
        size = 0
        for k in range(n):
            if not exact[r, order[k]]:
                chain[size] = order[k]
                size += 1
        sampled(
            chain[:size], cards, bit, first_line, masks, weights, ptr, bias, linked, burn_in,
            samples, counters[r], p, batch_sums[r],
        )  # fmt: skip
    return unsure


@compiled
def batch_pulls(batch, state, owner, scale, out):
    """Add, for each batch and lane, the scaled sums of the states that the lane's rows have."""
    for b in range(batch.shape[0]):
        for r in range(len(owner)):
            total = 0.0
            for k in range(state.shape[1]):
                total += scale[r, k] * batch[b, state[r, k], owner[r]]
            out[b, owner[r]] += total
