"""Writes docs/architecture.md: one small cluster through every stage, with real dumps: `make docs`."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from tf_disc.compiler.pipeline import compile_cluster

PAGE = Path("docs") / "architecture.md"
TARGET = "x86-64-v3"

#: Each row of x, scaled, as parts of its sum. All sizes unknown.
CLUSTER: dict[str, Any] = {
    "version": 1,
    "name": "cluster_0123456789abcdef",
    "inputs": [
        {"name": "x", "dtype": "f32", "kind": "tensor", "dims": [None, None], "sizes": [16, 300]},
        {"name": "scale", "dtype": "f32", "kind": "tensor", "dims": [None], "sizes": [300]},
        {"name": "axis", "dtype": "i32", "kind": "const", "dims": [], "sizes": [], "value": [1]},
    ],
    "nodes": [
        {"name": "scaled", "op": "Mul", "inputs": ["x", "scale"], "attrs": {"T": {"type": "f32"}}},
        {
            "name": "total",
            "op": "Sum",
            "inputs": ["scaled:0", "axis"],
            "attrs": {"T": {"type": "f32"}, "Tidx": {"type": "i32"}, "keep_dims": {"b": True}},
        },
        {
            "name": "parts",
            "op": "RealDiv",
            "inputs": ["scaled:0", "total:0"],
            "attrs": {"T": {"type": "f32"}},
        },
    ],
    "outputs": ["parts:0"],
}

_TEXT = """\
# Architecture

<!-- Made by `make docs` from tf_disc/tools/architecture_page.py, which compiles the cluster below. -->

One small cluster on its way through every folder. What is shown is what the compiler wrote when this
page was made (`TF_DISC_DUMP=folder` writes the same for yours); a test compiles it again and compares.
The texts that cross a border between parts are stated in [contracts.md](contracts.md).

The user's function is `scaled = x * scale; parts = scaled / tf.reduce_sum(scaled, 1, keepdims=True)`.

## The pass: `cc/grappler`
Grappler hands over each graph that TensorFlow is about to run. The pass marks the nodes that the op
rules can compile, grows clusters of them, moves each cluster into a function and puts one `DiscLaunch`
node in its place. What it knows of ops is the table that `tf_disc/compiler/op_rules` hands over
([ops.md](ops.md)); there is no second list.

## The launch: `cc/ops`, `cc/compile`
At the first call with new types, ranks or constant operands, `DiscLaunch` writes the cluster as a
file and asks a worker process to compile it. Until the kernel is there, TensorFlow runs the function.
The sizes of this call are in the file, but as hints alone; a null among `dims` is a size that nobody
knows:

```json
{cluster}
```

## Tensor IR: `compiler/importer`, `compiler/op_rules`, `compiler/ir`
The importer takes node by node through the op's rule, which states what sizes must agree and builds a
few core ops. Broadcasting is explicit. Unknown sizes are symbols: `d0_1` is axis 1 of input 0. `Mul`
needs the last axis of `x` and the axis of `scale` to agree; both have 300 elements in this call, so the
importer supposes that they always do, writes one symbol for both, and a guard that the kernel checks
at each call ([ADR 0002](adr/0002-symbolic-dims-and-speculation.md)).

```
{imported}
```

The passes in `compiler/passes` then rewrite the graph, one file a pass. Here they drop the constant
that nothing reads any more.

## Groups: `compiler/passes/groups.py`
A group is what runs in one loop over memory. All three ops fit one: the sum is along the row, and
both readers walk the rows in the same order. `full` has a value for each element, `row` one for each
row. Only the output is stored; `scaled` never lies in memory
([ADR 0003](adr/0003-fusion-groups.md)).

```
{groups}
```

## Loop IR: `compiler/codegen/kernel.py`, `evaluation.py`
The group becomes a kernel: a range of rows, and for each row two phases, since the division needs
the whole sum. `v.` is a value for each lane of a vector; `vfor` goes over full vectors and then over
the rest under a mask, so that no size is special. The multiplication is cheap, so the second phase
does it again rather than keep its result. The first loop over rows, a `vfor`, is for rows of up to 48
elements, of which a vector would hold too few: there a lane is a row, and blocks of rows are turned in
registers on their way in and out ([ADR 0006](adr/0006-short-rows-in-lanes.md)). One of the two loops is
empty at each call; where the compiler knows the columns, only one is there.

```
{loops}
```

## LLVM: `compiler/codegen/emit_llvm.py`, `host_program.py`, `object_file.py`
Vectors are explicit ({lanes} lanes for {target}). This is the body of the second phase's loop over full
vectors; LLVM optimises it and writes an object file.

```llvm
{llvm}
```

Beside the kernels the module has two entries, also generated. `disc_plan` reads the inputs' sizes, checks
the guards and computes all other sizes; `disc_run` puts addresses and sizes into a block for each
kernel and starts it as a parallel loop through the imports of `cc/abi/kernel_abi.h`, the only functions
that generated code can call.

## The artifact: `cc/compile`, `cc/runtime`
The worker sends back the object and a manifest, which says all that the runtime must know:

```
{manifest}
```

`cc/runtime` loads the object ([ADR 0010](adr/0010-object-loader.md)), and from then on each call checks
the guard, allocates the output, and runs the rows on TensorFlow's own threads. When the guard does
not hold, TensorFlow runs the function, so that a wrong size gives TensorFlow's own error.
"""


def vector_loop(module: str, op: str) -> str:
    """The first block of an LLVM module that has an op in a loop over full vectors."""
    for block in re.split(r"\n(?=[\w.]+:\n)", module):
        lines = block.splitlines()
        if lines[0].startswith("body") and op in block and "masked" not in block:
            # A number in every lane is two long lines of llvmlite; the elements are all the same.
            text = "\n".join(re.sub(r"<(\w+ undef)(, \1)+>", "undef", line) for line in lines)
            return re.sub(r"<i32 0(, i32 0)+>", "zeroinitializer", text)
    raise ValueError(f"no vector loop with {op}")


def page() -> str:
    """The whole page. Compiles the cluster."""
    with tempfile.TemporaryDirectory() as folder:
        artifact = compile_cluster(CLUSTER, target=TARGET, dump=folder)
        stages = {
            path.stem.partition("_")[2]: path.read_text(encoding="utf-8").strip()
            for path in Path(folder).glob("[0-9]*_*")
        }
    items = {
        key: ",\n  ".join(json.dumps(item) for item in CLUSTER[key]) for key in ("inputs", "nodes")
    }
    cluster = (
        f'{{"version": 1, "name": "{CLUSTER["name"]}",\n'
        f' "inputs": [\n  {items["inputs"]}],\n "nodes": [\n  {items["nodes"]}],\n'
        f' "outputs": {json.dumps(CLUSTER["outputs"])}}}'
    )
    if json.loads(cluster) != CLUSTER:
        raise ValueError("the cluster on the page is not the one that is compiled")
    parts = {
        "cluster": cluster,
        "imported": stages["import"],
        "groups": stages["groups"],
        "loops": stages["loops"],
        "llvm": vector_loop(stages["llvm"], "fdiv"),
        "manifest": artifact.manifest.strip(),
        "lanes": "8",
        "target": TARGET,
    }
    return re.sub(r"\{(\w+)\}", lambda m: parts[m[1]], _TEXT)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
