#include "cc/ops/control.h"

#include <unistd.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cc/base/json_writer.h"
#include "cc/compile/compile_service.h"
#include "cc/compile/speed_trial.h"
#include "cc/ops/launch_statistics.h"
#include "cc/runtime/block_pool.h"
#include "cc/runtime/cpu_features.h"
#include "cc/runtime/weight_cache.h"

namespace tf_disc {
namespace {

double Milliseconds(int64_t microseconds) {
  return static_cast<double>(microseconds) / 1e3;
}

// This process's environment with `additions` put over it. Read here, since a
// Python program changes its environment while other threads run.
std::vector<std::string> Environment(
    const std::vector<std::string>& additions) {
  std::vector<std::string> entries;
  std::map<std::string, size_t> position;
  const auto add = [&](const std::string& entry) {
    const std::string name = entry.substr(0, entry.find('='));
    const auto [at, is_new] = position.try_emplace(name, entries.size());
    if (is_new) {
      entries.push_back(entry);
    } else {
      entries[at->second] = entry;
    }
  };
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    add(*entry);
  }
  for (const std::string& entry : additions) add(entry);
  return entries;
}

absl::Status Check(const LaunchSettings& settings) {
  for (const auto& [name, value] :
       {std::make_pair("compile_timeout_s", settings.compile_timeout_s),
        std::make_pair("worker_start_timeout_s",
                       settings.worker_start_timeout_s),
        std::make_pair("worker_idle_s", settings.worker_idle_s),
        std::make_pair("pool_trim_s", settings.pool_trim_s)}) {
    // A NaN is not > 0 either. Three years is as good as for ever.
    if (!(value > 0 && value < 1e8)) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is ", value, ", expected more than 0 seconds"));
    }
  }
  for (const auto& [name, value] :
       {std::make_pair("cache_limit_bytes", settings.cache_limit_bytes),
        std::make_pair("weight_cache_mb", settings.weight_cache_mb),
        std::make_pair("pool_mb", settings.pool_mb)}) {
    if (value < 0 || value > (int64_t{1} << 42)) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is ", value, ", expected 0 to 2^42"));
    }
  }
  for (const std::string& entry : settings.worker_environment) {
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          "worker_environment holds \"", entry, "\", expected NAME=value"));
    }
  }
  return absl::OkStatus();
}

void WriteTimes(const char* name, const WayTimes& times, JsonWriter* json) {
  json->Key(name).BeginObject();
  json->Key("count").Value(times.count);
  json->Key("min_us").Value(static_cast<double>(times.min_ns) / 1e3);
  json->Key("median_us").Value(static_cast<double>(times.median_ns) / 1e3);
  json->EndObject();
}

void WriteTrial(int variant, int size_class, const SpeedTrial& trial,
                JsonWriter* json) {
  const SpeedTrial::Snapshot snapshot = trial.snapshot();
  const int64_t least = size_class == 0 ? 0 : int64_t{1} << (size_class - 1);
  json->BeginObject();
  json->Key("variant").Value(variant);
  json->Key("least_elements").Value(least);
  json->Key("way").Value(!snapshot.settled              ? "measuring"
                         : snapshot.way == Way::kKernel ? "kernel"
                                                        : "tensorflow");
  json->Key("calls").Value(snapshot.calls);
  json->Key("checks").Value(snapshot.checks);
  WriteTimes("kernel", snapshot.kernel, json);
  WriteTimes("tensorflow", snapshot.function, json);
  json->EndObject();
}

void WriteTrials(const SignatureRecord& record, JsonWriter* json) {
  json->Key("speed").BeginArray();
  for (int i = 0; i < kMaxVariants; ++i) {
    for (int c = 0; c < SpeedTrials::kNumClasses; ++c) {
      const SpeedTrial* trial = record.trials(i).Find(c);
      if (trial != nullptr) WriteTrial(i, c, *trial, json);
    }
  }
  json->EndArray();
}

void WriteRecord(const SignatureRecord& record, JsonWriter* json) {
  const SignatureRecord::Status status = record.status();
  json->BeginObject();
  json->Key("signature").Value(record.description);
  json->Key("state").Value(CompileStateName(status.state));
  json->Key("reason").Value(status.failure);
  json->Key("source").Value(status.source);
  json->Key("variants").Value(status.num_variants);
  json->Key("compile_ms").Value(Milliseconds(status.worker_us));
  json->Key("load_ms").Value(Milliseconds(status.load_us));
  json->Key("calls").Value(record.counts.calls());
  json->Key("kernel_runs").Value(record.counts.kernel_runs());
  json->Key("kernel_ms").Value(Milliseconds(record.counts.kernel_ns()) / 1e3);
  json->Key("guard_failures").Value(record.guard_failures.load());
  WriteTrials(record, json);
  json->EndObject();
}

