#include <cstdio>
#include <cstring>
#include <vector>

#include "cc/testing/check.h"

namespace tf_disc::testing {
namespace {

struct Test {
  const char* name;
  void (*body)();
};

std::vector<Test>& Tests() {
  static auto* tests = new std::vector<Test>;
  return *tests;
}

int num_failures = 0;

}  // namespace

bool Register(const char* name, void (*body)()) {
  Tests().push_back({name, body});
  return true;
}

void Fail(const char* file, int line, const std::string& message) {
  ++num_failures;
  std::printf("%s:%d: %s\n", file, line, message.c_str());
}

int RunAll(const char* filter) {
  int num_run = 0;
  for (const Test& test : Tests()) {
    if (std::strstr(test.name, filter) == nullptr) continue;
    const int before = num_failures;
    test.body();
    ++num_run;
    std::printf("%s %s\n", num_failures == before ? "ok  " : "FAIL", test.name);
    std::fflush(stdout);
  }
  std::printf("%d tests, %d failed checks\n", num_run, num_failures);
  // A filter that matches nothing must not look like success.
  return num_failures == 0 && num_run > 0 ? 0 : 1;
}

}  // namespace tf_disc::testing

int main(int argc, char** argv) {
  return tf_disc::testing::RunAll(argc > 1 ? argv[1] : "");
}
