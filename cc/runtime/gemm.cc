#include "cc/runtime/gemm.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/runtime/dnnl_library.h"
#include "cc/runtime/gemm_tiles.h"
#include "cc/runtime/manifest.h"

namespace tf_disc {
namespace {

// oneDNN pads columns to 64 (N = 1 costs as much as N = 64).
constexpr int64_t kMinColumns = 16;

absl::Status DnnlError(absl::string_view what, dnnl_status_t status) {
  return absl::InternalError(
      absl::StrCat("oneDNN: ", what, ": ", DnnlStatusName(status)));
}

// Owns one oneDNN object; destroyed through the loaded library.
template <typename T, dnnl_status_t (*DnnlLibrary::*Destroy)(T)>
class Owned {
 public:
  explicit Owned(const DnnlLibrary& dnnl) : dnnl_(&dnnl) {}
  ~Owned() {
    if (value_ != nullptr) (dnnl_->*Destroy)(value_);
  }
  Owned(Owned&& other) noexcept
      : dnnl_(other.dnnl_), value_(std::exchange(other.value_, nullptr)) {}
  Owned& operator=(Owned&&) = delete;

  T* out() { return &value_; }
  T get() const { return value_; }

 private:
  const DnnlLibrary* dnnl_;
  T value_ = nullptr;
};

using MemoryDesc = Owned<dnnl_memory_desc_t, &DnnlLibrary::memory_desc_destroy>;
using PrimitiveAttr =
    Owned<dnnl_primitive_attr_t, &DnnlLibrary::primitive_attr_destroy>;
using PrimitiveDesc =
    Owned<dnnl_primitive_desc_t, &DnnlLibrary::primitive_desc_destroy>;
using Primitive = Owned<dnnl_primitive_t, &DnnlLibrary::primitive_destroy>;
using Memory = Owned<dnnl_memory_t, &DnnlLibrary::memory_destroy>;
using Stream = Owned<dnnl_stream_t, &DnnlLibrary::stream_destroy>;

// A row-major [rows, columns] f32 matrix, or its transpose seen as such.
absl::Status MakeMatrixDesc(const DnnlLibrary& dnnl, int64_t rows,
                            int64_t columns, int64_t row_stride,
                            int64_t column_stride, MemoryDesc* desc) {
  const dnnl_dims_t dims = {rows, columns};
  const dnnl_dims_t strides = {row_stride, column_stride};
  const dnnl_status_t status = dnnl.memory_desc_create_with_strides(
      desc->out(), 2, dims, dnnl_f32, strides);
  if (status == dnnl_success) return absl::OkStatus();
  return DnnlError(
      absl::StrCat("matrix ", rows, "x", columns, " with stride ", row_stride),
      status);
}

// One primitive, for so many rows.
struct Tile {
  explicit Tile(const DnnlLibrary& dnnl)
      : source(dnnl), destination(dnnl), scratchpad(dnnl), primitive(dnnl) {}

  MemoryDesc source;
  MemoryDesc destination;
  MemoryDesc scratchpad;
  Primitive primitive;
  int64_t scratch_bytes = 0;
};

// The primitives of one family. Immutable; `id` is its place in each thread's
// table of memory objects.
struct TileSet {
  int64_t id = 0;
  std::vector<Tile> tiles;  // as kTileRows
};

// A thread's own memory objects for one tile: oneDNN memory and streams are
// not for two threads at once, primitives are.
struct TileMemory {
  explicit TileMemory(const DnnlLibrary& dnnl)
      : source(dnnl), weights(dnnl), destination(dnnl), scratchpad(dnnl) {}

  Memory source;
  Memory weights;
  Memory destination;
  Memory scratchpad;
};

// What one thread has made so far. Freed when the thread ends, through a
// library that is never unloaded.
struct ThreadMemory {
  const DnnlLibrary* dnnl = nullptr;
  std::unique_ptr<Stream> stream;
  std::vector<std::array<std::unique_ptr<TileMemory>, kNumTiles>> by_set;
};

ThreadMemory& GetThreadMemory() {
  thread_local ThreadMemory memory;
  return memory;
}

std::atomic<int64_t> next_tile_set_id{0};

class DnnlPackedGemm : public PackedGemm {
 public:
  DnnlPackedGemm(const DnnlLibrary& dnnl, int64_t n, int64_t k)
      : dnnl_(dnnl), n_(n), k_(k), weights_(dnnl) {}

  // Makes the dense family and with it the packed layout.
  absl::Status Prepare();

