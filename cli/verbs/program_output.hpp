// Prints the output of a task's worker, as far as the node still keeps it.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/invocation.hpp"
#include "cli/verbs/output_filter.hpp"

namespace swarm::cli {

/// How to filter the output for our stdout. `pipes`: the worker has no terminal, so its bytes pass unchanged to a pipe or file.
output_filter::target target_of(const console&, bool pipes);

/// The newest worker that was requested for the task.
std::optional<v1::Spawn> last_worker(const invocation&, const v1::Task&);

/// How much of an output was printed. What is missing was said.
enum class shown : std::uint8_t { nothing, part, whole };

/// Prints all of a worker's output that is kept. With `follow` it goes on until the program ends. `nothing`: the output is no longer kept.
shown print_output(invocation&, const v1::Spawn&, bool follow);

/// Prints the end of the output, which the task itself keeps. `nothing`: there is none.
shown print_output_tail(invocation&, const v1::Task&);

/// How a command ended, of its task's result: "exit status 3, 1.2 s, it was ended on request".
std::string outcome_text(const json& details);

/// Says, also with --quiet, that this many bytes of an output are lost.
void tell_lost(const invocation&, std::uint64_t bytes);

} // namespace swarm::cli
