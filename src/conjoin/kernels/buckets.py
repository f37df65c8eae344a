"""A component of a row's free variables, one variable at a time eliminated from small tables.

The *rank* of a variable is its place in the order of elimination. Its bucket is a table over it and the
variables of higher rank that are linked to it by then, in the order of their ranks: the variable itself
is slowest. What is left of the bucket when the variable is maximised or summed out is added to the
bucket of the next variable in it. Sets of variables are words with one bit a rank.
"""

# Loops over indices, plain branches and long argument lists are what the compiler wants.

from __future__ import annotations

import numpy as np

from conjoin.kernels.functions import LOWEST_64, exp64
from conjoin.kernels.gibbs_chain import holds
from conjoin.kernels.jit import copy_into, inner, popcount
from conjoin.kernels.random_numbers import STEP, uniform

MARGINALS, MODES, DRAWS = 0, 1, 2
MOST = 64
"""Components of more variables do not fit into a word."""


@inner
def lowest(word):
    """Return the number of the lowest bit of a word."""
    return np.int64(popcount((word & (~word + np.uint64(1))) - np.uint64(1)))


@inner
def elimination_order(links, cards, limit, order, scope):
    """Eliminate the variable with the smallest bucket, again and again.

    `links` says for each variable, by its place, which others share a feature; it is used up. Writes
    the places in `order`, and the others in the bucket of each as ranks in `scope`. Returns how many
    cells all buckets have, or more than `limit`, as soon as that is known.
    """
    one = np.uint64(1)
    size = len(cards)
    left = np.uint64(0)
    for k in range(size):
        left |= one << np.uint64(k)
    total = 0
    for i in range(size):
        best, fewest = -1, limit + 1
        rest = left
        while rest:
            k = lowest(rest)
            rest &= rest - one
            cells, others = cards[k], links[k]
            while others and cells < fewest:
                cells *= cards[lowest(others)]
                others &= others - one
            if cells < fewest:
                best, fewest = k, cells
        total += fewest
        if total > limit:
            return total
        order[i] = best
        scope[i] = links[best]
        left &= ~(one << np.uint64(best))
        others = links[best]
        while others:
            k = lowest(others)
            others &= others - one
            links[k] = (links[k] | links[best]) & left & ~(one << np.uint64(k))
    for i in range(size):  # from places to ranks
        places, ranks = scope[i], np.uint64(0)
        for j in range(i + 1, size):
            if places >> np.uint64(order[j]) & one:
                ranks |= one << np.uint64(j)
        scope[i] = ranks
    return total


@inner
def strides_of(word, cards, stride):
    """Set the strides of the variables of a table, the last fastest; return its number of cells."""
    cells = 1
    for i in range(len(cards) - 1, -1, -1):
        if word >> np.uint64(i) & np.uint64(1):
            stride[i] = cells
            cells *= cards[i]
    return cells


@inner
def offsets_of(word, cards, stride, out):
    """List where the joint states of some variables lie in a table; return how many there are."""
    out[0] = 0
    count = 1
    while word:
        i = lowest(word)
        word &= word - np.uint64(1)
        card, step = cards[i], stride[i]
        for c in range(count - 1, -1, -1):
            base = out[c]
            for s in range(card):
                out[c * card + s] = base + s * step
        count *= card
    return count


@inner
def add_part(table, part, word, whole, cards, stride, inner, outer):
    """Add a table over some of the variables of another to it."""
    many = offsets_of(word, cards, stride, inner)
    for u in range(offsets_of(whole & ~word, cards, stride, outer)):
        base = outer[u]
        for c in range(many):
            table[base + inner[c]] += part[c]


@inner
def sum_part(table, part, word, whole, cards, stride, inner, outer):
    """Sum a table over all but some of its variables."""
    many = offsets_of(word, cards, stride, inner)
    part[:many] = 0.0
    for u in range(offsets_of(whole & ~word, cards, stride, outer)):
        base = outer[u]
        for c in range(many):
            part[c] += table[base + inner[c]]


