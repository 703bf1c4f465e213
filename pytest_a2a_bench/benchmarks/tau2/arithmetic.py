"""tau2's tool ``calculate`` evaluates whatever is made of digits and operators, ``9**9**9**9`` too: that never ends.

Python's big numbers cannot be interrupted and hold the interpreter's lock, so one such call would stop the whole
process, and again in upstream's evaluator, which replays it. So the call itself is made harmless before anybody carries
it out.
"""

from __future__ import annotations

import ast
import math
import warnings
from typing import Final

from pytest_a2a_bench.model import ToolCall

TOOL: Final = "calculate"
REFUSED: Final = "an expression whose value is too large"
"""What stands in place of the expression; tau2's tool answers that it has invalid characters."""

_MAX_BITS: Final = 100_000
_MAX_LENGTH: Final = 10_000


def defuse(call: ToolCall) -> ToolCall:
    """Return a call; one of ``calculate`` that takes for ever has an expression that is refused in its place."""
    expression = call.arguments.get("expression") if call.name == TOOL else None
    if not isinstance(expression, str) or "**" not in expression or is_small(expression):
        return call
    return ToolCall(call.name, {**call.arguments, "expression": REFUSED}, call.id)


def is_small(expression: str) -> bool:
    """Tell whether no intermediate value of an arithmetic expression needs more than some 100,000 bits.

    What is no expression is small: evaluating it fails at once.
    """
    if len(expression) > _MAX_LENGTH:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(expression.strip(), mode="eval")
        return _bits(tree.body) <= _MAX_BITS
    except (OverflowError, RecursionError, MemoryError):
        return False
    except (SyntaxError, ValueError):
        return True


def _bits(node: ast.expr) -> float:
    """Return how many bits a value has at most.

    :raises OverflowError: if they, or those of a value on the way to it, are too many.
    """
    match node:
        case ast.Constant(value=int() | float() as value):
            return math.log2(abs(value)) if abs(value) > 1 else 0.0
        case ast.UnaryOp(operand=operand):
            return _bits(operand)
        case ast.BinOp(left=left, op=op, right=right):
            bits = _bits_of(op, _bits(left), _bits(right))
            if bits > _MAX_BITS:
                raise OverflowError
            return bits
    return 0.0


def _bits_of(op: ast.operator, left: float, right: float) -> float:
    match op:
        case ast.Pow():
            # A fraction to a negative power grows as well, but in floats, which have an end.
            return max(left, 1.0) * math.exp2(min(right, 64.0))
        case ast.Add() | ast.Sub():
            return max(left, right) + 1
        case ast.Mult():
            return left + right
    return max(left, right)
