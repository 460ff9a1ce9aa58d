// Reads a conversation, over restarts of the node and whatever else cuts a stream.
#pragma once

#include <functional>

#include "cli/invocation.hpp"

namespace swarm::cli {

enum class read_end { complete, stopped };

/// Chunks until `on` returns false, the reading is cancelled, or, unless the request follows, there is no more. Each comes once: a stream that was
/// cut goes on at the last cursor. `on_lost` is called when the node went away. Throws `failure`, also for a cursor that is none.
template <class Port>
read_end read_chunks(Port& port, v1::ReadConversationRequest request, const std::function<bool(const v1::ConversationChunk&)>& on,
                     const std::function<void()>& on_lost) {
  for (;;) {
    const auto end = port.read_conversation(request, [&](const v1::ConversationChunk& chunk) {
      if (auto cursor = cursor_of(chunk); !cursor.empty())
        request.set_cursor(std::move(cursor));
      return on(chunk);
    });
    switch (end) {
      case stream_end::complete: return read_end::complete;
      case stream_end::stopped: return read_end::stopped;
      case stream_end::not_kept: throw failure(code::refused, not_a_cursor);
      case stream_end::lost: on_lost(); break;
      case stream_end::too_slow: break;
    }
  }
}

} // namespace swarm::cli
