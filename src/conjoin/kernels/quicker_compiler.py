"""Shortcuts in numba's compiler: the same machine code in less time.

numba finds out what an operation such as ``a[i]`` means by asking some twenty candidates, at every place
where it is written, and compares all compiler options each time. `shorten` makes it compare the options
that are set, and remember which candidate answered for which types.
"""

from __future__ import annotations

from typing import Any

from numba.core import ir
from numba.core.targetconfig import ConfigStack, TargetConfig
from numba.core.types import BaseFunction

_ask_candidates = BaseFunction.get_call_type
_answers: dict[Any, list[tuple[Any, ...]]] = {}
"""The signatures found for an operation and types, each with the options for which it was found."""


def same_options(a: TargetConfig, b: Any) -> Any:
    """Whether two sets of compiler options are equal: ``a == b``."""
    if not isinstance(b, TargetConfig):
        return NotImplemented
    return a is b or a._values == b._values or a.values() == b.values()


def hash_of_options(options: Any) -> int:
    """Return a hash that does not depend on the values of options, as numba does."""
    return len(options.options)


def call_type(operation: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return the signature of an operation for some types; remember it for these types and options."""
    options = ConfigStack.top_or_none()
    if kws or options is None:
        return _ask_candidates(operation, context, args, kws)
    key = (id(operation), id(context), tuple(args))
    known = _answers.setdefault(key, [])
    for values, signature, implementation, *_ in known:
        if values == options._values:
            operation._impl_keys[signature.args] = implementation
            return signature
    values = dict(options._values)
    signature = _ask_candidates(operation, context, args, kws)
    if signature is not None:
        # The last two are kept alive, so that no other object gets their identity.
        known.append((values, signature, operation.get_impl_key(signature), operation, context))
    return signature


def variables_in(statement: Any, value: Any) -> list[Any]:
    """Return the variables in a value that is part of a statement, at any depth."""
    if isinstance(value, ir.Var):
        return [value]
    if isinstance(value, ir.Inst):
        return value.list_vars()
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return []
    found = []
    for part in value:
        kind = type(part)
        if kind is ir.Var:
            found.append(part)
        elif kind is not str and kind is not ir.Loc:
            found += variables_in(statement, part)
    return found


def shorten() -> None:
    """Put the shortcuts in place, for all that numba compiles in this process."""
    options: Any = TargetConfig
    options.__eq__, options.__hash__ = same_options, hash_of_options
    operations: Any = BaseFunction
    operations.get_call_type = call_type
    instructions: Any = ir.Inst
    instructions._rec_list_vars = variables_in
