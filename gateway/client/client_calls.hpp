// Calls of a client with their tries, for its source files.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include <grpcpp/grpcpp.h>

#include "gateway/client/client.hpp"
#include "gateway/client/status.hpp"

namespace swarm::cli {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

inline constexpr milliseconds pause_first{10};
inline constexpr milliseconds pause_longest{500};

template <class Ask>
void client::until_answered(Ask ask, std::int64_t extra_ms, bool repeat, bool waits_out_pause) {
  auto until = steady_clock::now() + milliseconds{settings_.timeout_ms + extra_ms};
  grpc::Status last{grpc::StatusCode::UNAVAILABLE, "no connection"};
  bool may_have_arrived = false;
  for (auto wait = pause_first;; wait = std::min(wait * 2, pause_longest)) {
    std::shared_ptr<grpc::Channel> connection;
    try {
      connection = channel(until);
    } catch (const call_failed& f) {
      // As in a stream: whoever waits for something has a deadline of his own, and an upgrade is a pause.
      if (!waits_out_pause || !was_connected_ || !f.node_stopped || !f.programs_go_on)
        throw;
    }
    if (!connection && repeat && await_node(until) && steady_clock::now() < until)
      continue;
    if (connection) {
      grpc::ClientContext context;
      prepare(context, until);
      if (in_progress now{*this, context}; now)
        last = ask(connection, context);
      if (last.ok())
        return;
    }
    if (take_cancelled())
      throw interrupted();
    if (!repeat || !worth_repeating(last) || steady_clock::now() + wait >= until)
      throw as_failure(last, may_have_arrived);
    if (last.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) {
      may_have_arrived = may_have_arrived || connection;
      channel_.reset();
    }
    if (!pause(wait)) {
      take_cancelled();
      throw interrupted();
    }
  }
}

template <class Service, class Request, class Answer>
Answer client::call(grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Answer*), const Request& request,
                    std::int64_t extra_ms, bool repeat, bool waits_out_pause) {
  Answer answer;
  until_answered(
    [&](const auto& connection, grpc::ClientContext& context) {
      auto stub = Service::NewStub(connection);
      answer.Clear();
      return (stub.get()->*method)(&context, request, &answer);
    },
    extra_ms, repeat, waits_out_pause);
  return answer;
}

} // namespace swarm::cli
