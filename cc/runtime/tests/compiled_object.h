// Objects for loader tests, made while the test runs.
#ifndef TF_DISC_CC_RUNTIME_TESTS_COMPILED_OBJECT_H_
#define TF_DISC_CC_RUNTIME_TESTS_COMPILED_OBJECT_H_

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tf_disc::testing {

// What `command` + " PATH" writes to PATH; empty if it fails.
inline std::string OutputOf(const std::string& command) {
  std::string path =
      (std::filesystem::temp_directory_path() / "tf_disc_object_XXXXXX")
          .string();
  const int file = mkstemp(path.data());
  if (file < 0) return "";
  close(file);
  std::string bytes;
  if (std::system((command + " " + path).c_str()) == 0) {
    std::ifstream stream(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(stream), {});
  }
  std::remove(path.c_str());
  return bytes;
}

// Tests run in the repository's root. `flags` are added.
inline std::string CompileC(const std::string& source,
                            const std::string& flags = "-fPIC") {
  // The two -fno: no calls of memcpy, no tables for unwinding.
  return OutputOf(
      "${CXX:-g++} -x c -c -O2 -ffreestanding -Wall -Wextra -Werror "
      "-fno-tree-loop-distribute-patterns -fno-asynchronous-unwind-tables "
      "-fno-stack-protector -I. " +
      flags + " " + source + " -o");
}

inline std::string CompileDemoKernel(const std::string& flags = "-fPIC") {
  return CompileC("cc/runtime/tests/demo_kernel.c", flags);
}

}  // namespace tf_disc::testing

#endif  // TF_DISC_CC_RUNTIME_TESTS_COMPILED_OBJECT_H_
