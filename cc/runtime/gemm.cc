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
#include "cc/runtime/cpu_features.h"
#include "cc/runtime/dnnl_library.h"
#include "cc/runtime/gemm_tiles.h"
#include "cc/runtime/manifest.h"
#include "cc/runtime/panel_gemm.h"
#include "cc/runtime/thread_scratch.h"

namespace tf_disc {
namespace {

// Packed weights have panels of 64 columns: few columns would be mostly zeros.
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

dnnl_data_type_t DnnlType(disc_dtype dtype) {
  return dtype == DISC_BF16 ? dnnl_bf16 : dnnl_f32;
}

// A row-major [rows, columns] matrix, or its transpose seen as such.
absl::Status MakeMatrixDesc(const DnnlLibrary& dnnl, disc_dtype dtype,
                            int64_t rows, int64_t columns, int64_t row_stride,
                            int64_t column_stride, MemoryDesc* desc) {
  const dnnl_dims_t dims = {rows, columns};
  const dnnl_dims_t strides = {row_stride, column_stride};
  const dnnl_status_t status = dnnl.memory_desc_create_with_strides(
      desc->out(), 2, dims, DnnlType(dtype), strides);
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
  DnnlPackedGemm(const DnnlLibrary& dnnl, int64_t n, int64_t k,
                 disc_dtype dtype)
      : dnnl_(dnnl), n_(n), k_(k), dtype_(dtype), weights_(dnnl) {}

  // Makes the dense family and with it the packed layout.
  absl::Status Prepare();

  bool can_pack() const override { return can_pack_; }
  int64_t packed_bytes() const override { return packed_bytes_; }
  int64_t scratch_bytes() const override {
    return can_pack_ ? scratch_bytes_ + StagedBytes() : 0;
  }

  absl::Status Pack(const void* weight, disc_dtype stored, bool transpose,
                    void* packed) const override;
  absl::Status Run(int64_t rows, int64_t begin, int64_t end, const void* a,
                   int64_t lda, const void* packed, float* c, int64_t ldc,
                   void* scratch) const override;

 private:
  absl::Status MakeTile(int64_t rows, const_dnnl_memory_desc_t weights,
                        Tile* tile, PrimitiveDesc* desc) const;
  absl::Status MakeTiles();
  // Rows that lie close together, and all columns.
  absl::Status RunRows(int64_t rows, const char* a, const void* packed,
                       float* c, void* scratch) const;
  absl::Status RunTile(size_t tile_index, const void* a, const void* packed,
                       float* c, void* scratch) const;
  int64_t RowBytes() const { return k_ * AbiDtypeSize(dtype_); }
  // Where rows of a and of c are brought together, after oneDNN's scratch.
  int64_t StagedBytes() const {
    return kMaxTileRows *
           (RowBytes() + n_ * static_cast<int64_t>(sizeof(float)));
  }

  const DnnlLibrary& dnnl_;
  const int64_t n_;
  const int64_t k_;
  const disc_dtype dtype_;
  bool can_pack_ = false;
  MemoryDesc weights_;  // the packed layout
  int64_t packed_bytes_ = 0;
  int64_t scratch_bytes_ = 0;
  TileSet set_;
};

absl::Status DnnlPackedGemm::MakeTile(int64_t rows,
                                      const_dnnl_memory_desc_t weights,
                                      Tile* tile, PrimitiveDesc* desc) const {
  absl::Status status =
      MakeMatrixDesc(dnnl_, dtype_, rows, k_, k_, 1, &tile->source);
  if (!status.ok()) return status;
  status = MakeMatrixDesc(dnnl_, DISC_F32, rows, n_, n_, 1, &tile->destination);
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
      any.out(), 2, dims, DnnlType(dtype_), dnnl_format_tag_any);
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
  // To a multiple of 64, where staged rows begin.
  scratch_bytes_ = (scratch_bytes_ + 63) / 64 * 64;
  can_pack_ = true;
  return absl::OkStatus();
}

absl::Status DnnlPackedGemm::Pack(const void* weight, disc_dtype stored,
                                  bool transpose, void* packed) const {
  const OmpOneThread one_thread(dnnl_);
  MemoryDesc plain(dnnl_);
  absl::Status status = MakeMatrixDesc(
      dnnl_, stored, k_, n_, transpose ? 1 : n_, transpose ? k_ : 1, &plain);
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

absl::Status DnnlPackedGemm::RunTile(size_t tile_index, const void* a,
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

absl::Status DnnlPackedGemm::RunRows(int64_t rows, const char* a,
                                     const void* packed, float* c,
                                     void* scratch) const {
  const OmpOneThread one_thread(dnnl_);
  for (int64_t left = rows; left > 0;) {
    const size_t tile = NextTile(rows, left);
    // A tile of more rows than are left begins with rows that are done.
    const int64_t begin = rows - std::max(left, kTileRows[tile]);
    absl::Status status =
        RunTile(tile, a + begin * RowBytes(), packed, c + begin * n_, scratch);
    if (!status.ok()) return status;
    left -= kTileRows[tile];
  }
  return absl::OkStatus();
}

// oneDNN 3.2 has only its reference implementation for packed weights with
// other strides: such rows are brought together first.
absl::Status DnnlPackedGemm::Run(int64_t rows, int64_t begin, int64_t end,
                                 const void* a, int64_t lda, const void* packed,
                                 float* c, int64_t ldc, void* scratch) const {
  const auto* const a_rows = static_cast<const char*>(a);
  const bool whole = begin == 0 && end == n_;
  // Of one row a leading dimension says nothing.
  if (whole && (rows <= 1 || (lda == k_ && ldc == n_))) {
    return RunRows(rows, a_rows, packed, c, scratch);
  }
  char* const staged_a = static_cast<char*>(scratch) + scratch_bytes_;
  auto* const staged_c =
      reinterpret_cast<float*>(staged_a + kMaxTileRows * RowBytes());
  for (int64_t first = 0; first < rows; first += kMaxTileRows) {
    const int64_t count = std::min(kMaxTileRows, rows - first);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(staged_a + i * RowBytes(),
                  a_rows + (first + i) * lda * AbiDtypeSize(dtype_),
                  static_cast<size_t>(RowBytes()));
    }
    absl::Status status = RunRows(count, staged_a, packed, staged_c, scratch);
    if (!status.ok()) return status;
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(staged_c + i * n_ + begin, end - begin,
                  c + (first + i) * ldc);
    }
  }
  return absl::OkStatus();
}

// T: float, or uint16_t with the bits of bf16.
template <typename T>
class PanelPackedGemm : public PackedGemm {
 public:
  PanelPackedGemm(int64_t n, int64_t k) : n_(n), k_(k) {}