@inner
def add_features(part, word, features, ptr, test, weight, test_var, mask, rank, cards, stride, digit,
                 number, allowed):  # fmt: skip
    """Sum features that test the same variables in a table over these."""
    cells = strides_of(word, cards, stride)
    part[:cells] = 0.0
    for f in features:
        size = ptr[f + 1] - ptr[f]
        base, some = 0, True
        for k in range(size):
            t = test[ptr[f] + k]
            i = rank[test_var[t]]
            count = 0
            for s in range(cards[i]):
                if holds(t, s, mask):
                    allowed[k, count] = s * stride[i]
                    count += 1
            number[k] = count
            digit[k] = 0
            some = some and count > 0
            base += allowed[k, 0]
        while some:
            part[base] += weight[f]
            k = size - 1
            while k >= 0:
                base -= allowed[k, digit[k]]
                digit[k] += 1
                if digit[k] < number[k]:
                    base += allowed[k, digit[k]]
                    break
                digit[k] = 0
                base += allowed[k, 0]
                k -= 1
            some = k >= 0


@inner
def most(table, rest, message):
    """Maximise over the slowest variable of a table; the others have `rest` joint states."""
    copy_into(message, table[:rest])
    for low in range(rest, len(table), rest):
        line = table[low : low + rest]
        for c in range(rest):
            message[c] = max(message[c], line[c])


@inner
def conditional(table, rest, message, total):
    """Sum over it instead, and leave its distribution given the others in the table."""
    most(table, rest, message)
    total[:rest] = 0.0
    for low in range(0, len(table), rest):
        line = table[low : low + rest]
        for c in range(rest):
            line[c] = exp64(max(line[c] - message[c], LOWEST_64))
            total[c] += line[c]
    for c in range(rest):
        message[c] += np.log(total[c])
        total[c] = 1 / total[c]
    for low in range(0, len(table), rest):
        line = table[low : low + rest]
        for c in range(rest):
            line[c] *= total[c]


@inner
def read_states(mode, tables, starts, scope, cards, variables, counter, stride, state, filled):
    """Choose states from the last variable to the first: the best ones, or draws."""
    size = len(cards)
    for d in range(1 if mode == MODES else len(filled)):
        for i in range(size - 1, -1, -1):
            rest = strides_of(scope[i], cards, stride)
            at = starts[i]
            for j in range(i + 1, size):
                if scope[i] >> np.uint64(j) & np.uint64(1):
                    at += state[j] * stride[j]
            chosen = 0
            if mode == MODES:
                for s in range(1, cards[i]):
                    if tables[at + s * rest] > tables[at + chosen * rest]:
                        chosen = s
            else:
                counter += STEP
                u = uniform(counter)
                while chosen < cards[i] - 1 and u >= tables[at + chosen * rest]:
                    u -= tables[at + chosen * rest]
                    chosen += 1
            state[i] = chosen
            filled[d, variables[i]] = chosen


@inner
def read_marginals(tables, starts, scope, cards, variables, slot, stride, part, inner, outer,
                   marginals):  # fmt: skip
    """Turn conditionals into joint distributions from the last variable to the first."""
    one = np.uint64(1)
    size = len(cards)
    for i in range(size - 1, -1, -1):
        table = tables[starts[i] : starts[i + 1]]
        rest = len(table) // cards[i]
        part[0] = 1.0
        if scope[i]:
            j = lowest(scope[i])
            whole = scope[j] | one << np.uint64(j)
            strides_of(whole, cards, stride)
            above = tables[starts[j] : starts[j + 1]]
            sum_part(above, part, scope[i], whole, cards, stride, inner, outer)
        for s in range(cards[i]):
            line = table[s * rest : s * rest + rest]
            total = 0.0
            for c in range(rest):
                line[c] *= part[c]
                total += line[c]
            marginals[slot[variables[i]] + s] += total


