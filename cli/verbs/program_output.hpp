// What the worker of a task has printed, as far as it is still kept.
#pragma once

#include <optional>

#include "cli/invocation.hpp"
#include "cli/verbs/output_filter.hpp"

namespace swarm::cli {

/// How output comes out here. `pipes`: the worker has no terminal, so that its bytes are its own.
output_filter::target target_of(const console&, bool pipes);

/// The newest worker that was asked for by the task.
std::optional<v1::Spawn> last_worker(const invocation&, const v1::Task&);

/// Prints all that is kept of a worker's output. `follow`: goes on until the program ends. False when it is not kept any more; nothing is printed
/// then.
bool print_output(invocation&, const v1::Spawn&, bool follow);

/// Prints the end of the output that is kept with the task for as long as the task is. False when there is none.
bool print_output_tail(invocation&, const v1::Task&);

/// Says that the beginning of an output is gone.
void note_lost(const invocation&, std::uint64_t bytes);

} // namespace swarm::cli
