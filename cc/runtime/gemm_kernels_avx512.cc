#define TF_DISC_TILE_TARGET \
  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma")))
#define TF_DISC_TILE_BYTES 64
#define TF_DISC_TILE_ROWS kMaxTileRows512
#define TF_DISC_TILE_TABLE Avx512TileKernels
#include "cc/runtime/gemm_kernel_body.h"
