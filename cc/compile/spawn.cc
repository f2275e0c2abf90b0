#include "cc/compile/spawn.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tf_disc {
namespace {

std::string ErrnoText(int error) {
  return std::error_code(error, std::generic_category()).message();
}

class Pipe {
 public:
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    for (int fd : fds_) {
      if (fd >= 0) close(fd);
    }
  }
  bool Open() { return pipe2(fds_, O_CLOEXEC) == 0; }
  int read_end() const { return fds_[0]; }
  int write_end() const { return fds_[1]; }
  int TakeRead() { return Take(0); }
  int TakeWrite() { return Take(1); }

 private:
  int Take(int i) {
    const int fd = fds_[i];
    fds_[i] = -1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
  }
  int fds_[2] = {-1, -1};
};

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& s : strings) {
    pointers.push_back(const_cast<char*>(s.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Where the child finds everything that it needs: it may not allocate.
struct ChildPlan {
  const char* program;
  char* const* arguments;
  char* const* environment;
  pid_t parent;
  int stdin_fd;
  int stdout_fd;
  int stderr_fd;
  volatile int error;  // written by the child, read by the parent
};

// Runs in the child, which shares the parent's memory until execve: only
// async-signal-safe calls, and no write but to `plan->error` and the stack.
[[noreturn]] void RunChild(ChildPlan* plan) {
  // Handlers of the parent must not run here. SIGPIPE and others that the
  // parent ignores would stay ignored after execve.
  for (int number = 1; number < NSIG; ++number) {
    if (number != SIGKILL && number != SIGSTOP) signal(number, SIG_DFL);
  }
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the request to be told of its death.
  if (getppid() != plan->parent) _exit(127);
  // The pipes' descriptors may themselves lie in 0 to 2, in a process that
  // closed those: move them out of the way first.
  const int in = fcntl(plan->stdin_fd, F_DUPFD, 3);
  const int out = fcntl(plan->stdout_fd, F_DUPFD, 3);
  const int err = fcntl(plan->stderr_fd, F_DUPFD, 3);
  if (in >= 0 && out >= 0 && err >= 0 && dup2(in, 0) == 0 &&
      dup2(out, 1) == 1 && dup2(err, 2) == 2) {
    // The user's files and sockets must not stay open in the worker. Before
    // Linux 5.9 this call fails and those without close-on-exec are inherited.
#ifdef SYS_close_range
    syscall(SYS_close_range, 3U, ~0U, 0U);
#endif
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(plan->program, plan->arguments, plan->environment);
  }
  plan->error = errno;
  _exit(127);
}

}  // namespace

absl::StatusOr<std::string> FindProgram(
    const std::string& program, const std::vector<std::string>& environment) {
  if (absl::StrContains(program, '/')) return program;
  for (const std::string& entry : environment) {
    if (!absl::StartsWith(entry, "PATH=")) continue;
    for (absl::string_view folder : absl::StrSplit(entry.substr(5), ':')) {
      if (folder.empty()) folder = ".";
      std::string path = absl::StrCat(folder, "/", program);
      if (access(path.c_str(), X_OK) == 0) return path;
    }
  }
  return absl::NotFoundError(
      absl::StrCat("no folder of PATH has the program ", program));
}

absl::StatusOr<SpawnedProcess> Spawn(
    const std::vector<std::string>& command,
    const std::vector<std::string>& environment) {
  if (command.empty()) return absl::UnavailableError("the command is empty");
  absl::StatusOr<std::string> program = FindProgram(command[0], environment);
  if (!program.ok()) return program.status();
  Pipe in, out, err;
  if (!in.Open() || !out.Open() || !err.Open()) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a pipe: ", ErrnoText(errno)));
  }
  const std::vector<char*> arguments = Pointers(command);
  const std::vector<char*> variables = Pointers(environment);
  ChildPlan plan = {
      program->c_str(), arguments.data(), variables.data(), getpid(),
      in.read_end(),    out.write_end(),  err.write_end(),  0};
  // vfork, since posix_spawn cannot ask for a death signal and fork copies the
  // page tables of a process that holds gigabytes of weights. All signals are
  // blocked until the child has execve'd: a handler would run on our memory.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = vfork();
  if (pid == 0) RunChild(&plan);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot start a process: ", ErrnoText(fork_error)));
  }
  SpawnedProcess child;
  child.pid = pid;
  child.stdin_fd = in.TakeWrite();
  child.stdout_fd = out.TakeRead();
  child.stderr_fd = err.TakeRead();
  if (plan.error != 0) {
    close(child.stdin_fd);
    close(child.stdout_fd);
    close(child.stderr_fd);
    waitpid(pid, nullptr, 0);
    return absl::UnavailableError(
        absl::StrCat("cannot run ", *program, ": ", ErrnoText(plan.error)));
  }
  return child;
}

}  // namespace tf_disc
