#include "cc/runtime/object_loader.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/runtime/cpu_features.h"
#include "cc/runtime/tests/compiled_object.h"
#include "cc/testing/check.h"

namespace tf_disc {
namespace {

using testing::CompileC;
using testing::CompileDemoKernel;
using testing::OutputOf;

std::string LlvmObject(const std::string& options) {
  return OutputOf(absl::StrCat(
      "${TF_DISC_TEST_PYTHON:-python3} cc/runtime/tests/llvm_object.py ",
      options));
}

std::string ErrorOf(absl::string_view object) {
  const auto loaded = LoadedObject::Load(object);
  return loaded.ok() ? "" : std::string(loaded.status().message());
}

void ExpectError(absl::string_view object, const char* expected, int line) {
  const std::string error = ErrorOf(object);
  if (absl::StrContains(error, expected)) return;
  testing::Fail(__FILE__, line,
                absl::StrCat("expected '", expected, "' in '", error, "'"));
}

// C source given as text.
std::string CompileText(const std::string& text,
                        const std::string& flags = "-fPIC") {
  std::string path =
      (std::filesystem::temp_directory_path() / "tf_disc_source_XXXXXX")
          .string();
  const int file = mkstemp(path.data());
  if (file < 0) return "";
  close(file);
  std::ofstream(path) << text;
  const std::string object = CompileC(path, flags);
  std::remove(path.c_str());
  return object;
}

template <typename T>
T* At(std::string* object, uint64_t offset) {
  return reinterpret_cast<T*>(&(*object)[offset]);
}

Elf64_Shdr* SectionOfType(std::string* object, uint32_t type) {
  const auto* header = At<Elf64_Ehdr>(object, 0);
  for (int i = 0; i < header->e_shnum; ++i) {
    auto* section =
        At<Elf64_Shdr>(object, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (section->sh_type == type) return section;
  }
  return nullptr;
}

TEST(LlvmObjectRuns) {
  if (!HostCpu().avx2) return;
  // Both ways round: small code reaches its constants PC-relative, large code
  // by 64-bit absolute addresses.
  for (const char* options : {"pic,small", "pic,default", "static,large"}) {
    const std::string object = LlvmObject(options);
    ASSERT(!object.empty());
    const auto loaded = LoadedObject::Load(object);
    if (!loaded.ok()) {
      testing::Fail(__FILE__, __LINE__,
                    absl::StrCat(options, ": ", loaded.status().message()));
      continue;
    }
    const auto found = (*loaded)->FindFunction("poly");
    ASSERT(found.ok());
    const auto poly = reinterpret_cast<void (*)(float*, int64_t)>(*found);
    constexpr float kTable[] = {2, 3, 5, 7, 11};
    for (int64_t n : {0, 1, 15, 16, 17, 63, 100}) {
      std::vector<float> x(n + 1);
      for (int64_t i = 0; i <= n; ++i) x[i] = static_cast<float>(i) - 3.0f;
      poly(x.data(), n);
      for (int64_t i = 0; i < n; ++i) {
        const float ramp = 1.0f + 0.25f * static_cast<float>(i % 16);
        const float expected =
            ((static_cast<float>(i) - 3.0f) * ramp + 0.5f) * kTable[i % 5];
        EXPECT_EQ(x[i], expected);
      }
      EXPECT_EQ(x[n], static_cast<float>(n) - 3.0f);
    }
    const auto other = (*loaded)->FindFunction("choose");
    ASSERT(other.ok());
    const auto choose = reinterpret_cast<float (*)(int64_t, float)>(*other);
    for (int64_t c = -1; c < 8; ++c) {
      const float added = c >= 0 && c < 6 ? static_cast<float>(c * c + 1) : 0;
      EXPECT_EQ(choose(c, 2.0f), 2.0f + added);
    }
  }
}

TEST(AbsoluteAddressesOf32BitsSayWhatToDo) {
  const std::string object = LlvmObject("static,small");
  ASSERT(!object.empty());
  ExpectError(object, "does not fit in 32 bits; emit with reloc=pic", __LINE__);
}

TEST(GlobalOffsetTableDataAndBss) {
  // With -fPIC a global that may be preempted is reached through the GOT.
  const std::string object = CompileText(
      "static int zeros[1000]; int counter = 41; const int table[3] = {7,8,9};"
      "int (*pointer)(void); int next(void) { return ++counter + zeros[999]; }"
      "int (*const constant_pointer)(void) = &next;"
      "int through(int i) { pointer = &next; zeros[i] = 0;"
      " return pointer() + constant_pointer() + table[i]; }");
  ASSERT(!object.empty());
  const auto loaded = LoadedObject::Load(object);
  ASSERT(loaded.ok());
  const auto through = (*loaded)->FindFunction("through");
  ASSERT(through.ok());
  EXPECT_EQ(reinterpret_cast<int (*)(int)>(*through)(2), 42 + 43 + 9);
  EXPECT(absl::IsNotFound((*loaded)->FindFunction("counter").status()));
  EXPECT(absl::IsNotFound((*loaded)->FindFunction("").status()));
}

TEST(MappingIsProtectedAndGivenBack) {
  const auto mapped_lines = [](const void* address) {
    // "begin-end perms ...": the permissions of the mapping with `address`.
    std::ifstream maps("/proc/self/maps");
    std::string line;
    while (std::getline(maps, line)) {
      unsigned long begin = 0, end = 0;
      char permissions[8] = "";
      if (std::sscanf(line.c_str(), "%lx-%lx %7s", &begin, &end, permissions) ==
              3 &&
          reinterpret_cast<unsigned long>(address) >= begin &&
          reinterpret_cast<unsigned long>(address) < end) {
        return std::string(permissions);
      }
    }
    return std::string("unmapped");
  };
  const std::string object = CompileDemoKernel();
  ASSERT(!object.empty());
  void* function = nullptr;
  {
    const auto loaded = LoadedObject::Load(object);
    ASSERT(loaded.ok());
    EXPECT((*loaded)->mapped_bytes() >= 4096);
    function = *(*loaded)->FindFunction("demo_plan");
    EXPECT_EQ(mapped_lines(function), "r-xp");
  }
  EXPECT_EQ(mapped_lines(function), "unmapped");
}

TEST(RefusesWhatAKernelMayNotHave) {
  const struct {
    const char* source;
    const char* message;
  } kCases[] = {
      {"float expf(float); float f(float x) { return expf(x); }",
       "undefined symbol 'expf'"},
      {"extern int other; int f(void) { return other; }",
       "undefined symbol 'other'"},
      {"__attribute__((weak)) void w(void); void f(void) { if (w) w(); }",
       "undefined symbol 'w'"},
      {"__thread int t; int f(void) { return t; }", ""},
      {"__attribute__((constructor)) void f(void) {}", "has type 14"},
      {"__attribute__((aligned(65536))) int big[65536]; int f(void)"
       " { return big[0]; }",
       "has alignment 65536"},
  };
  for (const auto& test : kCases) {
    const std::string object = CompileText(test.source);
    ASSERT(!object.empty());
    EXPECT(!ErrorOf(object).empty());
    ExpectError(object, test.message, __LINE__);
  }
  const std::string common =
      CompileText("int c; int f(void) { return c; }", "-fPIC -fcommon");
  ASSERT(!common.empty());
  ExpectError(common, "symbol 'c' is common", __LINE__);
}

TEST(RefusesDamagedTables) {
  std::string object = LlvmObject("pic,small");
  ASSERT(!object.empty());
  ASSERT(SectionOfType(&object, SHT_RELA) != nullptr);
  const auto damaged = [&object](auto change) {
    std::string copy = object;
    change(&copy);
    return copy;
  };
  using Text = std::string*;
  ExpectError("", "ends inside the ELF header", __LINE__);
  ExpectError(std::string(100, 'x'), "not an ELF file", __LINE__);
  ExpectError(damaged([](Text o) { (*o)[EI_CLASS] = ELFCLASS32; }),
              "not a little-endian ELF64", __LINE__);
  ExpectError(damaged([](Text o) { At<Elf64_Ehdr>(o, 0)->e_machine = 40; }),
              "for machine 40", __LINE__);
  ExpectError(damaged([](Text o) { At<Elf64_Ehdr>(o, 0)->e_type = ET_DYN; }),
              "expected a relocatable", __LINE__);
  ExpectError(damaged([](Text o) { At<Elf64_Ehdr>(o, 0)->e_shoff = ~0ull; }),
              "section header", __LINE__);
  ExpectError(damaged([](Text o) { At<Elf64_Ehdr>(o, 0)->e_shstrndx = 999; }),
              "does not hold section names", __LINE__);
  ExpectError(
      damaged([](Text o) { SectionOfType(o, SHT_SYMTAB)->sh_link = 0; }),
      "does not hold symbol names", __LINE__);
  ExpectError(
      damaged([](Text o) { SectionOfType(o, SHT_SYMTAB)->sh_size += 24000; }),
      "lies outside the file", __LINE__);
  ExpectError(
      damaged([](Text o) { SectionOfType(o, SHT_RELA)->sh_info = 1000; }),
      "relocations for section 1000", __LINE__);
  ExpectError(
      damaged([](Text o) {
        At<Elf64_Rela>(o, SectionOfType(o, SHT_RELA)->sh_offset)->r_offset =
            1 << 30;
      }),
      "lies outside the section's bytes", __LINE__);
  ExpectError(
      damaged([](Text o) {
        At<Elf64_Rela>(o, SectionOfType(o, SHT_RELA)->sh_offset)->r_info =
            ELF64_R_INFO(2, R_X86_64_TPOFF32);
      }),
      "has a type that kernels do not use", __LINE__);
  ExpectError(
      damaged([](Text o) {
        At<Elf64_Rela>(o, SectionOfType(o, SHT_RELA)->sh_offset)->r_info =
            ELF64_R_INFO(100000, R_X86_64_PC32);
      }),
      "relocation against symbol 100000", __LINE__);
  ExpectError(
      damaged([](Text o) {
        At<Elf64_Rela>(o, SectionOfType(o, SHT_RELA)->sh_offset)->r_addend =
            int64_t{1} << 40;
      }),
      "does not fit in 32 bits", __LINE__);
}

// Whatever bytes come, Load returns, and a mapping that it made goes away. The
// sanitizer build of this test is the one that proves the bounds.
TEST(TruncatedAndFlippedObjectsAreStatuses) {
  for (const std::string& object :
       {CompileDemoKernel(), LlvmObject("pic,small")}) {
    ASSERT(!object.empty());
    for (size_t size = 0; size < object.size(); ++size) {
      // Own memory of just that size, so that a read beyond it is seen.
      const std::string cut(object, 0, size);
      EXPECT(!ErrorOf(cut).empty());
    }
    std::mt19937 random(7);
    for (size_t bit = 0; bit < object.size() * 8; ++bit) {
      std::string flipped = object;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      (void)LoadedObject::Load(flipped).ok();
    }
    for (int i = 0; i < 20000; ++i) {
      std::string flipped = object;
      for (int bytes = 0; bytes < 8; ++bytes) {
        flipped[random() % object.size()] = static_cast<char>(random());
      }
      (void)LoadedObject::Load(flipped).ok();
    }
  }
}

}  // namespace
}  // namespace tf_disc
