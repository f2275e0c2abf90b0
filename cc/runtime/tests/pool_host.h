// A Host for tests: a few std::threads, malloc, and counters.
#ifndef TF_DISC_CC_RUNTIME_TESTS_POOL_HOST_H_
#define TF_DISC_CC_RUNTIME_TESTS_POOL_HOST_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cc/runtime/host.h"
#include "cc/runtime/manifest.h"

namespace tf_disc::testing {

// Runs closures on its threads, first in first out. Ends when all have run.
class ThreadPool {
 public:
  explicit ThreadPool(int num_threads) {
    for (int i = 0; i < num_threads; ++i) {
      threads_.emplace_back([this] { Loop(); });
    }
  }
  ~ThreadPool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  int num_threads() const { return static_cast<int>(threads_.size()); }

  void Schedule(std::function<void()> fn) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      queue_.push_back(std::move(fn));
    }
    wake_.notify_one();
  }

 private:
  void Loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      std::function<void()> fn = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      fn();
      fn = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

struct FreeDeleter {
  void operator()(void* data) const { std::free(data); }
};
using Memory = std::unique_ptr<void, FreeDeleter>;

inline Memory Allocate(int64_t bytes) {
  const int64_t rounded = (bytes + 63) / 64 * 64;
  return Memory(std::aligned_alloc(64, static_cast<size_t>(rounded)));
}

// Holds what stands for a weight's buffer, as DiscLaunch holds a TF Tensor.
class TestHold : public BufferHold {
 public:
  explicit TestHold(std::shared_ptr<std::vector<float>> data)
      : data_(std::move(data)) {}
  bool IsOnlyHolder() const override { return data_.use_count() == 1; }

 private:
  const std::shared_ptr<std::vector<float>> data_;
};

// One run's host. `holds[i]` is the buffer of input i, or null.
class PoolHost : public Host {
 public:
  explicit PoolHost(ThreadPool* pool) : pool_(pool) {}

  int NumThreads() const override {
    return pool_ == nullptr ? 0 : pool_->num_threads();
  }
  void Schedule(std::function<void()> fn) override {
    ++num_scheduled;
    pool_->Schedule(std::move(fn));
  }
  absl::StatusOr<void*> AllocateOutput(
      int index, disc_dtype dtype, absl::Span<const int64_t> dims) override {
    int64_t bytes = AbiDtypeSize(dtype);
    for (int64_t dim : dims) bytes *= dim;
    if (static_cast<size_t>(index) != outputs.size()) {
      return absl::InternalError("outputs out of order");
    }
    outputs.push_back(Allocate(bytes));
    output_dims.emplace_back(dims.begin(), dims.end());
    return outputs.back().get();
  }
  absl::StatusOr<void*> AllocateTemporary(int64_t bytes) override {
    if (fail_temporaries) return absl::ResourceExhaustedError("out of memory");
    temporaries.push_back(Allocate(bytes));
    return temporaries.back().get();
  }
  std::unique_ptr<BufferHold> HoldInput(int index) override {
    ++num_holds;
    if (static_cast<size_t>(index) >= holds.size() || !holds[index]) {
      return nullptr;
    }
    return std::make_unique<TestHold>(holds[index]);
  }
  bool IsTracing() const override { return tracing; }
  int64_t TaskBegin(const char* name) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    traced.emplace_back(name);
    ++num_open;
    return 7;
  }
  void TaskEnd(int64_t token) override {
    if (token == 7) --num_open;
  }

  std::vector<Memory> outputs;
  std::vector<std::vector<int64_t>> output_dims;
  std::vector<Memory> temporaries;
  std::vector<std::shared_ptr<std::vector<float>>> holds;
  std::vector<std::string> traced;
  std::atomic<int> num_open{0};
  std::atomic<int> num_scheduled{0};
  int num_holds = 0;
  bool tracing = false;
  bool fail_temporaries = false;

 private:
  ThreadPool* const pool_;
  std::mutex mutex_;
};

// Threads of this process, as the kernel counts them.
inline int CountThreads() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int count = -1;
  while (status >> word) {
    if (word == "Threads:") status >> count;
  }
  return count;
}

}  // namespace tf_disc::testing

#endif  // TF_DISC_CC_RUNTIME_TESTS_POOL_HOST_H_
