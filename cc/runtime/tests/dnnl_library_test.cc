#include "cc/runtime/dnnl_library.h"

#include <dlfcn.h>

#include <vector>

#include "cc/runtime/cpu_features.h"
#include "cc/runtime/gemm.h"
#include "cc/runtime/tests/pool_host.h"
#include "cc/testing/check.h"

namespace tf_disc {
namespace {

// A program of its own, as oneDNN must not be loaded before: another library,
// as PyTorch does it, has put an OpenMP into the global scope, and that one
// answers oneDNN's calls.
TEST(OpenMpOfTheGlobalScopeIsTheOneThatIsSet) {
  ASSERT(dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr);
  using SetNumThreads = void (*)(int);
  const auto set_global = reinterpret_cast<SetNumThreads>(
      dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  ASSERT(set_global != nullptr);
  set_global(3);
  const auto dnnl = GetDnnlLibrary();
  ASSERT(dnnl.ok());
  (*dnnl)->omp_set_num_threads(3);
  const int before = testing::CountThreads();
  const int64_t n = 512;
  std::vector<float> a(n * n, 1.0f), b(n * n, 1.0f), c(n * n);
  // Below AVX2 products are oneDNN's.
  ASSERT(LimitHostCpu("x86-64-v2").ok());
  EXPECT(DenseGemm(DISC_F32, false, false, n, n, n, a.data(), n, b.data(), n,
                   c.data(), n)
             .ok());
  ASSERT(LimitHostCpu("").ok());
  EXPECT_EQ(c[0], static_cast<float>(n));
  EXPECT_EQ(testing::CountThreads(), before);
}

TEST(StatusesHaveNames) {
  EXPECT_EQ(std::string(DnnlStatusName(dnnl_success)), "success");
  EXPECT_EQ(std::string(DnnlStatusName(dnnl_unimplemented)), "unimplemented");
}

}  // namespace
}  // namespace tf_disc
