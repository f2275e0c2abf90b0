"""Random graphs of elementwise ops, conds and loops."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def random_graph(seed: int, loops: bool = True) -> None:
    """Elementwise ops, ops without a rule, conds and loops, over a pool of values."""
    rng = np.random.default_rng(seed)
    p = tf.compat.v1.placeholder(tf.bool, [], name="p")
    n = tf.compat.v1.placeholder(tf.int32, [], name="n")

    def step(pool: list[tf.Tensor], depth: int) -> tf.Tensor:
        a, b = (pool[int(rng.integers(len(pool)))] for _ in range(2))
        kind = int(rng.integers(8 if depth < 2 else 5))
        if kind < 3:
            return tf.tanh(a + b)
        if kind == 3:
            return tf.math.atan(a)
        if kind == 4:
            with tf.control_dependencies([b]):
                return tf.tanh(a) * 0.5
        if kind == 7 and loops:
            return tf.while_loop(
                lambda i, *_: i < n,
                lambda i, u, v: (i + 1, part([u, v, *pool], depth + 1), tf.tanh(v - u)),
                (tf.constant(0), a, b),
            )[1]
        return tf.cond(p, lambda: part(pool, depth + 1), lambda: part(pool, depth + 1) + b)

    def part(pool: list[tf.Tensor], depth: int) -> tf.Tensor:
        pool = list(pool)
        for _ in range(int(rng.integers(3, 8))):
            pool.append(step(pool, depth))
        return tf.tanh(pool[-1] + pool[-2])

    tf.identity(part([tf.compat.v1.placeholder(tf.float32, [2, 8], name="x")], 0), name="out")
