#include "cc/compile/worker_process.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cc/compile/little_endian.h"

namespace tf_disc {
namespace {

constexpr absl::string_view kRequestMagic = "TFDQ";
constexpr absl::string_view kResponseMagic = "TFDR";
constexpr uint32_t kProtocolVersion = 1;
constexpr size_t kResponseHeaderBytes = 4 + 2 * 4 + 3 * 8;
constexpr size_t kReadBytes = size_t{1} << 16;
// Far above any real answer: a length beyond these is rubbish, not memory to
// ask for.
constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxObjectBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxMessageBytes = uint64_t{16} << 20;
// What is kept of standard error.
constexpr size_t kKeptMessageBytes = 4096;
constexpr auto kStopPatience = std::chrono::milliseconds(500);
// After n failures in a row the next start waits this long times 2^(n-1).
constexpr auto kFirstBackoff = std::chrono::milliseconds(50);
constexpr int kMaxBackoffDoublings = 6;

// How soon an interruption is seen.
constexpr int64_t kMaxPollMs = 50;

using Seconds = std::chrono::duration<double>;

// Waits for the child; true when it has ended (or is not ours to wait for).
bool Reap(pid_t pid, std::chrono::milliseconds patience, int* status) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (true) {
    const pid_t got = waitpid(pid, status, WNOHANG);
    if (got == pid) return true;
    if (got < 0 && errno != EINTR) {
      // Someone else took it: the user's own waitpid(-1) or SIGCHLD ignored.
      *status = -1;
      return true;
    }
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::string DescribeEnd(int status) {
  if (status == -1) return "its exit status was taken by someone else";
  if (WIFEXITED(status)) {
    return absl::StrCat("exit status ", WEXITSTATUS(status));
  }
  if (WIFSIGNALED(status)) return absl::StrCat("signal ", WTERMSIG(status));
  return "unknown";
}

}  // namespace

absl::StatusOr<WorkerResponse> WorkerProcess::Compile(
    const WorkerSettings& settings, absl::string_view request) {
  if (running() && (settings.command != running_settings_.command ||
                    settings.environment != running_settings_.environment ||
                    settings.fingerprint != running_settings_.fingerprint)) {
    Stop();
  }
  // One that ended or spoke while nobody asked cannot be trusted with this
  // compile; that it must be replaced is no failure of this compile.
  if (running() && HasUnaskedOutput()) Stop();
  if (!running()) {
    const absl::Status started = Start(settings);
    if (!started.ok()) {
      ++failures_in_row_;
      last_failure_ = Clock::now();
      return started;
    }
  }
  std::string bytes(kRequestMagic);
  AppendLittleEndian<uint32_t>(kProtocolVersion, &bytes);
  AppendLittleEndian<uint64_t>(request.size(), &bytes);
  bytes.append(request.data(), request.size());
  absl::StatusOr<WorkerResponse> response = Exchange(
      bytes, Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                Seconds(settings.compile_timeout_s)));
  if (response.ok()) {
    failures_in_row_ = 0;
  } else {
    ++failures_in_row_;
    last_failure_ = Clock::now();
  }
  return response;
}

absl::Status WorkerProcess::Start(const WorkerSettings& settings) {
  if (failures_in_row_ > 0) {
    const int doublings = std::min(failures_in_row_ - 1, kMaxBackoffDoublings);
    const auto until = last_failure_ + kFirstBackoff * (1 << doublings);
    while (!interrupted_.load(std::memory_order_relaxed) &&
           Clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  absl::StatusOr<SpawnedProcess> child =
      Spawn(settings.command, settings.environment);
  if (!child.ok()) {
    return absl::UnavailableError(absl::StrCat(
        "the compile worker could not be started: ", child.status().message()));
  }
  child_ = *child;
  running_settings_ = settings;
  messages_.clear();
  pid_.store(child_.pid, std::memory_order_relaxed);
  starts_.fetch_add(1, std::memory_order_relaxed);

  absl::StatusOr<WorkerResponse> ready =
      Exchange("", Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      Seconds(settings.start_timeout_s)));
  if (!ready.ok()) {
    return absl::Status(
        ready.status().code(),
        absl::StrCat(ready.status().message(), " (before it was ready)"));
  }
  absl::string_view fingerprint = ready->message;
  if (ready->code != WorkerResponse::kCompiled ||
      !absl::ConsumePrefix(&fingerprint, "ready ")) {
    const std::string message = absl::StrCat(
        "the compile worker began with \"",
        absl::CHexEscape(ready->message.substr(0, 200)),
        "\", expected \"ready <fingerprint>\"; ", KillAndDescribe());
    return absl::DataLossError(message);
  }
  if (!settings.fingerprint.empty() && settings.fingerprint != fingerprint) {
    const std::string message = absl::StrCat(
        "the compile worker is another compiler: its fingerprint is \"",
        absl::CHexEscape(fingerprint), "\", expected \"",
        absl::CHexEscape(settings.fingerprint),
        "\"; restart this process after an upgrade of tf_disc");
    KillAndDescribe();
    return absl::UnavailableError(message);
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkerResponse> WorkerProcess::Exchange(
    absl::string_view bytes, Clock::time_point deadline) {
  std::string received;
  WorkerResponse response;
  size_t expected = kResponseHeaderBytes;
  size_t manifest_bytes = 0;
  size_t object_bytes = 0;
  size_t message_bytes = 0;
  bool header_read = false;

  while (received.size() < expected || !header_read) {
    const auto now = Clock::now();
    if (now >= deadline) {
      const std::string end = KillAndDescribe();
      return absl::DeadlineExceededError(absl::StrCat(
          "the compile worker gave no answer in time and was ended; ", end));
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now);
    if (interrupted_.load(std::memory_order_relaxed)) {
      KillAndDescribe();
      return absl::CancelledError("this process is ending");
    }
    pollfd polls[3] = {{child_.stdout_fd, POLLIN, 0},
                       {child_.stderr_fd, POLLIN, 0},
                       {child_.stdin_fd, POLLOUT, 0}};
    // A negative descriptor is skipped: standard error may be closed early, and
    // standard input is of interest only while there is something to send.
    if (bytes.empty()) polls[2].fd = -1;
    const int timeout_ms =
        static_cast<int>(std::min<int64_t>(left.count() + 1, kMaxPollMs));
    if (poll(polls, 3, timeout_ms) < 0 && errno != EINTR) {
      const std::string end = KillAndDescribe();
      return absl::AbortedError(
          absl::StrCat("cannot wait for the compile worker; ", end));
    }
    if (polls[1].revents != 0) ReadMessages();
    if (polls[2].revents != 0) {
      const ssize_t n = write(child_.stdin_fd, bytes.data(), bytes.size());
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
      // A closed pipe means that it has died: the end of its output says so
      // too, and may come after an answer.
      if (n < 0 && errno != EAGAIN && errno != EINTR) bytes = "";
    }
    if (polls[0].revents == 0) continue;

    const size_t before = received.size();
    received.resize(before + kReadBytes);
    const ssize_t n = read(child_.stdout_fd, &received[before], kReadBytes);
    const int error = errno;
    received.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0 || (n < 0 && error != EAGAIN && error != EINTR)) {
      const std::string end = KillAndDescribe();
      return absl::AbortedError(
          absl::StrCat("the compile worker ended without an answer; ", end));
    }
    if (!header_read && received.size() >= kResponseHeaderBytes) {
      const auto version = ReadLittleEndian<uint32_t>(received, 4);
      response.code = ReadLittleEndian<uint32_t>(received, 8);
      const auto manifest = ReadLittleEndian<uint64_t>(received, 12);
      const auto object = ReadLittleEndian<uint64_t>(received, 20);
      const auto message = ReadLittleEndian<uint64_t>(received, 28);
      if (!absl::StartsWith(received, kResponseMagic) ||
          version != kProtocolVersion ||
          response.code > WorkerResponse::kInternalError ||
          manifest > kMaxManifestBytes || object > kMaxObjectBytes ||
          message > kMaxMessageBytes) {
        const std::string begin =
            absl::CHexEscape(received.substr(0, kResponseHeaderBytes));
        const std::string end = KillAndDescribe();
        return absl::DataLossError(
            absl::StrCat("the compile worker answered outside the protocol, "
                         "with \"",
                         begin, "\"; ", end));
      }
      header_read = true;
      manifest_bytes = manifest;
      object_bytes = object;
      message_bytes = message;
      expected += manifest_bytes + object_bytes + message_bytes;
    }
    if (header_read && received.size() > expected) {
      const size_t extra = received.size() - expected;
      const std::string end = KillAndDescribe();
      return absl::DataLossError(
          absl::StrCat("the compile worker wrote ", extra,
                       " bytes after its answer; ", end));
    }
  }
  response.manifest = received.substr(kResponseHeaderBytes, manifest_bytes);
  response.object =
      received.substr(kResponseHeaderBytes + manifest_bytes, object_bytes);
  response.message = received.substr(
      kResponseHeaderBytes + manifest_bytes + object_bytes, message_bytes);
  return response;
}

bool WorkerProcess::HasUnaskedOutput() const {
  pollfd polled = {child_.stdout_fd, POLLIN, 0};
  return poll(&polled, 1, 0) != 0;
}

void WorkerProcess::ReadMessages() {
  if (child_.stderr_fd < 0) return;
  char buffer[4096];
  while (true) {
    const ssize_t n = read(child_.stderr_fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      close(child_.stderr_fd);
      child_.stderr_fd = -1;
      return;
    }
    messages_.append(buffer, static_cast<size_t>(n));
    if (messages_.size() > kKeptMessageBytes) {
      messages_.erase(0, messages_.size() - kKeptMessageBytes);
    }
    if (static_cast<size_t>(n) < sizeof(buffer)) return;
  }
}

std::string WorkerProcess::KillAndDescribe() {
  int status = 0;
  // It may be on its own way out: its own exit status says more than our kill.
  if (!Reap(child_.pid, std::chrono::milliseconds(50), &status)) {
    kill(-child_.pid, SIGKILL);
    kill(child_.pid, SIGKILL);
    if (!Reap(child_.pid, std::chrono::seconds(5), &status)) status = -1;
  } else {
    kill(-child_.pid, SIGKILL);  // what it started itself
  }
  ReadMessages();
  std::string text = DescribeEnd(status);
  const absl::string_view said = absl::StripAsciiWhitespace(messages_);
  if (said.empty()) {
    absl::StrAppend(&text, ", nothing on its standard error");
  } else {
    absl::StrAppend(&text, ", the end of its standard error: ", said);
  }
  CloseAll();
  return text;
}

void WorkerProcess::Stop() {
  if (!running()) return;
  close(child_.stdin_fd);
  child_.stdin_fd = -1;
  int status = 0;
  const bool hurry = interrupted_.load(std::memory_order_relaxed);
  if (!Reap(child_.pid, hurry ? std::chrono::milliseconds(0) : kStopPatience,
            &status)) {
    kill(-child_.pid, SIGKILL);
    kill(child_.pid, SIGKILL);
    Reap(child_.pid, std::chrono::seconds(5), &status);
  }
  CloseAll();
}

void WorkerProcess::CloseAll() {
  for (int* fd : {&child_.stdin_fd, &child_.stdout_fd, &child_.stderr_fd}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
  child_.pid = -1;
  pid_.store(0, std::memory_order_relaxed);
}

}  // namespace tf_disc
