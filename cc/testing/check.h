// A test program in forty lines: TEST(name) { EXPECT(...); EXPECT_EQ(a, b); }
//
// A failed check is printed with its place and values and makes the program
// exit with 1; the test goes on. `main` is cc/testing/main.cc, which also runs
// only the tests whose name contains its argument. Ours because a framework
// would be one more thing to install for what is needed here.
#ifndef TF_DISC_CC_TESTING_CHECK_H_
#define TF_DISC_CC_TESTING_CHECK_H_

#include <sstream>
#include <string>

namespace tf_disc::testing {

// Adds a test to the program's list; called before `main` by TEST.
bool Register(const char* name, void (*body)());

// Runs the tests whose name contains `filter`. Returns the program's exit code.
int RunAll(const char* filter);

// Counts a failed check and prints it.
void Fail(const char* file, int line, const std::string& message);

template <typename A, typename B>
void ExpectEqual(const A& a, const B& b, const char* a_text, const char* b_text,
                 const char* file, int line) {
  if (a == b) return;
  std::ostringstream message;
  message << "expected " << a_text << " == " << b_text << ", got " << a
          << " and " << b;
  Fail(file, line, message.str());
}

}  // namespace tf_disc::testing

#define TEST(name)                                       \
  static void Test_##name();                             \
  [[maybe_unused]] static const bool registered_##name = \
      ::tf_disc::testing::Register(#name, Test_##name);  \
  static void Test_##name()

#define EXPECT(condition) \
  ((condition)            \
       ? void()           \
       : ::tf_disc::testing::Fail(__FILE__, __LINE__, "expected " #condition))

#define EXPECT_EQ(a, b) \
  ::tf_disc::testing::ExpectEqual((a), (b), #a, #b, __FILE__, __LINE__)

// Ends the test when the condition is false: what follows needs it.
#define ASSERT(condition)                                                \
  do {                                                                   \
    const bool ok = static_cast<bool>(condition);                        \
    if (!ok) {                                                           \
      ::tf_disc::testing::Fail(__FILE__, __LINE__, "needs " #condition); \
      return;                                                            \
    }                                                                    \
  } while (false)

#endif  // TF_DISC_CC_TESTING_CHECK_H_
