// What the launches of each cluster did, for reports.
#ifndef TF_DISC_CC_OPS_LAUNCH_STATISTICS_H_
#define TF_DISC_CC_OPS_LAUNCH_STATISTICS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "cc/base/striped_counts.h"

namespace tf_disc {

// One cluster; all its DiscLaunch nodes share it. Thread-safe, never destroyed.
class ClusterStatistics {
 public:
  // The statistics of a cluster, made if there are none.
  static ClusterStatistics& Of(const std::string& cluster_id);
  // Every cluster that a kernel was made for, sorted by id.
  static std::vector<ClusterStatistics*> All();

  explicit ClusterStatistics(std::string id) : id(std::move(id)) {}
  ClusterStatistics(const ClusterStatistics&) = delete;
  ClusterStatistics& operator=(const ClusterStatistics&) = delete;

  const std::string id;
  LaunchCounts counts;

  // Counts a run of the outlined function. Beyond a number of different reasons
  // all others count as one.
  void AddFallback(absl::string_view reason);
  std::map<std::string, int64_t> fallbacks() const;

  void Reset();

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int64_t, std::less<>> fallbacks_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_OPS_LAUNCH_STATISTICS_H_