  bool can_pack() const override { return n_ >= kMinColumns && k_ >= 1; }
  int64_t packed_bytes() const override { return PanelBytes<T>(k_, n_); }
  int64_t scratch_bytes() const override { return 0; }

  absl::Status Pack(const void* weight, disc_dtype stored, bool transpose,
                    void* packed) const override {
    const PanelKernels<T>* const kernels = HostPanelKernels<T>();
    if (kernels == nullptr) return NoKernels();
    if (stored == DISC_F32) {
      PackPanels(*kernels, View<float>(weight, transpose), k_, n_,
                 static_cast<T*>(packed));
      return absl::OkStatus();
    }
    if constexpr (sizeof(T) == sizeof(uint16_t)) {
      if (stored == DISC_BF16) {
        PackPanels(*kernels, View<uint16_t>(weight, transpose), k_, n_,
                   static_cast<T*>(packed));
        return absl::OkStatus();
      }
    }
    return absl::UnimplementedError(
        absl::StrCat("packing a weight of ", AbiDtypeName(stored)));
  }

  absl::Status Run(int64_t rows, int64_t begin, int64_t end, const void* a,
                   int64_t lda, const void* packed, float* c, int64_t ldc,
                   void* /*scratch*/) const override {
    const PanelKernels<T>* const kernels = HostPanelKernels<T>();
    if (kernels == nullptr) return NoKernels();
    MultiplyPanels(*kernels, rows, begin, end, k_, static_cast<const T*>(a),
                   lda, static_cast<const T*>(packed), c, ldc);
    return absl::OkStatus();
  }

  static absl::Status NoKernels() {
    return absl::UnimplementedError(
        sizeof(T) == sizeof(float)
            ? "products by panels need AVX2"
            : "products of bf16 need AVX512-BF16, which this CPU (or option "
              "max_cpu) has not");
  }

 private:
  template <typename From>
  MatrixView<From> View(const void* weight, bool transpose) const {
    const auto* const data = static_cast<const From*>(weight);
    if (transpose) return {data, 1, k_};
    return {data, n_, 1};
  }

  const int64_t n_;
  const int64_t k_;
};

// c = a x b by panels, in the calling thread's memory.
template <typename T, typename From>
absl::Status MultiplyByPanels(int64_t m, int64_t n, int64_t k,
                              const MatrixView<T>& a, const MatrixView<From>& b,
                              float* c, int64_t ldc) {
  const PanelKernels<T>* const kernels = HostPanelKernels<T>();
  if (kernels == nullptr) return PanelPackedGemm<T>::NoKernels();
  void* const scratch = ThreadScratch(PanelScratchBytes());
  if (scratch == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no memory for the ", PanelScratchBytes(), " bytes of a product"));
  }
  MultiplyMatrices(*kernels, m, n, k, a, b, c, ldc, scratch);
  return absl::OkStatus();
}

template <typename T>
MatrixView<T> RowMajor(const void* data, int64_t stride, bool transpose) {
  const MatrixView<T> view = {static_cast<const T*>(data), stride, 1};
  return transpose ? view.Transposed() : view;
}

using Families = std::map<std::tuple<const DnnlLibrary*, int64_t, int64_t, int>,
                          std::shared_ptr<const PackedGemm>>;

// The family of a key, made by `make` if there is none.
template <typename Make>
absl::StatusOr<std::shared_ptr<const PackedGemm>> FindOrMake(
    const DnnlLibrary* dnnl, int64_t n, int64_t k, disc_dtype dtype,
    Make make) {
  if (n < 0 || k < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("packed GEMM with n=", n, ", k=", k));
  }
  struct Registry {
    std::mutex mutex;
    Families families;
  };
  static Registry* const registry = new Registry;
  // Held while primitives are made: callers are threads that load, and two
  // that want the same family shall not both make it.
  const std::lock_guard<std::mutex> lock(registry->mutex);
  std::shared_ptr<const PackedGemm>& gemm =
      registry->families[{dnnl, n, k, static_cast<int>(dtype)}];
  if (gemm == nullptr) {
    absl::StatusOr<std::shared_ptr<const PackedGemm>> made = make();
    if (!made.ok()) return made.status();
    gemm = *std::move(made);
  }
  return gemm;
}

