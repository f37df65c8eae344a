"""The named tuples of exact inference: a network's terms, its junction tree and its messages.

Importing this module does not import the compiler.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conjoin.kernels.layouts import Float1, Float2, Half3, Int1
from conjoin.kernels.signatures import layout


@layout
class Terms(NamedTuple):
    """The terms whose sum is the log-potential of a network: tables first, then features.

    Attributes
    ----------
    first : int64, (terms + 1,)
        The first entry of each term; an entry is one variable of its scope.
    var : int64, (entries,)
        The variable of each entry.
    arg : int64, (entries,)
        The stride of an entry of a table; for an entry of a feature, the position in `numbers` of the
        first state of its variable.
    bases : int64, (tables,)
        Where each table starts in `values`.
    values : float64
        The log-values of all tables.
    weights : float64, (features,)
        The weight of each feature.
    numbers : float64
        For each distinct test one number per state: 1 where the test holds, otherwise its off value. A
        feature is its weight times the numbers of its tests.
    """

    first: Int1
    var: Int1
    arg: Int1
    bases: Int1
    values: Float1
    weights: Float1
    numbers: Float1


@layout
class JunctionTree(NamedTuple):
    """The cliques of an elimination order, children before their parents.

    The variables of a clique are listed in the order of elimination: first the ones it eliminates, its
    *residual*, then its *separator*, which it shares with its parent.

    Attributes
    ----------
    first : int64, (cliques + 1,)
        Where the variables of each clique start.
    var : int64
        The variables of the cliques.
    sizes : int64
        The number of states of each of them.
    residual : int64, (cliques,)
        The number of joint states of the residual.
    cells : int64, (cliques,)
        The number of cells of the clique's table.
    table_first : int64, (cliques + 1,)
        Where the tables start if all are kept.
    message_first : int64, (cliques + 1,)
        Where the messages to the parents start.
    parent : int64, (cliques,)
        The parent of each clique, -1 for roots.
    clique_of : int64, (variables,)
        The clique that eliminates each variable.
    size : int64, (variables,)
        The number of states of each variable.
    """

    first: Int1
    var: Int1
    sizes: Int1
    residual: Int1
    cells: Int1
    table_first: Int1
    message_first: Int1
    parent: Int1
    clique_of: Int1
    size: Int1


@layout
class Program(NamedTuple):
    """The terms and messages that each clique adds up, and how they are read.

    Attributes
    ----------
    first : int64, (cliques + 1,)
        Where the operands of each clique start.
    operand : int64
        A term or, from the number of terms on, the message of a child; sorted by level.
    level : int64
        The last axis of the clique that the operand has.
    arg_first : int64
        Where the arguments of the operand start in `args`.
    args : int64
        One argument per axis up to the level: a stride, or for a feature where the numbers of its
        test start (-1 for an axis that it does not test).
    given_first : int64, (terms + 1,)
        Where the entries of variables with evidence start.
    given_slot, given_arg : int64
        The evidence slot of each of these entries, and its argument.
    loose : int64
        The terms without free variables.
    """

    first: Int1
    operand: Int1
    level: Int1
    arg_first: Int1
    args: Int1
    given_first: Int1
    given_slot: Int1
    given_arg: Int1
    loose: Int1


class Workspace(NamedTuple):
    """Memory for one run of messages over a junction tree.

    Attributes
    ----------
    offset : int64, (cliques,)
        Where the table of each clique starts in `table`; all 0 if tables need not be kept.
    table : float64
        The clique tables.
    message : float64
        The messages.
    base : int64, (tables,)
        Where each table of the terms starts, given the evidence.
    weight : float64, (features,)
        The weight of each feature, given the evidence.
    counter : int64, (5, 64)
        Counters of the loops over the axes of a table.
    partial : float64, (64,)
        Partial products of a feature.
    chunk : float64, (3, CHUNK)
        Maxima, sums and exponentials of a part of a table.
    """

    offset: Int1
    table: Float1
    message: Float1
    base: Int1
    weight: Float1
    counter: Int1
    partial: Float1
    chunk: Float1


SUM, MARGINALS, MAXIMUM, DRAWS, EXPECTATIONS, JOINT = 0, 1, 2, 3, 4, 5
"""What messages are for: log Z, and marginals, the best instance, draws, or expectations of the terms."""

MISSING = np.uint16(np.iinfo(np.uint16).max)
"""The code of a missing value in the rows that kernels answer."""


@layout
class RowFeatures(NamedTuple):
    """Features sorted by their literals, to be reduced by the known values of one row after another.

    A *literal* is a test with its off value.

    Attributes
    ----------
    cards : int64, (variables,)
        The number of states of each variable.
    state_first : int64, (variables,)
        Where the states of each variable start among those of all variables.
    first : int64, (features + 1,)
        The first entry of each feature.
    literal : int64, (entries,)
        The literal of each entry.
    skip : int64, (entries,)
        The next feature that does not begin with the same literals up to this one.
    weight : float64, (features,)
        The weight of each feature.
    literal_var : int64, (literals,)
        The variable of each literal.
    literal_first : int64, (literals,)
        Where each literal starts in `numbers`.
    numbers : float64
        One number per literal and state: 1 where the test holds, otherwise its off value.
    """

    cards: Int1
    state_first: Int1
    first: Int1
    literal: Int1
    skip: Int1
    weight: Float1
    literal_var: Int1
    literal_first: Int1
    numbers: Float1


@layout
class RowAnswers(NamedTuple):
    """What kernels write for each of some rows.

    Attributes
    ----------
    log_sum : float64, (rows,)
        The logarithm of the sum of the potentials of all instances that agree with a row (MAXIMUM: the
        largest of them): -inf for an impossible row, NaN where a component was left out.
    marginals : float64, (rows, states)
        Written in mode MARGINALS; in mode JOINT, the log-sums together with each state of one variable.
    filled : uint16, (rows, draws, variables)
        For MAXIMUM (one draw) and DRAWS: the rows, whose free variables are written.
    """

    log_sum: Float1
    marginals: Float2
    filled: Half3
