"""The named tuples of exact inference: a network's terms, its junction tree and its messages.

Importing this module does not import the compiler.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conjoin.kernels.layouts import Float1, Float2, Half3, Int1


class Terms(NamedTuple):
    """The terms whose sum is the log-potential of a network: tables first, then features."""

    # The first entry of each term; an entry is one variable of its scope; shape (terms + 1)
    first: Int1
    var: Int1  # the variable of each entry; shape (entries)
    # The stride of an entry of a table; for an entry of a feature, the position in `numbers` of the
    # first state of its variable; shape (entries)
    arg: Int1
    bases: Int1  # where each table starts in `values`; shape (tables)
    values: Float1  # the log-values of all tables
    weights: Float1  # the weight of each feature; shape (features)
    # For each distinct test one number per state: 1 where the test holds, otherwise its off value.
    # A feature is its weight times the numbers of its tests
    numbers: Float1


class JunctionTree(NamedTuple):
    """The cliques of an elimination order, children before their parents.

    The variables of a clique are listed in the order of elimination: first the ones it eliminates, its
    *residual*, then its *separator*, which it shares with its parent.
    """

    first: Int1  # where the variables of each clique start; shape (cliques + 1)
    var: Int1  # the variables of the cliques
    sizes: Int1  # the number of states of each of them
    residual: Int1  # the number of joint states of the residual; shape (cliques)
    cells: Int1  # the number of cells of the clique's table; shape (cliques)
    table_first: Int1  # where the tables start if all are kept; shape (cliques + 1)
    message_first: Int1  # where the messages to the parents start; shape (cliques + 1)
    parent: Int1  # the parent of each clique, -1 for roots; shape (cliques)
    clique_of: Int1  # the clique that eliminates each variable; shape (variables)
    size: Int1  # the number of states of each variable; shape (variables)


class Program(NamedTuple):
    """The terms and messages that each clique adds up, and how they are read."""

    first: Int1  # where the operands of each clique start; shape (cliques + 1)
    operand: Int1  # a term or, from the number of terms on, the message of a child; sorted by level
    level: Int1  # the last axis of the clique that the operand has
    arg_first: Int1  # where the arguments of the operand start in `args`
    # One argument per axis up to the level: a stride, or for a feature where the numbers of its
    # test start (-1 for an axis that it does not test)
    args: Int1
    given_first: Int1  # where the entries of variables with evidence start; shape (terms + 1)
    # given_slot, given_arg: the evidence slot of each of these entries, and its argument
    given_slot: Int1
    given_arg: Int1
    loose: Int1  # the terms without free variables


class MessageMemory(NamedTuple):
    """Memory for one run of messages over a junction tree."""

    # Where the table of each clique starts in `table`; all 0 if tables need not be kept; shape
    # (cliques)
    offset: Int1
    table: Float1  # the clique tables
    message: Float1  # the messages
    base: Int1  # where each table of the terms starts, given the evidence; shape (tables)
    weight: Float1  # the weight of each feature, given the evidence; shape (features)
    counter: Int1  # counters of the loops over the axes of a table; shape (5, 64)
    partial: Float1  # partial products of a feature; shape (64)
    chunk: Float1  # maxima, sums and exponentials of a part of a table; shape (3, CHUNK)


SUM, MARGINALS, MAXIMUM, DRAWS, EXPECTATIONS = 0, 1, 2, 3, 4
"""What messages are for: log Z, and marginals, the best instance, draws, or expectations of the terms."""

MISSING = np.uint16(np.iinfo(np.uint16).max)
"""The code of a missing value in the rows that kernels answer."""


class AnswerArrays(NamedTuple):
    """What kernels write for each of some rows."""

    # The logarithm of the sum of the potentials of all instances that agree with a row (MAXIMUM:
    # the largest of them): -inf for an impossible row, NaN where a component was left out; shape
    # (rows)
    log_sum: Float1
    # Written in mode MARGINALS; shape (rows, states)
    marginals: Float2
    # For MAXIMUM (one draw) and DRAWS: the rows, whose free variables are written; shape (rows,
    # draws, variables)
    filled: Half3
