#include "gateway/client/connection.hpp"

#include <atomic>
#include <utility>

#include "gateway/client/failure.hpp"
#include "gateway/client/ticker.hpp"

namespace swarm::cli {

namespace {

class port_connection final : public connection {
  template <class Call>
  static auto told(Call call) {
    try {
      return call();
    } catch (const call_failed& f) {
      if (f.exit_status != code::interrupted)
        throw;
      throw call_failed(code::interrupted, "cancelled");
    }
  }

public:
  explicit port_connection(std::unique_ptr<node_line> port) : port_(std::move(port)) {}

  v1::Reply execute(const v1::Command& command, const environment_list& environment, std::int64_t extra_ms) override {
    return told([&] { return port_->execute(command, environment, extra_ms); });
  }
  v1::Answer ask(const v1::Query& query) override {
    return told([&] { return port_->ask(query); });
  }
  v1::Activity wait_for_activity(const v1::WaitRequest& request) override {
    return told([&] { return port_->wait_for_activity(request); });
  }
  void watch(v1::WatchRequest request, std::int64_t timeout_ms, const std::function<bool(const v1::WatchReply&)>& on) override {
    std::atomic<bool> late = false;
    ticker timer{0, nullptr, timeout_ms, [&] {
                   late = true;
                   port_->cancel();
                 }};
    until_late(late, [&] {
      for (bool go_on = true; go_on && !late && !cancelled_;) {
        auto end = port_->watch(request, [&](const v1::WatchReply& reply) {
          if (reply.revision() > request.after()) {
            request.set_after(reply.revision());
            request.set_from_now(false);
          }
          return go_on = on(reply);
        });
        if (end == stream_end::not_kept) {
          request.set_after(0);
          request.set_from_now(true);
          go_on = on({});
        } else if (end == stream_end::stopped || end == stream_end::complete) {
          break;
        }
      }
    });
  }
  v1::PtyList list_ptys(const v1::ListPtysRequest& request) override {
    return told([&] { return port_->list(request); });
  }
  void read_pty(v1::ReadPtyRequest request, std::int64_t timeout_ms, const std::function<bool(const v1::PtyChunk&)>& on) override {
    std::atomic<bool> late = false;
    ticker timer{0, nullptr, timeout_ms, [&] {
                   late = true;
                   port_->cancel();
                 }};
    until_late(late, [&] {
      for (auto end = stream_end::lost; !late && !cancelled_ && (end == stream_end::lost || end == stream_end::too_slow);)
        end = port_->read(request, [&](const v1::PtyChunk& chunk) {
          // A stream that was cut goes on at the next offset: every byte is told once.
          request.set_from(chunk.offset() + chunk.data().size());
          request.set_tail(false);
          return on(chunk) && !chunk.ended();
        });
    });
  }
  void read_conversation(v1::ReadConversationRequest request, std::int64_t timeout_ms,
                         const std::function<bool(const v1::ConversationChunk&)>& on) override {
    std::atomic<bool> late = false;
    ticker timer{0, nullptr, timeout_ms, [&] {
                   late = true;
                   port_->cancel();
                 }};
    until_late(late, [&] {
      for (auto end = stream_end::lost; !late && !cancelled_ && (end == stream_end::lost || end == stream_end::too_slow);) {
        end = port_->read_conversation(request, [&](const v1::ConversationChunk& chunk) {
          if (auto cursor = cursor_of(chunk); !cursor.empty())
            request.set_cursor(std::move(cursor));
          return on(chunk);
        });
        if (end == stream_end::not_kept)
          throw call_failed(code::refused, not_a_cursor);
      }
    });
  }
  v1::SendPtyReply send_to_pty(const v1::SendPtyRequest& request) override {
    return told([&] { return port_->send(request); });
  }
  void cancel() override {
    cancelled_ = true;
    port_->cancel();
  }

private:
  /// A call that the receiver of a stream has made may be what the deadline has ended: that is no failure.
  template <class Stream>
  void until_late(const std::atomic<bool>& late, Stream stream) {
    try {
      stream();
    } catch (const call_failed& f) {
      if (f.exit_status != code::interrupted || cancelled_ || !late)
        throw;
    }
    if (cancelled_)
      throw call_failed(code::interrupted, "cancelled");
  }

  std::unique_ptr<node_line> port_;
  std::atomic<bool> cancelled_ = false;
};

} // namespace

std::unique_ptr<connection> connection_over(std::unique_ptr<node_line> line) { return std::make_unique<port_connection>(std::move(line)); }

} // namespace swarm::cli
