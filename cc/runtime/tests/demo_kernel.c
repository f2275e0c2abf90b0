/* A kernel written by hand against cc/abi/kernel_abi.h, to be read as a
 * tutorial: what generated code has to do, and nothing that it may not.
 * demo_kernel_test.cc compiles, loads and runs it.
 *
 *   y[n, N] = relu(x[n, K] x w[K, N] + bias[N])        manifest gemm 0
 *   s[m, m] = y[:m] x transpose(y[:m]), m = n / 2      gemm_dense
 *
 * with K = 24 and N = 40. The manifest is in demo_kernel_test.cc.
 */
#include "cc/abi/kernel_abi.h"

enum { kK = 24, kN = 40 };
enum { kInputX, kInputW, kInputBias };
enum { kOutputY, kOutputS };
enum { kSizeRows, kSizeHalf };
enum { kGuardX, kGuardBias };

/* A GEMM tile followed at once by its epilogue, while it is in cache. */
enum { kTileRows = 64 };

/* Sizes first: guards, then `sizes`, output dims, and memory. No input data is
 * read (only small integer operands may be), nothing is called. */
int32_t demo_plan(disc_frame_t* frame) {
  const int64_t rows = frame->inputs[kInputX].dims[0];
  if (frame->inputs[kInputX].dims[1] != kK) {
    frame->failed_guard = kGuardX;
    return DISC_GUARD_FAILED;
  }
  if (frame->inputs[kInputBias].dims[0] != kN) {
    frame->failed_guard = kGuardBias;
    return DISC_GUARD_FAILED;
  }
  frame->sizes[kSizeRows] = rows;
  frame->sizes[kSizeHalf] = rows / 2;
  frame->output_dims[0] = rows; /* y: rank 2 */
  frame->output_dims[1] = kN;
  frame->output_dims[2] = rows / 2; /* s: rank 2 */
  frame->output_dims[3] = rows / 2;
  frame->arena_bytes = rows * kN * (int64_t)sizeof(float);
  frame->scratch_bytes = kTileRows * kN * (int64_t)sizeof(float);
  return DISC_OK;
}

/* Rows [begin, end) of y, a tile at a time. Only this slot's scratch is
 * written, and only these rows of the arena. */
static int32_t gemm_bias_relu(disc_frame_t* frame, const int64_t* args,
                              int64_t begin, int64_t end, int32_t slot) {
  const float* x = (const float*)frame->inputs[kInputX].data;
  const float* bias = (const float*)frame->inputs[kInputBias].data;
  float* tile = (float*)((char*)frame->scratch + slot * frame->scratch_stride);
  float* y = (float*)frame->arena;
  (void)args;
  for (int64_t row = begin; row < end; row += kTileRows) {
    const int64_t rows = end - row < kTileRows ? end - row : kTileRows;
    const int32_t status = frame->imports->gemm_packed(
        frame, 0, slot, rows, 0, kN, x + row * kK, kK, tile, kN);
    if (status != DISC_OK) return status;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        const float sum = tile[i * kN + j] + bias[j];
        /* As TensorFlow's Relu: NaN stays NaN. */
        y[(row + i) * kN + j] = sum < 0.0f ? 0.0f : sum;
      }
    }
  }
  return DISC_OK;
}

/* `args` is the block given to parallel_for: here the factor of a copy. */
static int32_t copy_rows(disc_frame_t* frame, const int64_t* args,
                         int64_t begin, int64_t end, int32_t slot) {
  const float* from = (const float*)frame->arena;
  float* to = (float*)frame->outputs[kOutputY];
  (void)slot;
  for (int64_t i = begin * args[0]; i < end * args[0]; ++i) to[i] = from[i];
  return DISC_OK;
}

int32_t demo_run(disc_frame_t* frame) {
  const int64_t rows = frame->sizes[kSizeRows];
  const int64_t half = frame->sizes[kSizeHalf];
  const int64_t args[1] = {kN};
  int32_t status = frame->imports->parallel_for(
      frame, 0, &gemm_bias_relu, 0, rows, kTileRows, /*item_cost_ns=*/2000);
  if (status != DISC_OK) return status;
  status = frame->imports->parallel_for(frame, 1, &copy_rows, args, rows, 1,
                                        /*item_cost_ns=*/20);
  if (status != DISC_OK) return status;
  /* Outside a loop the caller is slot 0. */
  return frame->imports->gemm_dense(
      frame, DISC_F32, 0, /*transpose_a=*/0, /*transpose_b=*/1, half, half, kN,
      frame->arena, kN, frame->arena, kN, frame->outputs[kOutputS], half);
}
