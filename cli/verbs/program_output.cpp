#include "cli/verbs/program_output.hpp"

#include "cli/verbs/home_watch.hpp"
#include "cli/verbs/interrupt.hpp"
#include "gateway/client/failure.hpp"
#include "gateway/session/task_follow.hpp"

namespace swarm::cli {

output_filter::target target_of(const console& io, bool pipes) {
  if (io.out_is_terminal())
    return output_filter::target::terminal;
  return pipes ? output_filter::target::bytes : output_filter::target::text;
}

std::optional<v1::Spawn> last_worker(const invocation& cli, const v1::Task& task) {
  auto query = cli.query();
  query.set_scope(task.scope());
  query.mutable_list_spawns()->set_task_id(task.id());
  auto spawns = all_rows<v1::Spawn>(cli, std::move(query));
  return spawns.empty() ? std::nullopt : std::optional{std::move(spawns.back())};
}

shown print_output(invocation& cli, const v1::Spawn& worker, bool follow) {
  output_filter filter{target_of(cli.io(), worker.pipes())};
  v1::ReadPtyRequest request;
  request.set_id(worker.id());
  request.set_follow(follow);
  bool any = false, whole = true;
  std::uint64_t next = 0;
  std::optional<home_watch> home;
  if (follow)
    home.emplace(cli, worker.scope(), [&](const std::string& text) { cli.io().note(text); });
  interrupt_guard guard{[&] { cli.node().coordination.cancel(); }};
  try {
    for (auto end = stream_end::lost; end == stream_end::lost || end == stream_end::too_slow;) {
      end = cli.node().ptys.read(request, [&](const v1::PtyChunk& chunk) {
        any = true;
        whole = whole && chunk.gap() == 0;
        if (chunk.gap() != 0)
          tell_lost(cli, chunk.gap());
        if (!chunk.data().empty() || chunk.gap() != 0)
          next = chunk.offset() + chunk.data().size();
        cli.io().raw(filter.take(chunk.data()));
        return !chunk.ended();
      });
      request.set_from(next);
      if (end == stream_end::lost)
        cli.node().finder.expect_return();
    }
  } catch (const call_failed&) {
    if (any || guard.interrupted())
      throw;
    return shown::nothing;
  }
  cli.io().raw(filter.finish());
  return whole ? shown::whole : shown::part;
}

shown print_output_tail(invocation& cli, const v1::Task& task) {
  mcp::task_follow known;
  known.task = task;
  const auto details = known.details();
  if (!details.is_object() || !details.contains("output_tail") || !details["output_tail"].is_string())
    return shown::nothing;
  const auto tail = details["output_tail"].get<std::string>();
  const bool cut = details.contains("output_truncated");
  if (cut)
    cli.io().error("only the end of the output is kept: the last " + byte_count(tail.size()));
  output_filter filter{target_of(cli.io(), false)};
  cli.io().raw(filter.take(tail) + filter.finish());
  if (!tail.empty() && tail.back() != '\n')
    cli.io().raw("\n");
  return cut ? shown::part : shown::whole;
}

std::string outcome_text(const json& details) {
  std::string out;
  if (details.contains("signal"))
    out = "signal " + mcp::dump(details["signal"], -1);
  else if (details.contains("exit_status"))
    out = "exit status " + mcp::dump(details["exit_status"], -1);
  if (details.contains("duration_ms") && details["duration_ms"].is_number_integer())
    out += (out.empty() ? "" : ", ") + duration(details["duration_ms"].get<std::int64_t>());
  if (auto end = mcp::told_end(details); !end.empty())
    out += (out.empty() ? "" : ", ") + end;
  return out;
}

void tell_lost(const invocation& cli, std::uint64_t bytes) { cli.io().error(byte_count(bytes) + " of the output are no longer kept"); }

} // namespace swarm::cli
