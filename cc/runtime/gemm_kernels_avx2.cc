#define TF_DISC_TILE_TARGET __attribute__((target("avx2,fma")))
#define TF_DISC_TILE_BYTES 32
#define TF_DISC_TILE_ROWS kMaxTileRows256
#define TF_DISC_TILE_TABLE Avx2TileKernels
#include "cc/runtime/gemm_kernel_body.h"
