// One signature as one DiscLaunch node knows it: the process's record of it,
// and what this node remembers between launches.
#ifndef TF_DISC_CC_OPS_NODE_SIGNATURE_H_
#define TF_DISC_CC_OPS_NODE_SIGNATURE_H_

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cc/compile/signature_record.h"
#include "cc/runtime/weight_slots.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace tf_disc {

class NodeSignature {
 public:
  // `record` null: no kernel is possible, `failure` says why.
  NodeSignature(SignatureRecord* record, std::string failure)
      : record(record), failure(std::move(failure)) {}

  SignatureRecord* const record;
  const std::string failure;

  // What a variant needs from this node. Made at the variant's first launch.
  struct Variant {
    std::once_flag once;
    std::shared_ptr<WeightSlots> slots;
    std::string mismatch;  // why this node cannot run it; empty = it can
  };
  // `i` < record->num_variants(). `inputs`: of any launch of this signature.
  const Variant& variant(int i,
                         absl::Span<const tensorflow::Tensor* const> inputs,
                         absl::Span<const tensorflow::DataType> output_types);

 private:
  std::array<Variant, kMaxVariants> variants_;
};

// The signatures that one node has met, by the bytes of
// SignatureRules::AppendKey. Thread-safe; entries live as long as the table.
class NodeSignatureTable {
 public:
  // Null if there is none.
  NodeSignature* Find(absl::string_view key) const;
  // Adds one, unless another thread did meanwhile. Returns the one in the
  // table.
  NodeSignature* Add(absl::string_view key,
                     std::unique_ptr<NodeSignature> signature);
  size_t size() const;

 private:
  struct Entry {
    std::string key;
    std::unique_ptr<NodeSignature> signature;
  };

  // What Find gave last: most launches have the signature of the launch before,
  // and neither hash it nor take a lock that others take.
  mutable std::atomic<const Entry*> latest_{nullptr};
  mutable std::shared_mutex mutex_;
  // By Entry::key. Nothing is ever removed.
  absl::flat_hash_map<absl::string_view, std::unique_ptr<Entry>> entries_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_OPS_NODE_SIGNATURE_H_
