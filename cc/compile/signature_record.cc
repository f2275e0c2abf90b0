#include "cc/compile/signature_record.h"

namespace tf_disc {

const char* CompileStateName(CompileState state) {
  switch (state) {
    case CompileState::kIdle:
      return "idle";
    case CompileState::kQueued:
      return "queued";
    case CompileState::kCompiling:
      return "compiling";
    case CompileState::kReady:
      return "ready";
    case CompileState::kFailed:
      return "failed";
  }
  return "";
}

void SignatureRecord::ResetCounts() const {
  counts.Reset();
  guard_failures.store(0, std::memory_order_relaxed);
}

SignatureRecord::Status SignatureRecord::status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  Status status;
  status.num_variants = num_variants();
  if (status.num_variants > 0) {
    status.state = CompileState::kReady;
  } else if (compiling_) {
    status.state = CompileState::kCompiling;
  } else if (pending_) {
    status.state = CompileState::kQueued;
  } else if (!failure_.empty()) {
    status.state = CompileState::kFailed;
  }
  status.failure = failure_;
  status.worker_us = worker_us_;
  status.load_us = load_us_;
  status.source = source_;
  return status;
}

}  // namespace tf_disc
