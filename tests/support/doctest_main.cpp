// The only file that carries doctest's implementation: it saves about three seconds in every other one.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>
#include <cstdlib>

#include <doctest/doctest.h>

#include "tests/support/apart.hpp"

namespace {

/// Counts what a run has chosen. doctest calls a run without a case a success, so a name that ctest passes on wrongly would never fail.
struct chosen_cases : doctest::IReporter {
  explicit chosen_cases(const doctest::ContextOptions&) {}
  static inline bool none = false;

  void test_run_end(const doctest::TestRunStats& run) override { none = run.numTestCasesPassingFilters == 0; }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

} // namespace

REGISTER_LISTENER("chosen_cases", 1, chosen_cases);

int main(int argc, char** argv) {
  if (auto status = swarm::testing::run_apart(argv))
    return *status;
  const auto status = doctest::Context{argc, argv}.run();
  if (!chosen_cases::none)
    return status;
  std::fputs("no test case has this name\n", stderr);
  return EXIT_FAILURE;
}
