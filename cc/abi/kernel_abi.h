/* The contract between generated code and the runtime.
 *
 * Plain C, versioned, free of TensorFlow and of any library: generated code is
 * written against this page alone, and a kernel written by hand against it
 * (cc/runtime/tests) proves the runtime without the compiler. Whatever changes
 * here changes DISC_ABI_VERSION, docs/kernel_abi.md and
 * tf_disc/compiler/codegen/abi.py together.
 *
 * Life of one call:
 *   1. The runtime fills `inputs`, `sizes`, `output_dims` (room only) and calls
 *      `disc_plan`. It evaluates the guards and writes every size: `sizes`,
 *      `output_dims`, `arena_bytes`, `scratch_bytes`. It writes nothing else,
 *      reads no input data but small integer operands, and calls nothing.
 *   2. The runtime allocates outputs, arena and scratch, and calls `disc_run`.
 *      It issues tasks through the imports and returns when all have ended.
 * A status other than DISC_OK from either means that the outputs hold nothing
 * of use; the host then runs its own fallback. Inputs are never written.
 */
#ifndef TF_DISC_CC_ABI_KERNEL_ABI_H_
#define TF_DISC_CC_ABI_KERNEL_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DISC_ABI_VERSION 3

/* What an entry or a task returns. */
enum disc_status {
  DISC_OK = 0,
  DISC_GUARD_FAILED = 1,   /* frame->failed_guard says which */
  DISC_LIBRARY_FAILED = 2, /* an import failed; the runtime knows why */
};

/* Element types, as `dtype` arguments. */
enum disc_dtype {
  DISC_F32 = 1,
  DISC_F64 = 2,
  DISC_I32 = 3,
  DISC_I64 = 4,
  DISC_BOOL = 5, /* one byte, 0 or 1 */
  DISC_I8 = 6,
  DISC_U8 = 7,
  DISC_I16 = 8,
  DISC_F16 = 9,
  DISC_BF16 = 10,
};

typedef struct disc_frame disc_frame_t;

/* One input. Row-major and dense. `data` may be null where a dim is 0. At least
 * element-aligned; `dims` has as many entries as the manifest's rank. */
typedef struct disc_tensor {
  const void* data;
  const int64_t* dims;
} disc_tensor_t;

/* A task: items [begin, end) of a parallel loop, run by participant `slot`.
 * `args` is the block that was given to parallel_for, shared by all
 * participants and read-only while the loop runs. */
typedef int32_t (*disc_task_fn)(disc_frame_t* frame, const int64_t* args,
                                int64_t begin, int64_t end, int32_t slot);

/* Functions that generated code may call, and the only ones. All are safe to
 * call from any thread that runs `disc_run` or a task of this frame. */
typedef struct disc_imports {
  uint32_t abi_version; /* DISC_ABI_VERSION */
  uint32_t size_bytes;  /* sizeof(disc_imports_t) */

  /* Runs fn over [0, count) in ranges whose bounds are multiples of `grain`
   * (the last may be short), each on one participant, and returns the first
   * status that is not DISC_OK, after every started range has ended.
   * `task` is the index into the manifest's tasks, for traces. `item_cost_ns`
   * is the estimated time of one item: small loops stay on one thread.
   * count = 0 returns DISC_OK. Never nested. */
  int32_t (*parallel_for)(disc_frame_t* frame, int32_t task, disc_task_fn fn,
                          const int64_t* args, int64_t count, int64_t grain,
                          int64_t item_cost_ns);

  /* Columns [begin, end) of a[rows, K] x weight[K, N] for entry `gemm` of the
   * manifest, which names the weight input, K, N, dtypes and transposition. a
   * is of the packed dtype, f32 or bf16, c is f32 and points at column begin,
   * a multiple of 64. Leading dimensions count elements. c is overwritten and
   * may not alias a. Runs on the calling thread; `slot` is the task's.
   * rows >= 0. */
  int32_t (*gemm_packed)(disc_frame_t* frame, int32_t gemm, int32_t slot,
                         int64_t rows, int64_t begin, int64_t end,
                         const void* a, int64_t lda, void* c, int64_t ldc);

  /* c[m, n] = op(a) x op(b), op a transposition where the flag is 1: a is
   * [m, k], or [k, m] with transpose_a; b is [k, n], or [n, k] with
   * transpose_b. Row-major with leading dimensions in elements. k = 0 gives
   * zeros; integers wrap around. dtype: DISC_F32, F64, I32, I64, or BF16, of
   * which c is f32. */
  int32_t (*gemm_dense)(disc_frame_t* frame, int32_t dtype, int32_t slot,
                        int32_t transpose_a, int32_t transpose_b, int64_t m,
                        int64_t n, int64_t k, const void* a, int64_t lda,
                        const void* b, int64_t ldb, void* c, int64_t ldc);
} disc_imports_t;

/* One call. Generated code reads and writes it in place; offsets are pinned in
 * cc/abi/kernel_abi_layout.cc and mirrored in codegen/abi.py. */
struct disc_frame {
  const disc_imports_t* imports;
  void* run;                   /* the runtime's own; never touched */
  const disc_tensor_t* inputs; /* [manifest inputs] */
  void* const* outputs;        /* [manifest outputs], 64-byte aligned; null in
                                  plan; a null one in run is an empty output */
  int64_t* output_dims; /* plan writes: dims of output 0, then of output 1 … */
  int64_t* sizes;       /* plan writes, run and tasks read: [manifest sizes] */
  void* arena;          /* arena_bytes, 64-byte aligned; uninitialised */
  void* scratch; /* slot s owns [scratch + s * scratch_stride, +stride) */
  int64_t scratch_stride; /* >= scratch_bytes, a multiple of 64 */
  int64_t arena_bytes;    /* plan writes */
  int64_t scratch_bytes; /* plan writes: bytes of scratch that one slot needs */
  int32_t num_slots;     /* participants that parallel_for may use, >= 1;
                            set before plan */
  int32_t failed_guard;  /* index into the manifest's guards; -1 before */
};

/* The two entries that an object exports under the manifest's names. */
typedef int32_t (*disc_plan_fn)(disc_frame_t* frame);
typedef int32_t (*disc_run_fn)(disc_frame_t* frame);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TF_DISC_CC_ABI_KERNEL_ABI_H_ */
