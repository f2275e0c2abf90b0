"""LLVM IR from fused groups."""