@inner
def eliminate(mode, members, features, cards, place, ptr, test, weight, test_var, mask, slot, breaking,
              counter, tables, messages, part, inner, outer, allowed, marginals, filled):  # fmt: skip
    """Answer for a component.

    `members` are its variables, at most 64, `place` says where each stands among them, and `features`
    are those that test them. `tables`, `messages`, `part`, `inner` and `outer` are room, all of one
    length: the most cells that the buckets may have.

    Returns the log-sum of the component (its maximum for MODES), NaN if nothing is possible, or inf if
    the buckets would have more cells.
    """
    one = np.uint64(1)
    size, many = len(members), len(features)
    order, variables = np.empty(size, np.int64), np.empty(size, np.int64)
    stride, digit, number = np.empty((3, size), np.int64)
    starts, passed = np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    links, scope = np.zeros(size, np.uint64), np.empty(size, np.uint64)
    keys, group = np.empty(many, np.uint64), np.empty(many + 1, np.int64)
    card = cards[members]
    rank = np.empty(len(cards), np.int64)
    for f in features:
        word = np.uint64(0)
        for e in range(ptr[f], ptr[f + 1]):
            word |= one << np.uint64(place[test_var[test[e]]])
        others = word
        while others:
            k = lowest(others)
            others &= others - one
            links[k] |= word & ~(one << np.uint64(k))
    if elimination_order(links, card, len(tables), order, scope) > len(tables):
        return np.inf
    for i in range(size):
        variables[i] = members[order[i]]
        rank[variables[i]] = i
    card = cards[variables]
    for g in range(many):
        f = features[g]
        keys[g] = 0
        for e in range(ptr[f], ptr[f + 1]):
            keys[g] |= one << np.uint64(rank[test_var[test[e]]])
    listed = np.argsort(keys)
    groups = 0  # features that test the same variables; ascending by the last of these
    for g in range(many):
        if g == 0 or keys[listed[g]] != keys[listed[g - 1]]:
            group[groups] = g
            groups += 1
    group[groups] = many
    starts[0] = passed[0] = 0
    result = 0.0
    for i in range(size):
        table, cells, whole = tables[starts[i] :], 1, np.uint64(0)
        for d in range(i, size):  # the table grows by a variable, which is then the fastest
            if d > i and not scope[i] >> np.uint64(d) & one:
                continue
            whole |= one << np.uint64(d)
            if d == i:
                table[: card[d]] = 0.0
            else:
                for c in range(cells - 1, -1, -1):
                    value = table[c]
                    for s in range(card[d]):
                        table[c * card[d] + s] = value
            cells *= card[d]
            for g in range(groups):
                word = keys[listed[group[g]]]
                if lowest(word) == i and word >> np.uint64(d) == one:
                    chosen = features[listed[group[g] : group[g + 1]]]
                    add_features(part, word, chosen, ptr, test, weight, test_var, mask, rank, card,
                                 stride, digit, number, allowed)  # fmt: skip
                    strides_of(whole, card, stride)
                    add_part(table, part, word, whole, card, stride, inner, outer)
            for j in range(i):
                if scope[j] and lowest(scope[j]) == i and scope[j] >> np.uint64(d) == one:
                    strides_of(whole, card, stride)
                    message = messages[passed[j] : passed[j + 1]]
                    add_part(table, message, scope[j], whole, card, stride, inner, outer)
        rest = cells // card[i]
        starts[i + 1] = starts[i] + cells
        passed[i + 1] = passed[i] + rest
        message = messages[passed[i] : passed[i + 1]]
        if mode == MODES:
            most(table[:cells], rest, message)
        else:
            conditional(table[:cells], rest, message, part)
        if not scope[i]:
            if message[0] < breaking:
                return np.nan
            result += message[0]
    if mode == MARGINALS:
        read_marginals(tables, starts, scope, card, variables, slot, stride, part, inner, outer,
                       marginals)  # fmt: skip
    else:
        read_states(mode, tables, starts, scope, card, variables, counter, stride, digit, filled)
    return result
