#define TF_DISC_TILE_TARGET __attribute__((target("sse4.2")))
#define TF_DISC_TILE_BYTES 16
#define TF_DISC_TILE_ROWS kMaxTileRows128
#define TF_DISC_TILE_TABLE Sse42TileKernels
#include "cc/runtime/gemm_kernel_body.h"