  bool can_pack() const override { return can_pack_; }
  int64_t packed_bytes() const override { return packed_bytes_; }
  int64_t scratch_bytes() const override { return scratch_bytes_; }

  absl::Status Pack(const void* weight, bool transpose,
                    void* packed) const override;
  absl::Status Run(int64_t rows, const void* a, const void* packed, void* c,
                   void* scratch) const override;

 private:
  absl::Status MakeTile(int64_t rows, const_dnnl_memory_desc_t weights,
                        Tile* tile, PrimitiveDesc* desc) const;
  absl::Status MakeTiles();
  absl::Status RunTile(size_t tile_index, const float* a, const void* packed,
                       float* c, void* scratch) const;

  const DnnlLibrary& dnnl_;
  const int64_t n_;
  const int64_t k_;
  bool can_pack_ = false;
  MemoryDesc weights_;  // the packed layout
  int64_t packed_bytes_ = 0;
  int64_t scratch_bytes_ = 0;
  TileSet set_;
};

absl::Status DnnlPackedGemm::MakeTile(int64_t rows,
                                      const_dnnl_memory_desc_t weights,
                                      Tile* tile, PrimitiveDesc* desc) const {
  absl::Status status = MakeMatrixDesc(dnnl_, rows, k_, k_, 1, &tile->source);
  if (!status.ok()) return status;
  status = MakeMatrixDesc(dnnl_, rows, n_, n_, 1, &tile->destination);
  if (!status.ok()) return status;
  PrimitiveAttr attr(dnnl_);
  dnnl_status_t made = dnnl_.primitive_attr_create(attr.out());
  if (made != dnnl_success) return DnnlError("attributes", made);
  // In the default mode a primitive that two threads run at once shares its
  // scratchpad, and the results are silently wrong.
  made = dnnl_.primitive_attr_set_scratchpad_mode(attr.get(),
                                                  dnnl_scratchpad_mode_user);
  if (made != dnnl_success) return DnnlError("scratchpad mode", made);
  made = dnnl_.matmul_primitive_desc_create(
      desc->out(), dnnl_.engine, tile->source.get(), weights, nullptr,
      tile->destination.get(), attr.get());
  const std::string what =
      absl::StrCat("matmul of ", rows, " rows, k=", k_, ", n=", n_);
  const auto failed = [&](dnnl_status_t why) { return DnnlError(what, why); };
  if (made == dnnl_unimplemented || made == dnnl_last_impl_reached) {
    return absl::UnimplementedError(what);
  }
  if (made != dnnl_success) return failed(made);
  const char* implementation = "";
  made = dnnl_.primitive_desc_query(desc->get(), dnnl_query_impl_info_str, 0,
                                    &implementation);
  if (made != dnnl_success) return failed(made);
  if (absl::StartsWith(implementation, "ref")) {
    // Right, but a hundred times slower than multiplying unpacked.
    return absl::UnimplementedError(absl::StrCat(what, ": ", implementation));
  }
  made = dnnl_.primitive_create(tile->primitive.out(), desc->get());
  if (made != dnnl_success) return failed(made);
  const const_dnnl_memory_desc_t scratchpad =
      dnnl_.primitive_desc_query_md(desc->get(), dnnl_query_scratchpad_md, 0);
  made = dnnl_.memory_desc_clone(tile->scratchpad.out(), scratchpad);
  if (made != dnnl_success) return failed(made);
  tile->scratch_bytes =
      static_cast<int64_t>(dnnl_.memory_desc_get_size(tile->scratchpad.get()));
  return absl::OkStatus();
}

absl::Status DnnlPackedGemm::MakeTiles() {
  for (int64_t rows : kTileRows) {
    set_.tiles.emplace_back(dnnl_);
    PrimitiveDesc desc(dnnl_);
    absl::Status status =
        MakeTile(rows, weights_.get(), &set_.tiles.back(), &desc);
    if (!status.ok()) return status;
    scratch_bytes_ = std::max(scratch_bytes_, set_.tiles.back().scratch_bytes);
  }
  set_.id = next_tile_set_id.fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status DnnlPackedGemm::Prepare() {
  if (n_ < kMinColumns || k_ < 1) return absl::OkStatus();
  const OmpOneThread one_thread(dnnl_);
  // The largest tile chooses the layout, the others must read it too.
  MemoryDesc any(dnnl_);
  const dnnl_dims_t dims = {k_, n_};
  dnnl_status_t made = dnnl_.memory_desc_create_with_tag(
      any.out(), 2, dims, dnnl_f32, dnnl_format_tag_any);
  if (made != dnnl_success) return DnnlError("weight", made);
  Tile first(dnnl_);
  PrimitiveDesc desc(dnnl_);
  absl::Status status = MakeTile(kMaxTileRows, any.get(), &first, &desc);
  if (absl::IsUnimplemented(status)) return absl::OkStatus();  // not packed
  if (!status.ok()) return status;
  const const_dnnl_memory_desc_t chosen =
      dnnl_.primitive_desc_query_md(desc.get(), dnnl_query_weights_md, 0);
  int num_blocks = 0;
  made =
      dnnl_.memory_desc_query(chosen, dnnl_query_inner_nblks_s32, &num_blocks);
  if (made != dnnl_success) return DnnlError("weight layout", made);
  // Without AVX-512 oneDNN 3.2 reads weights as they are: nothing to pack.
  if (num_blocks == 0) return absl::OkStatus();
  made = dnnl_.memory_desc_clone(weights_.out(), chosen);
  if (made != dnnl_success) return DnnlError("weight layout", made);
  status = MakeTiles();
  if (absl::IsUnimplemented(status)) return absl::OkStatus();
  if (!status.ok()) return status;
  packed_bytes_ =
      static_cast<int64_t>(dnnl_.memory_desc_get_size(weights_.get()));
  can_pack_ = true;
  return absl::OkStatus();
}

absl::Status DnnlPackedGemm::Pack(const void* weight, bool transpose,
                                  void* packed) const {
  const OmpOneThread one_thread(dnnl_);
  MemoryDesc plain(dnnl_);
  absl::Status status = MakeMatrixDesc(dnnl_, k_, n_, transpose ? 1 : n_,
                                       transpose ? k_ : 1, &plain);
  if (!status.ok()) return status;
  PrimitiveDesc desc(dnnl_);
  dnnl_status_t made = dnnl_.reorder_primitive_desc_create(
      desc.out(), plain.get(), dnnl_.engine, weights_.get(), dnnl_.engine,
      nullptr);
  if (made != dnnl_success) return DnnlError("packing", made);
  Primitive primitive(dnnl_);
  Memory source(dnnl_);
  Memory destination(dnnl_);
  Stream stream(dnnl_);
  made = dnnl_.primitive_create(primitive.out(), desc.get());
  if (made == dnnl_success) {
    made = dnnl_.memory_create(source.out(), plain.get(), dnnl_.engine,
                               const_cast<void*>(weight));
  }
  if (made == dnnl_success) {
    made = dnnl_.memory_create(destination.out(), weights_.get(), dnnl_.engine,
                               packed);
  }
  if (made == dnnl_success) {
    made = dnnl_.stream_create(stream.out(), dnnl_.engine,
                               dnnl_stream_default_flags);
  }
  if (made == dnnl_success) {
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source.get()},
                                    {DNNL_ARG_TO, destination.get()}};
    made = dnnl_.primitive_execute(primitive.get(), stream.get(), 2, args);
  }
  if (made != dnnl_success) return DnnlError("packing", made);
  return absl::OkStatus();
}

absl::Status DnnlPackedGemm::RunTile(size_t tile_index, const float* a,
                                     const void* packed, float* c,
                                     void* scratch) const {
  ThreadMemory& thread = GetThreadMemory();
  if (thread.dnnl != &dnnl_) {
    thread.by_set.clear();
    thread.stream.reset();
    auto stream = std::make_unique<Stream>(dnnl_);
    const dnnl_status_t made = dnnl_.stream_create(stream->out(), dnnl_.engine,
                                                   dnnl_stream_default_flags);
    if (made != dnnl_success) return DnnlError("stream", made);
    thread.stream = std::move(stream);
    thread.dnnl = &dnnl_;
  }
  if (thread.by_set.size() <= static_cast<size_t>(set_.id)) {
    thread.by_set.resize(static_cast<size_t>(set_.id) + 1);
  }
  const Tile& tile = set_.tiles[tile_index];
  std::unique_ptr<TileMemory>& memory = thread.by_set[set_.id][tile_index];
  dnnl_status_t made = dnnl_success;
  if (memory == nullptr) {
    auto fresh = std::make_unique<TileMemory>(dnnl_);
    const auto create = [&](Memory* object, const_dnnl_memory_desc_t desc) {
      if (made != dnnl_success) return;
      made = dnnl_.memory_create(object->out(), desc, dnnl_.engine,
                                 DNNL_MEMORY_NONE);
    };
    create(&fresh->source, tile.source.get());
    create(&fresh->weights, weights_.get());
    create(&fresh->destination, tile.destination.get());
    create(&fresh->scratchpad, tile.scratchpad.get());
    if (made != dnnl_success) return DnnlError("memory", made);
    memory = std::move(fresh);
  }
  const auto point = [&](const Memory& object, const void* data) {
    if (made != dnnl_success) return;
    made = dnnl_.memory_set_data_handle(object.get(), const_cast<void*>(data));
  };
  point(memory->source, a);
  point(memory->weights, packed);
  point(memory->destination, c);
  point(memory->scratchpad, scratch);
  if (made != dnnl_success) return DnnlError("memory", made);
  const dnnl_exec_arg_t args[] = {
      {DNNL_ARG_SRC, memory->source.get()},
      {DNNL_ARG_WEIGHTS, memory->weights.get()},
      {DNNL_ARG_DST, memory->destination.get()},
      {DNNL_ARG_SCRATCHPAD, memory->scratchpad.get()}};
  made = dnnl_.primitive_execute(tile.primitive.get(), thread.stream->get(), 4,
                                 args);
  if (made != dnnl_success) return DnnlError("matmul", made);
  return absl::OkStatus();
}

absl::Status DnnlPackedGemm::Run(int64_t rows, const void* a,
                                 const void* packed, void* c,
                                 void* scratch) const {
  if (rows <= 0) return absl::OkStatus();
  const OmpOneThread one_thread(dnnl_);
  const auto* const a_row = static_cast<const float*>(a);
  auto* const c_row = static_cast<float*>(c);
  for (int64_t left = rows; left > 0;) {
    const size_t tile = NextTile(rows, left);
    // A tile of more rows than are left begins with rows that are done.
    const int64_t begin = rows - std::max(left, kTileRows[tile]);
    absl::Status status =
        RunTile(tile, a_row + begin * k_, packed, c_row + begin * n_, scratch);
    if (!status.ok()) return status;
    left -= kTileRows[tile];
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PackedGemm>> PackedGemm::Get(
    int64_t n, int64_t k, disc_dtype dtype) {
  if (dtype != DISC_F32) {
    return absl::UnimplementedError(
        absl::StrCat("packed GEMM of ", AbiDtypeName(dtype), "; f32 only"));
  }
  if (n < 0 || k < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("packed GEMM with n=", n, ", k=", k));
  }
  absl::StatusOr<const DnnlLibrary*> dnnl = GetDnnlLibrary();
  if (!dnnl.ok()) return dnnl.status();
  using Key = std::tuple<const DnnlLibrary*, int64_t, int64_t>;
  struct Registry {
    std::mutex mutex;
    std::map<Key, std::shared_ptr<const PackedGemm>> gemms;
  };
  static Registry* const registry = new Registry;
  // Held while primitives are made: callers are threads that load, and two
  // that want the same family shall not both make it.
  const std::lock_guard<std::mutex> lock(registry->mutex);
  std::shared_ptr<const PackedGemm>& gemm = registry->gemms[Key(*dnnl, n, k)];
  if (gemm == nullptr) {
    auto made = std::make_shared<DnnlPackedGemm>(**dnnl, n, k);
    absl::Status status = made->Prepare();
    if (!status.ok()) return status;
    gemm = std::move(made);
  }
  return gemm;
}

absl::Status DenseGemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                       int64_t k, const float* a, int64_t lda, const float* b,
                       int64_t ldb, float* c, int64_t ldc) {
  if (m <= 0 || n <= 0) return absl::OkStatus();
  if (k <= 0) {
    for (int64_t row = 0; row < m; ++row) std::fill_n(c + row * ldc, n, 0.0f);
    return absl::OkStatus();
  }
  absl::StatusOr<const DnnlLibrary*> dnnl = GetDnnlLibrary();
  if (!dnnl.ok()) return dnnl.status();
  const OmpOneThread one_thread(**dnnl);
  // A matrix of one row may come with any leading dimension; oneDNN looks.
  if ((transpose_a ? k : m) == 1) lda = std::max(lda, transpose_a ? m : k);
  if ((transpose_b ? n : k) == 1) ldb = std::max(ldb, transpose_b ? k : n);
  if (m == 1) ldc = std::max(ldc, n);
  const dnnl_status_t status =
      (*dnnl)->sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k,
                     1.0f, a, lda, b, ldb, 0.0f, c, ldc);
  if (status == dnnl_success) return absl::OkStatus();
  return DnnlError(absl::StrCat("sgemm ", m, "x", n, "x", k), status);
}

}  // namespace tf_disc
