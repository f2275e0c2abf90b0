/* y[n, 40 + 2] = [x[n, :24] x w[24, 40] | untouched]: a product of a part of
 * x's columns into a part of y's, that is with leading dimensions other than K
 * and N. Used by demo_kernel_test.cc. */
#include "cc/abi/kernel_abi.h"

int32_t strided_plan(disc_frame_t* frame) {
  frame->output_dims[0] = frame->inputs[0].dims[0];
  frame->output_dims[1] = 42;
  return DISC_OK;
}

int32_t strided_run(disc_frame_t* frame) {
  return frame->imports->gemm_packed(
      frame, 0, 0, frame->inputs[0].dims[0], 0, 40, frame->inputs[0].data,
      frame->inputs[0].dims[1], frame->outputs[0], 42);
}
