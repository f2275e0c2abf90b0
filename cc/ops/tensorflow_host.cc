#include "cc/ops/tensorflow_host.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/ops/pool_allocator.h"
#include "cc/runtime/block_pool.h"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tsl/profiler/lib/traceme.h"

namespace tf_disc {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::Tensor;
using ::tensorflow::TensorBuffer;

class TensorHold : public BufferHold {
 public:
  explicit TensorHold(const Tensor& tensor) : tensor_(tensor) {}

  bool IsOnlyHolder() const override {
    const TensorBuffer* buffer = tensorflow::DMAHelper::buffer(&tensor_);
    // A slice has a buffer of its own that refers to the whole one.
    TensorBuffer* root = const_cast<TensorBuffer*>(buffer)->root_buffer();
    return buffer->RefCountIsOne() && (root == buffer || root->RefCountIsOne());
  }

 private:
  const Tensor tensor_;
};

// Memory of devices other than this CPU, or with an allocator of its own.
bool IsSpecial(const tensorflow::AllocatorAttributes& attributes) {
  tensorflow::AllocatorAttributes plain;
  plain.set_on_host(true);
  return attributes.scope_id != 0 ||
         !attributes.IsEqualOrLessRestrictiveThan(plain);
}

}  // namespace

int DiscDtype(DataType dtype) {
  switch (dtype) {
    case tensorflow::DT_FLOAT:
      return DISC_F32;
    case tensorflow::DT_DOUBLE:
      return DISC_F64;
    case tensorflow::DT_INT32:
      return DISC_I32;
    case tensorflow::DT_INT64:
      return DISC_I64;
    case tensorflow::DT_BOOL:
      return DISC_BOOL;
    case tensorflow::DT_INT8:
      return DISC_I8;
    case tensorflow::DT_UINT8:
      return DISC_U8;
    case tensorflow::DT_INT16:
      return DISC_I16;
    case tensorflow::DT_HALF:
      return DISC_F16;
    case tensorflow::DT_BFLOAT16:
      return DISC_BF16;
    default:
      return 0;
  }
}

bool OwnsMemory(const Tensor& tensor) {
  const TensorBuffer* buffer = tensorflow::DMAHelper::buffer(&tensor);
  return buffer != nullptr && buffer->OwnsMemory() &&
         const_cast<TensorBuffer*>(buffer)->root_buffer()->OwnsMemory();
}

TensorFlowHost::TensorFlowHost(tensorflow::OpKernelContext* context,
                               absl::Span<const Tensor* const> inputs)
    : uses_pool_(BlockPool::Global().cap() > 0 &&
                 !context->track_allocations()),
      context_(context),
      inputs_(inputs),
      pool_(context->device()->tensorflow_cpu_worker_threads() == nullptr
                ? nullptr
                : context->device()->tensorflow_cpu_worker_threads()->workers),
      outputs_(context->num_outputs()) {}

TensorFlowHost::~TensorFlowHost() {
  for (void* block : blocks_) BlockPool::Global().Free(block);
}

int TensorFlowHost::NumThreads() const {
  return pool_ == nullptr ? 0 : pool_->NumThreads();
}

void TensorFlowHost::Schedule(std::function<void()> fn) {
  pool_->Schedule(std::move(fn));
}

absl::StatusOr<void*> TensorFlowHost::AllocateOutput(
    int index, disc_dtype dtype, absl::Span<const int64_t> dims) {
  if (index < 0 || index >= context_->num_outputs()) {
    return absl::InternalError(absl::StrCat("the kernel has output ", index,
                                            ", the node has ",
                                            context_->num_outputs()));
  }
  const DataType type = context_->expected_output_dtype(index);
  if (DiscDtype(type) != dtype) {
    return absl::InternalError(absl::StrCat("output ", index,
                                            " of the kernel is not ",
                                            tensorflow::DataTypeString(type)));
  }
  tensorflow::TensorShape shape;
  absl::Status status = tensorflow::TensorShape::BuildTensorShape(dims, &shape);
  if (!status.ok()) return status;
  Output& output = outputs_[index];
  const tensorflow::AllocatorAttributes attributes =
      context_->output_alloc_attr(index);
  if (uses_pool_ && !IsSpecial(attributes)) {
    output.tensor = Tensor(PoolAllocator(), type, shape);
    if (!output.tensor.IsInitialized()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "no memory for output ", index, ", ", shape.DebugString()));
    }
  } else {
    status = context_->allocate_temp(type, shape, &output.tensor, attributes);
    if (!status.ok()) return status;
  }
  output.is_made = true;
  return tensorflow::DMAHelper::base(&output.tensor);
}

absl::StatusOr<void*> TensorFlowHost::AllocateTemporary(int64_t bytes) {
  if (uses_pool_) {
    void* const block = BlockPool::Global().Allocate(bytes);
    if (block != nullptr) blocks_.push_back(block);
    return block;
  }
  tensorflow::TensorShape shape;
  absl::Status status =
      tensorflow::TensorShape::BuildTensorShape({bytes}, &shape);
  Tensor temporary;
  if (status.ok()) {
    status = context_->allocate_temp(tensorflow::DT_UINT8, shape, &temporary);
  }
  if (!status.ok()) return status;
  void* data = tensorflow::DMAHelper::base(&temporary);
  temporaries_.push_back(std::move(temporary));
  return data;
}

std::unique_ptr<BufferHold> TensorFlowHost::HoldInput(int index) {
  const Tensor& input = *inputs_[index];
  if (!OwnsMemory(input)) return nullptr;
  return std::make_unique<TensorHold>(input);
}

bool TensorFlowHost::IsTracing() const {
  return tsl::profiler::TraceMe::Active();
}

int64_t TensorFlowHost::TaskBegin(const char* name) {
  return tsl::profiler::TraceMe::ActivityStart(name);
}

void TensorFlowHost::TaskEnd(int64_t token) {
  tsl::profiler::TraceMe::ActivityEnd(token);
}

absl::Status TensorFlowHost::HandOverOutputs() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].is_made) {
      return absl::InternalError(
          absl::StrCat("the kernel did not make output ", i));
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    context_->set_output(static_cast<int>(i), std::move(outputs_[i].tensor));
  }
  return absl::OkStatus();
}

}  // namespace tf_disc
