#include "cc/compile/compile_service.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cc/abi/kernel_abi.h"
#include "cc/base/json_writer.h"
#include "cc/compile/disk_cache.h"
#include "cc/compile/sha256.h"
#include "cc/runtime/block_pool.h"
#include "cc/runtime/cpu_features.h"

namespace tf_disc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxProblems = 32;

int64_t MicrosecondsSince(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() -
                                                               begin)
      .count();
}

std::chrono::microseconds FromSeconds(double seconds) {
  // A year is as good as for ever, and does not overflow.
  return std::chrono::microseconds(
      static_cast<int64_t>(std::clamp(seconds, 0.0, 3.0e7) * 1e6));
}

// The lines of a key that a shipped artifact must share. Its target is checked
// when it is loaded, since code for a lesser CPU runs here too. Without a
// compiler of our own any compiler's code will do.
std::string ShippedPart(absl::string_view key, bool any_compiler) {
  std::vector<absl::string_view> lines;
  for (absl::string_view line : absl::StrSplit(key, '\n')) {
    if (absl::StartsWith(line, "target ") ||
        absl::StartsWith(line, "features ") ||
        (any_compiler && absl::StartsWith(line, "compiler "))) {
      continue;
    }
    lines.push_back(line);
  }
  return absl::StrJoin(lines, "\n");
}

std::string RequestText(const CompileRequest& request) {
  const CpuFeatures& cpu = HostCpu();
  JsonWriter json;
  json.BeginObject();
  json.Key("cluster").Raw(request.cluster_json);
  json.Key("target").Value(cpu.target);
  json.Key("features").Value(cpu.features);
  json.Key("precision").Value(request.precision);
  json.Key("dump").Value(request.dump_folder);
  json.EndObject();
  return json.Take();
}

}  // namespace

CompileService& CompileService::Global() {
  static CompileService* service = new CompileService;
  return *service;
}

void CompileService::Configure(CompileSettings settings) {
  std::lock_guard<std::mutex> lock(mutex_);
  settings_ = std::make_shared<CompileSettings>(std::move(settings));
}

std::shared_ptr<const CompileSettings> CompileService::settings() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return settings_;
}

std::string CompileService::ArtifactKey(const std::string& key_json,
                                        const std::string& precision) const {
  const CpuFeatures& cpu = HostCpu();
  return absl::StrCat("abi ", DISC_ABI_VERSION, "\ncompiler ",
                      settings()->worker.fingerprint, "\ntarget ", cpu.target,
                      "\nfeatures ", cpu.features, "\nprecision ", precision,
                      "\ncluster ", key_json);
}

absl::StatusOr<SignatureRecord*> CompileService::FindOrAdd(
    const std::string& cluster_id, const std::string& key,
    const std::string& description) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<SignatureRecord>& record = records_[{cluster_id, key}];
  if (record == nullptr) {
    int& count = num_signatures_[cluster_id];
    if (count >= kMaxSignatures) {
      records_.erase({cluster_id, key});
      return absl::ResourceExhaustedError(
          absl::StrCat("the cluster has ", kMaxSignatures,
                       " signatures already; its constant operands or weights "
                       "change from call to call"));
    }
    ++count;
    record = std::make_unique<SignatureRecord>(cluster_id, key, description);
  }
  return record.get();
}

CompileService::Answer CompileService::AnswerTo(const SignatureRecord& record,
                                                int known_variants,
                                                bool may_compile) {
  const int num_variants = record.num_variants();
  if (num_variants > known_variants) return Answer::kChanged;
  if (record.pending_) return Answer::kPending;
  if (num_variants > 0) {
    return record.exhausted_ || num_variants >= kMaxVariants || !may_compile
               ? Answer::kRefused
               : Answer::kWanted;
  }
  return record.failure_.empty() ||
                 (record.failed_without_compiler_ && may_compile)
             ? Answer::kWanted
             : Answer::kRefused;
}

CompileService::Answer CompileService::Ask(const SignatureRecord& record,
                                           int known_variants,
                                           bool may_compile) const {
  std::lock_guard<std::mutex> lock(record.mutex_);
  return AnswerTo(record, known_variants, may_compile);
}

