// Counts that every launch adds to, from many threads at once.
#ifndef TF_DISC_CC_BASE_STRIPED_COUNTS_H_
#define TF_DISC_CC_BASE_STRIPED_COUNTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tf_disc {

// The stripes that threads are dealt to in turn: so many that those of one
// machine's clients rarely share one, so few that a sum is nothing.
inline constexpr int kStripes = 8;

// The calling thread's; the same for as long as it lives.
inline int ThisThreadsStripe() {
  static std::atomic<unsigned> next{0};
  static thread_local const int stripe =
      static_cast<int>(next.fetch_add(1, std::memory_order_relaxed) % kStripes);
  return stripe;
}

// `N` sums. One cache line for each stripe, so that threads that add at once
// do not take it from each other. Thread-safe; relaxed: it orders nothing.
template <size_t N>
class StripedCounts {
 public:
  void Add(size_t which, int64_t value) {
    Line(ThisThreadsStripe(), which)
        .fetch_add(value, std::memory_order_relaxed);
  }

  // What was added so far. Not a moment's state: others may add meanwhile.
  int64_t Sum(size_t which) const {
    int64_t sum = 0;
    for (const Stripe& stripe : stripes_) {
      sum += stripe.counts[which].load(std::memory_order_relaxed);
    }
    return sum;
  }

  // Sets all sums to 0. What others add meanwhile may be lost or not.
  void Reset() {
    for (Stripe& stripe : stripes_) {
      for (std::atomic<int64_t>& count : stripe.counts) {
        count.store(0, std::memory_order_relaxed);
      }
    }
  }

 private:
  static constexpr size_t kLine = 64;
  static_assert(N * sizeof(int64_t) <= kLine);
  struct alignas(kLine) Stripe {
    std::array<std::atomic<int64_t>, N> counts{};
  };

  std::atomic<int64_t>& Line(int stripe, size_t which) {
    return stripes_[static_cast<size_t>(stripe)].counts[which];
  }

  std::array<Stripe, kStripes> stripes_{};
};

// What is counted of launches: of a cluster and of a signature.
class LaunchCounts {
 public:
  void AddCall() { counts_.Add(kCalls, 1); }
  // It was none after all.
  void RemoveCall() { counts_.Add(kCalls, -1); }
  void AddKernelRun(int64_t ns) {
    counts_.Add(kKernelRuns, 1);
    counts_.Add(kKernelNs, ns);
  }

  int64_t calls() const { return counts_.Sum(kCalls); }
  int64_t kernel_runs() const { return counts_.Sum(kKernelRuns); }
  int64_t kernel_ns() const { return counts_.Sum(kKernelNs); }
  void Reset() { counts_.Reset(); }

 private:
  enum { kCalls, kKernelRuns, kKernelNs, kNumCounts };
  StripedCounts<kNumCounts> counts_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_BASE_STRIPED_COUNTS_H_
