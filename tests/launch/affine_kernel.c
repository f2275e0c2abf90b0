/* y[n, m] = 3 * x[n, m] + v[m], by hand, with faults to choose from:
 *   GUARD_ROWS    plan refuses every n but this one
 *   RUN_REFUSES   run refuses after it has written y
 *   LIBRARY_FAILS run says that a library failed
 *   PASSES        each element is computed so many times over
 */
#include "cc/abi/kernel_abi.h"

#ifndef PASSES
#define PASSES 1
#endif

int32_t affine_plan(disc_frame_t* frame) {
  const int64_t* dims = frame->inputs[0].dims;
#ifdef GUARD_ROWS
  if (dims[0] != GUARD_ROWS) {
    frame->failed_guard = 0;
    return DISC_GUARD_FAILED;
  }
#endif
  if (frame->inputs[1].dims[0] != dims[1]) {
    frame->failed_guard = 1;
    return DISC_GUARD_FAILED;
  }
  frame->sizes[0] = dims[0];
  frame->sizes[1] = dims[1];
  frame->output_dims[0] = dims[0];
  frame->output_dims[1] = dims[1];
  /* Not needed, but the run shows whether it can be written. */
  frame->arena_bytes = 256;
  frame->scratch_bytes = 64;
  return DISC_OK;
}

static int32_t affine_rows(disc_frame_t* frame, const int64_t* args,
                           int64_t begin, int64_t end, int32_t slot) {
  const float* x = (const float*)frame->inputs[0].data;
  const float* v = (const float*)frame->inputs[1].data;
  float* y = (float*)frame->outputs[0];
  volatile float* scratch =
      (volatile float*)((char*)frame->scratch + slot * frame->scratch_stride);
  const int64_t columns = args[0];
  scratch[0] = 3.0f;
  for (int64_t i = begin; i < end; ++i) {
    /* The factor is volatile, so that no pass is left out. */
    for (int pass = 0; pass < PASSES; ++pass) {
      for (int64_t j = 0; j < columns; ++j) {
        y[i * columns + j] = scratch[0] * x[i * columns + j] + v[j];
      }
    }
  }
  return DISC_OK;
}

int32_t affine_run(disc_frame_t* frame) {
  const int64_t args[1] = {frame->sizes[1]};
  ((volatile char*)frame->arena)[255] = 1;
  const int32_t status = frame->imports->parallel_for(
      frame, 0, &affine_rows, args, frame->sizes[0], 1, 1000);
  if (status != DISC_OK) return status;
#if defined(RUN_REFUSES)
  frame->failed_guard = 0;
  return DISC_GUARD_FAILED;
#elif defined(LIBRARY_FAILS)
  return DISC_LIBRARY_FAILED;
#else
  return DISC_OK;
#endif
}
