#include "cc/ops/node_signature.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/ops/tensorflow_host.h"
#include "cc/runtime/manifest.h"

namespace tf_disc {
namespace {

// Why the kernel of `manifest` cannot be this node's: a damaged or mixed up
// artifact must end as a reason, not as a read outside a tensor.
std::string Mismatch(const Manifest& manifest,
                     absl::Span<const tensorflow::Tensor* const> inputs,
                     absl::Span<const tensorflow::DataType> output_types) {
  if (manifest.inputs.size() != inputs.size()) {
    return absl::StrCat("the kernel takes ", manifest.inputs.size(),
                        " inputs, the node has ", inputs.size());
  }
  if (manifest.outputs.size() != output_types.size()) {
    return absl::StrCat("the kernel gives ", manifest.outputs.size(),
                        " outputs, the node has ", output_types.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ManifestTensor& expected = manifest.inputs[i];
    if (expected.dtype != DiscDtype(inputs[i]->dtype()) ||
        expected.rank != inputs[i]->dims()) {
      return absl::StrCat("the kernel takes ", AbiDtypeName(expected.dtype),
                          " of rank ", expected.rank, " as input ", i,
                          ", the node has ",
                          tensorflow::DataTypeString(inputs[i]->dtype()),
                          " of rank ", inputs[i]->dims());
    }
  }
  for (size_t i = 0; i < output_types.size(); ++i) {
    if (manifest.outputs[i].dtype != DiscDtype(output_types[i])) {
      return absl::StrCat("the kernel gives ",
                          AbiDtypeName(manifest.outputs[i].dtype),
                          " as output ", i, ", the node has ",
                          tensorflow::DataTypeString(output_types[i]));
    }
  }
  return "";
}

}  // namespace

const NodeSignature::Variant& NodeSignature::variant(
    int i, absl::Span<const tensorflow::Tensor* const> inputs,
    absl::Span<const tensorflow::DataType> output_types) {
  Variant& variant = variants_[i];
  std::call_once(variant.once, [&] {
    const Executable& executable = *record->variant(i);
    variant.slots = executable.NewWeightSlots();
    variant.mismatch = Mismatch(executable.manifest(), inputs, output_types);
  });
  return variant;
}

NodeSignature* NodeSignatureTable::Find(absl::string_view key) const {
  const Entry* const latest = latest_.load(std::memory_order_acquire);
  if (latest != nullptr && latest->key == key) return latest->signature.get();
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  latest_.store(found->second.get(), std::memory_order_release);
  return found->second->signature.get();
}

NodeSignature* NodeSignatureTable::Add(
    absl::string_view key, std::unique_ptr<NodeSignature> signature) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  const auto found = entries_.find(key);
  if (found != entries_.end()) return found->second->signature.get();
  auto entry = std::make_unique<Entry>();
  entry->key = std::string(key);
  entry->signature = std::move(signature);
  // The key's text lives in the entry, which never moves.
  const absl::string_view text = entry->key;
  return entries_.emplace(text, std::move(entry))
      .first->second->signature.get();
}

size_t NodeSignatureTable::size() const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  return entries_.size();
}

}  // namespace tf_disc