absl::Status SgemmByDnnl(bool transpose_a, bool transpose_b, int64_t m,
                         int64_t n, int64_t k, const float* a, int64_t lda,
                         const float* b, int64_t ldb, float* c, int64_t ldc) {
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

absl::Status NoSuchGemm(disc_dtype dtype) {
  return absl::UnimplementedError(
      absl::StrCat("a product of ", AbiDtypeName(dtype)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PackedGemm>> PackedGemm::Get(
    int64_t n, int64_t k, disc_dtype dtype) {
  if (dtype == DISC_F32) {
    if (HostPanelKernels<float>() == nullptr) return GetDnnl(n, k, dtype);
    return FindOrMake(nullptr, n, k, dtype, [&] {
      return std::make_shared<PanelPackedGemm<float>>(n, k);
    });
  }
  if (dtype != DISC_BF16) return NoSuchGemm(dtype);
  if (HostPanelKernels<uint16_t>() == nullptr) {
    return PanelPackedGemm<uint16_t>::NoKernels();
  }
  if (HostCpu().amx_bf16) return GetDnnl(n, k, dtype);
  return FindOrMake(nullptr, n, k, dtype, [&] {
    return std::make_shared<PanelPackedGemm<uint16_t>>(n, k);
  });
}

absl::StatusOr<std::shared_ptr<const PackedGemm>> PackedGemm::GetDnnl(
    int64_t n, int64_t k, disc_dtype dtype) {
  if (dtype != DISC_F32 && dtype != DISC_BF16) return NoSuchGemm(dtype);
  absl::StatusOr<const DnnlLibrary*> dnnl = GetDnnlLibrary();
  if (!dnnl.ok()) return dnnl.status();
  return FindOrMake(*dnnl, n, k, dtype,
                    [&]() -> absl::StatusOr<std::shared_ptr<const PackedGemm>> {
                      auto made =
                          std::make_shared<DnnlPackedGemm>(**dnnl, n, k, dtype);
                      absl::Status status = made->Prepare();
                      if (!status.ok()) return status;
                      return made;
                    });
}

absl::Status UnpackedGemm(disc_dtype dtype, int64_t rows, int64_t begin,
                          int64_t end, const void* a, int64_t lda,
                          const StoredWeight& weight, float* c, int64_t ldc) {
  const int64_t ldb = weight.transpose ? weight.k : weight.n;
  const int64_t offset = begin * (weight.transpose ? weight.k : 1);
  if (dtype == weight.dtype) {
    const void* const b = static_cast<const char*>(weight.data) +
                          offset * AbiDtypeSize(weight.dtype);
    return DenseGemm(dtype, false, weight.transpose, rows, end - begin,
                     weight.k, a, lda, b, ldb, c, ldc);
  }
  if (dtype != DISC_BF16 || weight.dtype != DISC_F32) return NoSuchGemm(dtype);
  const auto* const b = static_cast<const float*>(weight.data) + offset;
  return MultiplyByPanels(rows, end - begin, weight.k,
                          RowMajor<uint16_t>(a, lda, false),
                          RowMajor<float>(b, ldb, weight.transpose), c, ldc);
}

absl::Status DenseGemm(disc_dtype dtype, bool transpose_a, bool transpose_b,
                       int64_t m, int64_t n, int64_t k, const void* a,
                       int64_t lda, const void* b, int64_t ldb, float* c,
                       int64_t ldc) {
  if (dtype != DISC_F32 && dtype != DISC_BF16) return NoSuchGemm(dtype);
  if (m <= 0 || n <= 0) return absl::OkStatus();
  if (k <= 0) {
    for (int64_t row = 0; row < m; ++row) std::fill_n(c + row * ldc, n, 0.0f);
    return absl::OkStatus();
  }
  if (dtype == DISC_BF16) {
    return MultiplyByPanels(m, n, k, RowMajor<uint16_t>(a, lda, transpose_a),
                            RowMajor<uint16_t>(b, ldb, transpose_b), c, ldc);
  }
  if (HostPanelKernels<float>() == nullptr) {
    return SgemmByDnnl(transpose_a, transpose_b, m, n, k,
                       static_cast<const float*>(a), lda,
                       static_cast<const float*>(b), ldb, c, ldc);
  }
  return MultiplyByPanels(m, n, k, RowMajor<float>(a, lda, transpose_a),
                          RowMajor<float>(b, ldb, transpose_b), c, ldc);
}

}  // namespace tf_disc
