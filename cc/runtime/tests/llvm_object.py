"""Writes an object as the compiler's LLVM emits it, for cc/runtime/tests/object_loader_test.cc.

`python llvm_object.py OPTIONS PATH`: OPTIONS is `RELOC,MODEL`, as `pic,small`. The function
`void poly(float* x, int64_t n)` maps x[i] to (x[i] * ramp[i % 16] + 0.5) * table[i % 5], with a
loop of 16 lanes and a masked tail, so that vector constants land in .rodata.cst* and a table in
.rodata; `float choose(int64_t case, float x)` has a switch that becomes a jump table.
"""

from __future__ import annotations

import sys
from pathlib import Path

import llvmlite.binding as llvm

LANES = 16
RAMP = [1.0 + 0.25 * lane for lane in range(LANES)]
TABLE = [2.0, 3.0, 5.0, 7.0, 11.0]


def _vector(values: list[float]) -> str:
    return "<" + ", ".join(f"float {value!r}" for value in values) + ">"


def _ir() -> str:
    indices = "<" + ", ".join(f"i64 {lane}" for lane in range(LANES)) + ">"
    zeros = "zeroinitializer"
    first = f"<{LANES} x i64> poison, i64"
    shuffle = f"<{LANES} x i64> poison, <{LANES} x i32> {zeros}"
    gather = f"@llvm.masked.gather.v{LANES}f32.v{LANES}p0"
    cases = "\n".join(f"    i64 {c}, label %case{c}" for c in range(6))
    blocks = "\n".join(
        f"case{c}:\n  %v{c} = fadd float %x, {float(c * c + 1)!r}\n  br label %done"
        for c in range(6)
    )
    joins = ", ".join(f"[ %v{c}, %case{c} ]" for c in range(6))
    return f"""
@table = private unnamed_addr constant [5 x float] [{_vector(TABLE)[1:-1]}], align 16

define void @poly(ptr noalias %x, i64 %n) {{
entry:
  %empty = icmp sle i64 %n, 0
  br i1 %empty, label %exit, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %base1 = insertelement {first} %i, i64 0
  %base = shufflevector <{LANES} x i64> %base1, {shuffle}
  %index = add <{LANES} x i64> %base, {indices}
  %end1 = insertelement {first} %n, i64 0
  %end = shufflevector <{LANES} x i64> %end1, {shuffle}
  %mask = icmp slt <{LANES} x i64> %index, %end
  %p = getelementptr float, ptr %x, i64 %i
  %v = call <{LANES} x float> @llvm.masked.load.v{LANES}f32.p0(ptr %p, i32 4,
      <{LANES} x i1> %mask, <{LANES} x float> {zeros})
  %scaled = fmul <{LANES} x float> %v, {_vector(RAMP)}
  %shifted = fadd <{LANES} x float> %scaled, {_vector([0.5] * LANES)}
  %which = urem <{LANES} x i64> %index, <{", ".join(["i64 5"] * LANES)}>
  %entries = getelementptr [5 x float], ptr @table, i64 0, <{LANES} x i64> %which
  %factors = call <{LANES} x float> {gather}(<{LANES} x ptr> %entries, i32 4,
      <{LANES} x i1> %mask, <{LANES} x float> {zeros})
  %result = fmul <{LANES} x float> %shifted, %factors
  call void @llvm.masked.store.v{LANES}f32.p0(<{LANES} x float> %result, ptr %p, i32 4,
      <{LANES} x i1> %mask)
  %next = add i64 %i, {LANES}
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  ret void
}}

declare <{LANES} x float> @llvm.masked.load.v{LANES}f32.p0(ptr, i32, <{LANES} x i1>,
    <{LANES} x float>)
declare void @llvm.masked.store.v{LANES}f32.p0(<{LANES} x float>, ptr, i32, <{LANES} x i1>)
declare <{LANES} x float> {gather}(<{LANES} x ptr>, i32, <{LANES} x i1>, <{LANES} x float>)

define float @choose(i64 %case, float %x) {{
entry:
  switch i64 %case, label %other [
{cases}
  ]
{blocks}
other:
  br label %done
done:
  %v = phi float [ %x, %other ], {joins}
  ret float %v
}}
"""


def main(options: str, path: str) -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    reloc, model = options.split(",")
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(
        cpu="x86-64-v3", opt=2, reloc=reloc, codemodel=model, jit=False
    )
    module = llvm.parse_assembly(_ir())
    module.triple = "x86_64-unknown-linux-gnu"
    module.verify()
    Path(path).write_bytes(machine.emit_object(module))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
