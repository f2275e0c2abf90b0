#include "cc/ops/launch_statistics.h"

#include <memory>

namespace tf_disc {
namespace {

// A reason may quote what differs from call to call; memory may not grow so.
constexpr size_t kMaxReasons = 64;
constexpr char kOtherReasons[] = "other reasons";

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<ClusterStatistics>> clusters;
};

Registry& GetRegistry() {
  static Registry* registry = new Registry;
  return *registry;
}

}  // namespace

ClusterStatistics& ClusterStatistics::Of(const std::string& cluster_id) {
  Registry& registry = GetRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::unique_ptr<ClusterStatistics>& entry = registry.clusters[cluster_id];
  if (entry == nullptr) entry = std::make_unique<ClusterStatistics>(cluster_id);
  return *entry;
}

std::vector<ClusterStatistics*> ClusterStatistics::All() {
  Registry& registry = GetRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<ClusterStatistics*> all;
  for (const auto& [id, entry] : registry.clusters) all.push_back(entry.get());
  return all;
}

void ClusterStatistics::AddFallback(absl::string_view reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = fallbacks_.find(reason);
  if (found == fallbacks_.end()) {
    const absl::string_view name =
        fallbacks_.size() < kMaxReasons ? reason : kOtherReasons;
    found = fallbacks_.try_emplace(std::string(name), 0).first;
  }
  ++found->second;
}

std::map<std::string, int64_t> ClusterStatistics::fallbacks() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {fallbacks_.begin(), fallbacks_.end()};
}

void ClusterStatistics::Reset() {
  counts.Reset();
  std::lock_guard<std::mutex> lock(mutex_);
  fallbacks_.clear();
}

}  // namespace tf_disc