CompileService::Answer CompileService::Request(SignatureRecord* record,
                                               int known_variants,
                                               CompileRequest request,
                                               std::function<void()> done) {
  std::lock_guard<std::mutex> record_lock(record->mutex_);
  const Answer answer = AnswerTo(*record, known_variants, request.may_compile);
  if (answer == Answer::kPending && done) {
    record->waiting_.push_back(std::move(done));
  }
  if (answer != Answer::kWanted) return answer;
  // The caller saw the record pending and made no cluster file, and failures
  // were cleared since.
  if (request.cluster_json.empty()) return Answer::kChanged;
  std::lock_guard<std::mutex> lock(mutex_);
  const absl::Status started = EnsureThread();
  if (!started.ok()) {
    record->failure_ = std::string(started.message());
    return Answer::kRefused;
  }
  record->pending_ = true;
  record->failure_.clear();
  if (done) record->waiting_.push_back(std::move(done));
  queue_.push_back({record, known_variants, std::move(request)});
  changed_.notify_all();
  return Answer::kPending;
}

absl::Status CompileService::EnsureThread() {
  if (owner_ == getpid()) return absl::OkStatus();
  if (owner_ != 0) {
    return absl::FailedPreconditionError(
        "this process was forked from one that compiles; start it afresh "
        "(multiprocessing: the \"spawn\" method) to compile here too");
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status status;
  try {
    thread_ = std::thread(&CompileService::ThreadMain, this);
    owner_ = getpid();
  } catch (const std::system_error& error) {
    status = absl::UnavailableError(absl::StrCat(
        "the compile thread could not be started: ", error.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (status.ok()) {
    // Libraries that a load uses are torn down when the process ends: the
    // thread has to be gone by then.
    std::atexit([] { Global().StopAtExit(); });
  }
  return status;
}

void CompileService::StopAtExit() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (owner_ != getpid()) return;
    stopping_ = true;
  }
  worker_.Interrupt();
  changed_.notify_all();
  thread_.join();
}

void CompileService::ThreadMain() {
  pthread_setname_np(pthread_self(), "tf_disc_compile");
  std::unique_lock<std::mutex> lock(mutex_);
  Clock::time_point idle_since = Clock::now();
  Clock::time_point trimmed = idle_since;
  while (!stopping_) {
    const Clock::time_point next_trim =
        trimmed + FromSeconds(settings_->pool_trim_s);
    if (Clock::now() >= next_trim) {
      lock.unlock();
      BlockPool::Global().Trim();
      trimmed = Clock::now();
      lock.lock();
      continue;
    }
    if (queue_.empty()) {
      if (!worker_.running()) {
        changed_.wait_until(lock, next_trim);
        continue;
      }
      const Clock::time_point worker_end =
          idle_since + FromSeconds(settings_->worker_idle_s);
      changed_.wait_until(lock, std::min(next_trim, worker_end));
      if (queue_.empty() && Clock::now() >= worker_end) {
        lock.unlock();
        worker_.Stop();
        lock.lock();
      }
      continue;
    }
    const Job job = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    if (reset_backoff_) worker_.ResetBackoff();
    reset_backoff_ = false;
    lock.unlock();
    Run(job);
    lock.lock();
    busy_ = false;
    idle_since = Clock::now();
    changed_.notify_all();
  }
  lock.unlock();
  worker_.Stop();
}

void CompileService::Run(const Job& job) {
  {
    std::lock_guard<std::mutex> lock(job.record->mutex_);
    job.record->compiling_ = true;
  }
  const std::shared_ptr<const CompileSettings> current = settings();
  Finish(job, GetKernel(job, *current));
}

absl::Status CompileService::GetKernel(const Job& job,
                                       const CompileSettings& settings) {
  if (TakeFromMemory(job)) return absl::OkStatus();
  if (job.known_variants == 0) {
    if (job.request.may_compile && TakeFromDisk(job, settings)) {
      return absl::OkStatus();
    }
    if (TakeShipped(job, settings)) return absl::OkStatus();
  }
  if (!job.request.may_compile) {
    const bool shipped =
        job.request.shipped != nullptr && !job.request.shipped->empty();
    return absl::NotFoundError(
        shipped ? "mode=aot, and no shipped artifact fits this signature, "
                  "compiler and CPU"
                : "mode=aot, and no artifact was shipped with the model");
  }
  return Compile(job, settings);
}

bool CompileService::TakeFromMemory(const Job& job) {
  const auto found = executables_.find(job.record->key);
  if (found == executables_.end()) return false;
  bool any = false;
  // Publish appends to the same list only what is not in it.
  for (const Loaded& loaded : found->second) {
    any |= Publish(job.record, loaded, "memory");
  }
  if (any) Count([](CompileCounters* c) { ++c->memory_hits; });
  return any;
}

bool CompileService::TakeFromDisk(const Job& job,
                                  const CompileSettings& settings) {
  // Without a fingerprint a key says nothing about the compiler.
  if (settings.cache_dir.empty() || settings.worker.fingerprint.empty()) {
    return false;
  }
  const DiskCache cache(settings.cache_dir, settings.cache_limit_bytes);
  DiskCache::Lookup lookup = cache.Find(job.record->key, kMaxVariants);
  bool any = false;
  for (const Artifact& artifact : lookup.artifacts) {
    absl::StatusOr<bool> published =
        LoadAndPublish(job.record, artifact, "disk");
    if (published.ok()) {
      any |= *published;
    } else {
      lookup.problems.push_back(
          absl::StrCat("an artifact in ", settings.cache_dir,
                       " was not used: ", published.status().message()));
    }
  }
  const int64_t damaged = static_cast<int64_t>(lookup.problems.size());
  Count([&](CompileCounters* c) {
    c->disk_damaged += damaged;
    ++(any ? c->disk_hits : c->disk_misses);
  });
  for (std::string& problem : lookup.problems) AddProblem(std::move(problem));
  return any;
}

bool CompileService::TakeShipped(const Job& job,
                                 const CompileSettings& settings) {
  if (job.request.shipped == nullptr) return false;
  const bool any_compiler = settings.worker.fingerprint.empty();
  const std::string wanted = ShippedPart(job.record->key, any_compiler);
  absl::string_view rest = *job.request.shipped;
  bool any = false;
  while (!rest.empty()) {
    absl::StatusOr<Artifact> artifact = DecodeArtifact(rest);
    if (!artifact.ok()) {
      AddProblem(absl::StrCat("the artifacts shipped with ",
                              job.record->cluster_id,
                              " are damaged: ", artifact.status().message()));
      break;
    }
    if (ShippedPart(artifact->key, any_compiler) != wanted) continue;
    absl::StatusOr<bool> published =
        LoadAndPublish(job.record, *artifact, "shipped");
    if (published.ok()) {
      any |= *published;
    } else {
      AddProblem(absl::StrCat("an artifact shipped with ",
                              job.record->cluster_id,
                              " was not used: ", published.status().message()));
    }
  }
  if (any) Count([](CompileCounters* c) { ++c->shipped_hits; });
  return any;
}

absl::Status CompileService::Compile(const Job& job,
                                     const CompileSettings& settings) {
  SignatureRecord* record = job.record;
  if (settings.worker.command.empty()) {
    return absl::FailedPreconditionError(
        "no compiler is configured in this process");
  }
  if (HostCpu().target.empty()) {
    return absl::FailedPreconditionError(
        "this CPU has less than SSE4.2 (x86-64-v2)");
  }
  const Clock::time_point begin = Clock::now();
  absl::StatusOr<WorkerResponse> response =
      worker_.Compile(settings.worker, RequestText(job.request));
  const int64_t worker_us = MicrosecondsSince(begin);
  Count([&](CompileCounters* c) { c->compile_us += worker_us; });
  {
    std::lock_guard<std::mutex> lock(record->mutex_);
    record->worker_us_ += worker_us;
  }
  if (!response.ok()) {
    Count([](CompileCounters* c) { ++c->worker_failures; });
    AddProblem(
        absl::StrCat(record->cluster_id, ": ", response.status().message()));
    return response.status();
  }
  if (response->code == WorkerResponse::kUnsupported) {
    return absl::UnimplementedError(
        absl::StrCat("unsupported: ", response->message));
  }
  if (response->code != WorkerResponse::kCompiled) {
    return absl::InternalError(
        absl::StrCat("internal error of the compiler: ", response->message));
  }
  const Artifact artifact = {record->key, std::move(response->manifest),
                             std::move(response->object)};
  const int variant = record->num_variants();
  absl::StatusOr<bool> published = LoadAndPublish(record, artifact, "compiled");
  if (!published.ok()) {
    return absl::InternalError(
        absl::StrCat("the compiled kernel could not be loaded: ",
                     published.status().message()));
  }
  Count([](CompileCounters* c) { ++c->compiles; });
  if (!*published) {
    return absl::NotFoundError(
        "the compiler gave a kernel with the same guards again");
  }
  if (!settings.cache_dir.empty() && !settings.worker.fingerprint.empty()) {
    const absl::Status stored =
        DiskCache(settings.cache_dir, settings.cache_limit_bytes)
            .Store(artifact, variant);
    if (stored.ok()) {
      Count([](CompileCounters* c) { ++c->disk_stores; });
    } else {
      AddProblem(std::string(stored.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CompileService::LoadAndPublish(SignatureRecord* record,
                                                    const Artifact& artifact,
                                                    const char* source) {
  const Clock::time_point begin = Clock::now();
  absl::StatusOr<std::shared_ptr<const Executable>> executable =
      Executable::Load(artifact.manifest, artifact.object);
  if (!executable.ok()) return executable.status();
  const int64_t load_us = MicrosecondsSince(begin);
  {
    std::lock_guard<std::mutex> lock(record->mutex_);
    record->load_us_ += load_us;
  }
  return Publish(record,
                 {Sha256(absl::StrCat(artifact.manifest, artifact.object)),
                  *std::move(executable)},
                 source);
}

bool CompileService::Publish(SignatureRecord* record, const Loaded& loaded,
                             const char* source) {
  std::vector<Loaded>& known = executables_[record->key];
  const bool is_new = std::none_of(
      known.begin(), known.end(),
      [&](const Loaded& other) { return other.digest == loaded.digest; });
  const std::shared_ptr<const Executable> executable = loaded.executable;
  if (is_new) known.push_back(loaded);
  std::lock_guard<std::mutex> lock(record->mutex_);
  const int count = record->num_variants();
  if (count >= kMaxVariants) return false;
  for (int i = 0; i < count; ++i) {
    for (const Loaded& other : known) {
      if (other.executable == record->variants_[i] &&
          other.digest == loaded.digest) {
        return false;
      }
    }
  }
  if (count == 0) record->source_ = source;
  record->variants_[count] = executable;
  record->num_variants_.store(count + 1, std::memory_order_release);
  return true;
}

void CompileService::Finish(const Job& job, const absl::Status& status) {
  SignatureRecord* record = job.record;
  if (!status.ok()) Count([](CompileCounters* c) { ++c->compile_failures; });
  std::vector<std::function<void()>> waiting;
  {
    std::lock_guard<std::mutex> lock(record->mutex_);
    record->pending_ = false;
    record->compiling_ = false;
    if (!status.ok()) {
      record->failure_ = std::string(status.message());
      record->exhausted_ = record->num_variants() > 0;
      record->failed_without_compiler_ = !job.request.may_compile;
    }
    waiting.swap(record->waiting_);
  }
  for (const std::function<void()>& done : waiting) done();
}

bool CompileService::WaitUntilIdle(double timeout_s) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, FromSeconds(timeout_s),
                           [this] { return queue_.empty() && !busy_; });
}

bool CompileService::is_idle() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return queue_.empty() && !busy_;
}

int64_t CompileService::ClearFailures() {
  int64_t cleared = 0;
  std::vector<SignatureRecord*> all;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    reset_backoff_ = true;
    for (const auto& [key, record] : records_) all.push_back(record.get());
  }
  for (SignatureRecord* record : all) {
    std::lock_guard<std::mutex> lock(record->mutex_);
    if (record->failure_.empty()) continue;
    record->failure_.clear();
    record->exhausted_ = false;
    record->failed_without_compiler_ = false;
    ++cleared;
  }
  return cleared;
}

CompileCounters CompileService::counters() const {
  std::lock_guard<std::mutex> lock(mutex_);
  CompileCounters counters = counters_;
  counters.worker_starts = worker_.starts() - worker_starts_at_reset_;
  return counters;
}

void CompileService::ResetCounters() {
  std::lock_guard<std::mutex> lock(mutex_);
  counters_ = CompileCounters();
  worker_starts_at_reset_ = worker_.starts();
  problems_.clear();
}

std::vector<std::string> CompileService::problems() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {problems_.begin(), problems_.end()};
}

std::vector<const SignatureRecord*> CompileService::records() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<const SignatureRecord*> all;
  for (const auto& [key, record] : records_) all.push_back(record.get());
  return all;
}

void CompileService::AddProblem(std::string problem) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (problems_.size() >= kMaxProblems) problems_.pop_front();
  problems_.push_back(std::move(problem));
}

template <typename Update>
void CompileService::Count(Update update) {
  std::lock_guard<std::mutex> lock(mutex_);
  update(&counters_);
}

}  // namespace tf_disc
