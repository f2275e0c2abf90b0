"""What work costs, as far as a compiler can know it: vector instructions an element, from ir/functions.py, and ns.

Estimates decide three things: whether a value is kept in a row buffer or computed again, how many rows a loop takes
at once, and how a parallel loop is cut. All are right to a factor of two or so, which is enough for them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tf_disc.compiler.ir.dims import Dim
from tf_disc.compiler.ir.functions import FUNCTIONS
from tf_disc.compiler.ir.graph import Op, Value

#: Instructions on an element that a core does in a ns, where data are in cache: one vector of 16 lanes a cycle, or two
#: of 8. Measured: 64 x 768 LayerNorm 0.22 ns an element, 32 x 3072 GELU 0.34, which are 11 and 23 instructions.
LANE_OPS_PER_NS = 60
#: Joining the lanes of a reduction waits for each of its steps.
HREDUCE_NS = 8

#: A store to a row buffer and a load from it are worth so many instructions while the buffer is in L1 or L2 (softmax of
#: 1,000 and of 131,072 columns: 0.39 and 0.43 ns an element with exp kept, 0.56 and 0.54 with exp computed again) …
NEAR_BUFFER_COST = 6
#: … and so many where it is not (8 M columns: LayerNorm, of which a square is kept, 0.84 and 0.69; softmax 0.61 and 1.02).
FAR_BUFFER_COST = 12
#: Bytes of a row that leave L2. An unknown size is taken to be less.
FAR_BYTES = 1 << 20


def is_worth_keeping(cost: int, row_bytes: Dim) -> bool:
    """Whether an element that takes `cost` instructions to compute again is better kept in a buffer of `row_bytes`."""
    far = row_bytes.value is not None and row_bytes.value > FAR_BYTES
    return cost > (FAR_BUFFER_COST if far else NEAR_BUFFER_COST)


def own_cost(op: Op, unknown: int = 2) -> int:
    """Instructions of an op by itself."""
    function = FUNCTIONS.get(op.name)
    return function.cost if function else unknown


def inlined_cost(values: Iterable[Value], inlined: set[Op]) -> int:
    """Instructions of all that is computed where these values are read."""
    total = 0
    stack = list(values)
    while stack:
        op = stack.pop().op
        if op is None:
            continue
        if op in inlined:
            total += own_cost(op)
        if op in inlined or op.name in ("reshape", "broadcast", "pad", "window"):
            stack += op.operands
    return total


def reduction_step(op: Op, inlined: set[Op]) -> int:
    """Instructions for one more element of a reduction over earlier axes: a load, the join, and what is inlined."""
    return 2 + inlined_cost(op.operands, inlined)
