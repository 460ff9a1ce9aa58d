// What a client reads and writes piece by piece: events, terminals and conversations.
#include <atomic>

#include "actors/base/limits.hpp"
#include "gateway/client/client_calls.hpp"
#include "swarm/v1/conversation.grpc.pb.h"
#include "swarm/v1/coordination.grpc.pb.h"
#include "swarm/v1/pty.grpc.pb.h"

namespace swarm::cli {

namespace {

/// A stream is renewed now and then, so that a node that hangs is noticed.
steady_clock::time_point renewed() { return steady_clock::now() + limits::server_wait_max(); }

class grpc_pty_stream final : public pty_stream {
public:
  explicit grpc_pty_stream(std::shared_ptr<grpc::Channel> channel, std::function<void(grpc::ClientContext&)> set_up)
    : stub_(v1::Ptys::NewStub(std::move(channel))) {
    set_up(context_);
    stream_ = stub_->Attach(&context_);
  }
  bool write(const v1::AttachFrame& frame) override { return stream_->Write(frame); }
  bool read(v1::PtyChunk& chunk) override { return stream_->Read(&chunk); }
  void cancel() override {
    cancelled_ = true;
    context_.TryCancel();
  }
  bool finish() override {
    auto status = stream_->Finish();
    if (status.ok() || cancelled_)
      return true;
    if (!worth_repeating(status))
      throw as_failure(status);
    return false;
  }

private:
  std::unique_ptr<v1::Ptys::Stub> stub_;
  grpc::ClientContext context_;
  std::atomic<bool> cancelled_ = false;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AttachFrame, v1::PtyChunk>> stream_;
};

} // namespace

template <class Request, class Answer, class Open>
stream_end client::stream(const Request& request, Open open, const std::function<bool(const Answer&)>& on, time_point until, grpc::Status* end) {
  std::shared_ptr<grpc::Channel> connection;
  try {
    connection = channel(steady_clock::now() + milliseconds{settings_.timeout_ms});
  } catch (const call_failed& f) {
    // Who follows is told by the caller's own deadline: an upgrade is a pause.
    if (!f.node_stopped || !was_connected_)
      throw;
  }
  if (!connection)
    return await_node(until) ? stream_end::lost : stream_end::stopped;
  grpc::ClientContext context;
  prepare(context, until);
  std::optional<in_progress> now{std::in_place, *this, context};
  bool stopped = !*now;
  auto reader = open(connection, context, request);
  auto finish = [&] {
    if (stopped)
      context.TryCancel();
    auto status = reader->Finish();
    now.reset();
    return status;
  };
  try {
    for (Answer answer; !stopped && reader->Read(&answer);)
      stopped = !on(answer);
  } catch (...) {
    stopped = true;
    finish();
    take_cancelled();
    throw;
  }
  auto status = finish();
  if (end)
    *end = status;
  if (take_cancelled() || stopped)
    return stream_end::stopped;
  switch (status.error_code()) {
    case grpc::StatusCode::OK: return stream_end::complete;
    case grpc::StatusCode::RESOURCE_EXHAUSTED: return stream_end::too_slow;
    case grpc::StatusCode::OUT_OF_RANGE: return stream_end::not_kept;
    case grpc::StatusCode::DEADLINE_EXCEEDED: return stream_end::too_slow;
    default: break;
  }
  if (!worth_repeating(status))
    throw as_failure(status);
  channel_.reset();
  return stream_end::lost;
}

stream_end client::watch(const v1::WatchRequest& request, const std::function<bool(const v1::WatchReply&)>& on) {
  std::unique_ptr<v1::Coordination::Stub> stub;
  auto open = [&](const auto& connection, grpc::ClientContext& context, const v1::WatchRequest& r) {
    stub = v1::Coordination::NewStub(connection);
    return stub->Watch(&context, r);
  };
  return stream<v1::WatchRequest, v1::WatchReply>(request, open, on, renewed());
}

template <class Chunk, class Request, class Open>
stream_end client::read_kept(const Request& request, Open open, const std::function<bool(const Chunk&)>& on) {
  // Without --follow each wait for the next item has the bound of a call.
  const auto until = request.follow() ? renewed() : steady_clock::now() + milliseconds{settings_.timeout_ms};
  bool heard = false;
  auto hear = [&](const Chunk& chunk) {
    heard = true;
    return on(chunk);
  };
  for (;;) {
    grpc::Status last{grpc::StatusCode::UNAVAILABLE, "no connection"};
    const auto end = stream<Request, Chunk>(request, open, hear, until, &last);
    const bool renews = request.follow() && last.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
    if (heard || renews || (end != stream_end::lost && end != stream_end::too_slow)) {
      read_pause_ = {};
      return end;
    }
    read_pause_ = std::clamp(2 * read_pause_, pause_first, pause_longest);
    if (!request.follow() && steady_clock::now() + read_pause_ >= until)
      throw as_failure(last);
    if (!pause(read_pause_)) {
      take_cancelled();
      return stream_end::stopped;
    }
    if (request.follow())
      return end;
  }
}

v1::PtyInfo client::create(v1::CreatePtyRequest request) {
  *request.mutable_id() = next_id();
  return call<v1::Ptys>(&v1::Ptys::Stub::Create, request);
}

v1::PtyList client::list(const v1::ListPtysRequest& request) { return call<v1::Ptys>(&v1::Ptys::Stub::List, request); }

stream_end client::read(const v1::ReadPtyRequest& request, const std::function<bool(const v1::PtyChunk&)>& on) {
  std::unique_ptr<v1::Ptys::Stub> stub;
  auto open = [&](const auto& connection, grpc::ClientContext& context, const v1::ReadPtyRequest& r) {
    stub = v1::Ptys::NewStub(connection);
    if (!input_.empty())
      context.AddMetadata("swarm-input", input_);
    return stub->Read(&context, r);
  };
  return read_kept<v1::PtyChunk>(request, open, on);
}

stream_end client::read_conversation(const v1::ReadConversationRequest& request, const std::function<bool(const v1::ConversationChunk&)>& on) {
  std::unique_ptr<v1::Conversations::Stub> stub;
  auto open = [&](const auto& connection, grpc::ClientContext& context, const v1::ReadConversationRequest& r) {
    stub = v1::Conversations::NewStub(connection);
    return stub->Read(&context, r);
  };
  return read_kept<v1::ConversationChunk>(request, open, on);
}

std::string client::read_blob(const v1::ReadBlobRequest& request) {
  std::string out;
  until_answered([&](const auto& connection, grpc::ClientContext& context) {
    out.clear();
    auto stub = v1::Conversations::NewStub(connection);
    auto reader = stub->ReadBlob(&context, request);
    for (v1::BlobPart part; reader->Read(&part);)
      out += part.data();
    return reader->Finish();
  });
  return out;
}

v1::WriteBlobReply client::write_blob(const v1::WriteBlobRequest& head, std::string_view bytes) {
  v1::WriteBlobReply reply;
  until_answered([&](const auto& connection, grpc::ClientContext& context) {
    reply.Clear();
    auto stub = v1::Conversations::NewStub(connection);
    auto writer = stub->WriteBlob(&context, &reply);
    auto part = head;
    auto rest = bytes;
    do {
      part.set_data(std::string{rest.substr(0, limits::driver_part_bytes_max)});
      rest.remove_prefix(part.data().size());
      if (!writer->Write(part))
        break; // the status says why
      part.Clear();
    } while (!rest.empty());
    writer->WritesDone();
    return writer->Finish();
  });
  return reply;
}

v1::SendPtyReply client::send(v1::SendPtyRequest request) {
  if (request.id().client().empty())
    *request.mutable_id() = next_id();
  return call<v1::Ptys>(&v1::Ptys::Stub::Send, request);
}

v1::PtyInfo client::resize(const v1::ResizePtyRequest& request) { return call<v1::Ptys>(&v1::Ptys::Stub::Resize, request); }

v1::PtyInfo client::forget(const v1::ForgetPtyRequest& request) { return call<v1::Ptys>(&v1::Ptys::Stub::Forget, request); }
v1::PtyInfo client::kill(const v1::KillPtyRequest& request) { return call<v1::Ptys>(&v1::Ptys::Stub::Kill, request, limits::kill_grace().count()); }

std::unique_ptr<pty_stream> client::attach() {
  auto connection = channel(steady_clock::now() + milliseconds{settings_.timeout_ms});
  if (!connection)
    throw no_node();
  return stream_over(connection);
}

std::unique_ptr<pty_stream> client::attach_again() {
  channel_.reset();
  auto until = steady_clock::now() + milliseconds{settings_.timeout_ms};
  auto connected = [&]() -> std::shared_ptr<grpc::Channel> {
    try {
      auto found = channel(until);
      if (!found)
        expect_return();
      return found;
    } catch (const call_failed& f) {
      if ((f.exit_status != code::no_node && f.exit_status != code::deadline) || (f.node_stopped && !f.programs_go_on))
        throw;
      return nullptr;
    }
  };
  std::unique_ptr<pty_stream> out;
  try {
    while (!out && steady_clock::now() < until) {
      if (auto connection = connected())
        out = stream_over(connection);
      else if (!await_node(until))
        break;
    }
  } catch (const call_failed& f) {
    if (f.exit_status != code::interrupted)
      throw;
  }
  take_cancelled();
  return out;
}

std::unique_ptr<pty_stream> client::stream_over(const std::shared_ptr<grpc::Channel>& connection) const {
  return std::make_unique<grpc_pty_stream>(connection, [this](grpc::ClientContext& context) {
    if (!settings_.token.empty())
      context.AddMetadata("swarm-token", settings_.token);
  });
}

} // namespace swarm::cli