void WriteCluster(const ClusterStatistics& cluster,
                  const std::vector<const SignatureRecord*>& records,
                  JsonWriter* json) {
  json->BeginObject();
  json->Key("id").Value(cluster.id);
  json->Key("calls").Value(cluster.counts.calls());
  json->Key("kernel_runs").Value(cluster.counts.kernel_runs());
  json->Key("kernel_ms").Value(Milliseconds(cluster.counts.kernel_ns()) / 1e3);
  int64_t total = 0;
  json->Key("fallbacks").BeginObject();
  for (const auto& [reason, count] : cluster.fallbacks()) {
    json->Key(reason).Value(count);
    total += count;
  }
  json->EndObject();
  json->Key("fallback_runs").Value(total);
  json->Key("signatures").BeginArray();
  for (const SignatureRecord* record : records) {
    if (record->cluster_id == cluster.id) WriteRecord(*record, json);
  }
  json->EndArray();
  json->EndObject();
}

}  // namespace

absl::Status Configure(const LaunchSettings& settings) {
  const absl::Status status = Check(settings);
  if (!status.ok()) return status;
  const absl::Status limited = LimitHostCpu(settings.max_cpu);
  if (!limited.ok()) return limited;
  CompileSettings compile;
  compile.worker.command = settings.worker_command;
  compile.worker.environment = Environment(settings.worker_environment);
  compile.worker.fingerprint = settings.fingerprint;
  compile.worker.start_timeout_s = settings.worker_start_timeout_s;
  compile.worker.compile_timeout_s = settings.compile_timeout_s;
  compile.cache_dir = settings.cache_dir;
  compile.cache_limit_bytes = settings.cache_limit_bytes;
  compile.worker_idle_s = settings.worker_idle_s;
  compile.pool_trim_s = settings.pool_trim_s;
  compile.dump_dir = settings.dump_dir;
  CompileService::Global().Configure(std::move(compile));
  WeightCache::Global().SetBudget(settings.weight_cache_mb << 20);
  BlockPool::Global().SetCap(settings.pool_mb << 20);
  return absl::OkStatus();
}

std::string LaunchStatisticsJson() {
  const CompileService& service = CompileService::Global();
  const std::vector<const SignatureRecord*> records = service.records();
  const CompileCounters counters = service.counters();
  const WeightCacheCounters weights = WeightCache::Global().counters();
  JsonWriter json;
  json.BeginObject().Key("clusters").BeginArray();
  for (const ClusterStatistics* cluster : ClusterStatistics::All()) {
    WriteCluster(*cluster, records, &json);
  }
  json.EndArray();
  json.Key("compiles").Value(counters.compiles);
  json.Key("compile_failures").Value(counters.compile_failures);
  json.Key("compile_ms").Value(Milliseconds(counters.compile_us));
  json.Key("memory_hits").Value(counters.memory_hits);
  json.Key("shipped_hits").Value(counters.shipped_hits);
  json.Key("disk").BeginObject();
  json.Key("hits").Value(counters.disk_hits);
  json.Key("misses").Value(counters.disk_misses);
  json.Key("damaged").Value(counters.disk_damaged);
  json.Key("stores").Value(counters.disk_stores);
  json.EndObject();
  json.Key("worker").BeginObject();
  json.Key("pid").Value(service.worker_pid());
  json.Key("starts").Value(counters.worker_starts);
  json.Key("failures").Value(counters.worker_failures);
  json.EndObject();
  json.Key("weights").BeginObject();
  json.Key("entries").Value(weights.entries);
  json.Key("bytes").Value(weights.bytes);
  json.Key("hits").Value(weights.hits);
  json.Key("misses").Value(weights.misses);
  json.Key("packs").Value(weights.packs);
  json.Key("released").Value(weights.released);
  json.Key("evictions").Value(weights.evictions);
  json.EndObject();
  const BlockPoolCounters pool = BlockPool::Global().counters();
  json.Key("pool").BeginObject();
  json.Key("cap_bytes").Value(pool.cap_bytes);
  json.Key("used_bytes").Value(pool.used_bytes);
  json.Key("kept_bytes").Value(pool.kept_bytes);
  json.Key("reused").Value(pool.reused);
  json.Key("fresh").Value(pool.fresh);
  json.Key("dropped").Value(pool.dropped);
  json.Key("trimmed").Value(pool.trimmed);
  json.EndObject();
  json.Key("problems").Array(service.problems());
  json.EndObject();
  return json.Take();
}

void ResetLaunchStatistics() {
  CompileService& service = CompileService::Global();
  service.ResetCounters();
  for (const SignatureRecord* record : service.records()) record->ResetCounts();
  for (ClusterStatistics* cluster : ClusterStatistics::All()) cluster->Reset();
}

bool WaitForCompiles(double timeout_s) {
  return CompileService::Global().WaitUntilIdle(timeout_s);
}

int64_t ClearFailedCompiles() {
  return CompileService::Global().ClearFailures();
}

void ClearPool() { BlockPool::Global().Clear(); }

int64_t CompileWorkerPid() { return CompileService::Global().worker_pid(); }

}  // namespace tf_disc
