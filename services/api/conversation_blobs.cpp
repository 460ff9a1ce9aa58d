// ReadBlob and WriteBlob: attachments and other large parts of conversations, in pieces.
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/decide.hpp"
#include "actors/domain/digest.hpp"
#include "services/api/conversation_call.hpp"
#include "services/api/conversation_service.hpp"
#include "services/call/admitted_call.hpp"
#include "services/call/requests.hpp"

namespace swarm {

namespace {

constexpr std::size_t part_bytes_max = limits::driver_part_bytes_max;

template <class Request>
std::optional<std::string> wrong_about(const Request& m) {
  if (m.conversation_id().empty() || m.conversation_id().size() > limits::id_bytes_max)
    return "a conversation has an id of at most " + std::to_string(limits::id_bytes_max) + " bytes";
  return m.scope().empty() ? std::optional<std::string>{"an attachment needs the scope of its conversation"}
                           : wrong_scope(m.scope(), scope_is::required);
}

std::optional<std::string> wrong_with(const v1::ReadBlobRequest& m) {
  return m.digest().size() == domain::digest_bytes ? wrong_about(m) : std::optional<std::string>{"a digest has 32 bytes"};
}

std::optional<std::string> wrong_part(const v1::WriteBlobRequest& m) {
  if (m.data().size() <= part_bytes_max)
    return std::nullopt;
  return "a part has at most " + std::to_string(part_bytes_max / limits::kib) + " KiB";
}

// -- reading --------------------------------------------------------------------------------

class blob_reactor final : public stream_writer<v1::BlobPart, grpc::ServerWriteReactor<v1::BlobPart>> {
protected:
  void drained() override {
    if (auto who = actor().get())
      caf::anon_send(who, tick_atom_v);
  }
};
using blob_reactor_ptr = std::shared_ptr<blob_reactor>;

struct blob_read_state {
  static inline const char* name = "blob-reader";
  std::shared_ptr<service_environment> service;
  v1::ReadBlobRequest request;
  std::int64_t grants_until_ms = 0;
  std::uint64_t sent = 0;
  bool waiting_for_room = false;
  blob_reactor_ptr io;
  ~blob_read_state() {
    if (io)
      io->close({grpc::StatusCode::UNAVAILABLE, "the part of the node that reads attachments went away; read again"});
  }
};
using blob_read_self = caf::stateful_actor<blob_read_state>*;

void finish(blob_read_self self, grpc::Status s) {
  self->state.io->close(std::move(s));
  self->quit();
}

/// One part for each that there is room for.
void send_parts(blob_read_self self) {
  auto& st = self->state;
  if (auto over = over_with_grant(*st.service, st.grants_until_ms))
    return finish(self, *over);
  auto all = st.service->board->get().conversation_blobs;
  if (!all)
    return finish(self, to_status(errc::unavailable));
  auto r = std::make_shared<blob_reading>(blob_reading{st.request.conversation_id(), st.request.digest(), st.sent, part_bytes_max});
  ask(self, all, blob_reading_ptr{r})
    .then(
      [self](const blob_page_ptr& page) {
        auto& s = self->state;
        s.sent += page->data.size();
        const bool is_last = page->data.empty() || s.sent >= page->total;
        v1::BlobPart part;
        part.set_data(page->data);
        const bool room = s.io->push(std::move(part));
        if (is_last)
          return finish(self, grpc::Status::OK);
        if (room)
          return send_parts(self);
        s.waiting_for_room = true;
      },
      [self](caf::error& e) {
        if (e == errc::not_found)
          return finish(self, {grpc::StatusCode::NOT_FOUND, "the conversation has no such attachment; what no prompt names goes after a day"});
        finish(self, to_status(e));
      });
}

caf::behavior blob_reader(blob_read_self self, service_environment service, claim who, v1::ReadBlobRequest request, blob_reactor_ptr io) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.service = std::make_shared<service_environment>(std::move(service));
  st.request = std::move(request);
  st.request.set_scope(st.service->nodes.shared().scope_of(st.request.scope()));
  st.io = std::move(io);
  st.io->actor().attach(caf::actor_cast<caf::actor>(self));
  auto refuse = [self](grpc::Status s) { finish(self, std::move(s)); };
  with_lasting_principal(
    self, *st.service, who,
    [self, refuse](const v1::Principal& p, std::int64_t until_ms) {
      auto& s = self->state;
      s.grants_until_ms = until_ms;
      with_conversation(
        self, s.service, p, s.request.scope(), s.request.conversation_id(), [self](const v1::Conversation&) { send_parts(self); }, refuse);
    },
    refuse);
  return {[self](tick_atom) {
    if (std::exchange(self->state.waiting_for_room, false))
      send_parts(self);
  }};
}

// -- writing --------------------------------------------------------------------------------

/// The socket end of an upload: one part at a time, and the reply. What was kept of a call that is over without its reply is taken back.
class upload_reactor final : public grpc::ServerReadReactor<v1::WriteBlobRequest> {
public:
  void read_more() { StartRead(&in_); }
  /// The part that was read.
  v1::WriteBlobRequest take() { return std::exchange(in_, {}); }
  void close(grpc::Status status) {
    std::lock_guard guard{mutex_};
    if (!std::exchange(closing_, true))
      Finish(std::move(status));
  }
  void answer(v1::WriteBlobReply* to, const blob_kept& kept) {
    std::lock_guard guard{mutex_};
    if (std::exchange(closing_, true))
      return;
    to->set_digest(kept.digest);
    to->set_bytes(kept.bytes);
    Finish(grpc::Status::OK);
  }
  void OnReadDone(bool ok) override {
    if (auto who = actor_.get()) {
      if (ok)
        caf::anon_send(who, attach_atom_v);
      else
        caf::anon_send(who, gone_atom_v);
    }
    comes_before(this);
  }
  void OnCancel() override {
    cancelled_ = true;
    actor_.end();
    comes_before(this);
  }
  void OnDone() override {
    comes_after(this);
    if (cancelled_ && take_back_)
      take_back_();
    keep_.reset();
  }
  call_actor& actor() noexcept { return actor_; }
  /// To be done when the call is over without its reply; before the first part is read.
  void take_back(std::function<void()> f) { take_back_ = std::move(f); }
  void hold(std::shared_ptr<void> self, std::shared_ptr<void> slot) {
    keep_ = std::move(self);
    slot_ = std::move(slot);
    comes_before(this);
  }

private:
  v1::WriteBlobRequest in_; // by turns of gRPC and of the actor
  std::mutex mutex_;
  bool closing_ = false;
  std::atomic<bool> cancelled_ = false;
  std::function<void()> take_back_;
  call_actor actor_;
  std::shared_ptr<void> slot_;
  std::shared_ptr<void> keep_;
};
using upload_reactor_ptr = std::shared_ptr<upload_reactor>;

struct upload_state {
  static inline const char* name = "blob-writer";
  std::shared_ptr<service_environment> service;
  claim who;
  v1::WriteBlobReply* reply = nullptr; // while the call is not over
  std::string upload = random_uuid();
  v1::WriteBlobRequest about; // the first part
  std::int64_t grants_until_ms = 0;
  bool has_begun = false; // the first part was sent on
  upload_reactor_ptr io;
  ~upload_state() {
    if (!io)
      return;
    io->close({grpc::StatusCode::UNAVAILABLE, "the part of the node that keeps attachments went away; send it again"});
    if (auto all = service->board->get().conversation_blobs)
      caf::anon_send(all, abort_atom_v, upload);
  }
};
using upload_self = caf::stateful_actor<upload_state>*;

void finish(upload_self self, grpc::Status s) {
  self->state.io->close(std::move(s));
  self->quit();
}

/// The next bytes on their way to the disk; the next part is read when they are there.
void send_on(upload_self self, std::string data, bool last) {
  auto& st = self->state;
  if (auto over = over_with_grant(*st.service, st.grants_until_ms))
    return finish(self, *over);
  auto all = st.service->board->get().conversation_blobs;
  if (!all)
    return finish(self, to_status(errc::unavailable));
  auto part =
    std::make_shared<blob_upload>(blob_upload{st.upload, st.about.conversation_id(), std::move(data), !std::exchange(st.has_begun, true), last});
  ask(self, all, blob_upload_ptr{part})
    .then(
      [self, last](const blob_kept_ptr& kept) {
        auto& s = self->state;
        if (!last)
          return s.io->read_more();
        s.io->answer(s.reply, *kept);
        s.io.reset(); // whether the reply arrives is for the reactor to see
        self->quit();
      },
      [self](caf::error& e) { finish(self, to_status(e)); });
}

/// Who may send a prompt may send what goes with it.
std::optional<grpc::Status> may_write(const service_environment& service, const v1::Principal& who, const v1::WriteBlobRequest& about,
                                      const v1::Conversation& row) {
  v1::Command prompt;
  prompt.set_scope(about.scope());
  *prompt.mutable_principal() = who;
  prompt.mutable_send_prompt()->set_conversation_id(row.id());
  if (auto refused = domain::authorize(prompt)) {
    service.refused.add_if_forbidden(prompt, *refused);
    return to_status(*refused);
  }
  if (who.kind() == v1::Principal::SESSION && !who.id().empty() && who.id() == row.session_id())
    return grpc::Status{grpc::StatusCode::PERMISSION_DENIED, "a session does not prompt the conversation that it is itself"};
  if (row.state() == v1::Conversation::ENDED)
    return grpc::Status{grpc::StatusCode::FAILED_PRECONDITION,
                        "the conversation has ended; `swarmctl chat resume " + row.id() + "` lets it take prompts again"};
  return std::nullopt;
}

void begin(upload_self self, v1::WriteBlobRequest first) {
  auto& st = self->state;
  if (auto wrong = wrong_about(first))
    return finish(self, {grpc::StatusCode::INVALID_ARGUMENT, *wrong});
  st.about = std::move(first);
  st.about.set_scope(st.service->nodes.shared().scope_of(st.about.scope()));
  auto refuse = [self](grpc::Status s) { finish(self, std::move(s)); };
  with_lasting_principal(
    self, *st.service, st.who,
    [self, refuse](const v1::Principal& p, std::int64_t until_ms) {
      auto& s = self->state;
      s.grants_until_ms = until_ms;
      with_conversation(
        self, s.service, p, s.about.scope(), s.about.conversation_id(),
        [self, p](const v1::Conversation& row) {
          auto& x = self->state;
          if (auto refused = may_write(*x.service, p, x.about, row))
            return finish(self, *refused);
          send_on(self, std::move(*x.about.mutable_data()), false);
        },
        refuse);
    },
    refuse);
}

void on_part(upload_self self) {
  auto& st = self->state;
  auto part = st.io->take();
  if (auto wrong = wrong_part(part))
    return finish(self, {grpc::StatusCode::INVALID_ARGUMENT, *wrong});
  if (st.about.conversation_id().empty())
    return begin(self, std::move(part));
  if (!part.scope().empty() || !part.conversation_id().empty())
    return finish(self, {grpc::StatusCode::INVALID_ARGUMENT, "only the first part says for which conversation"});
  send_on(self, std::move(*part.mutable_data()), false);
}

caf::behavior blob_writer_call(upload_self self, service_environment service, claim who, v1::WriteBlobReply* reply, upload_reactor_ptr io) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.service = std::make_shared<service_environment>(std::move(service));
  st.who = std::move(who);
  st.reply = reply;
  st.io = std::move(io);
  st.io->take_back([board = st.service->board, upload = st.upload] {
    if (auto all = board->get().conversation_blobs)
      caf::anon_send(all, abort_atom_v, upload);
  });
  st.io->actor().attach(caf::actor_cast<caf::actor>(self));
  st.io->read_more();
  self->delayed_send(self, limits::conversation_upload_max, tick_atom_v);
  return {
    [self](attach_atom) { on_part(self); },
    [self](gone_atom) {
      if (self->state.about.conversation_id().empty())
        return finish(self, {grpc::StatusCode::INVALID_ARGUMENT, "the first part says for which conversation; there was none"});
      send_on(self, {}, true);
    },
    [self](tick_atom) {
      finish(self, {grpc::StatusCode::DEADLINE_EXCEEDED, "the attachment came too slowly; send it again"});
    },
  };
}

} // namespace

grpc::ServerWriteReactor<v1::BlobPart>* conversation_service::ReadBlob(grpc::CallbackServerContext* ctx, const v1::ReadBlobRequest* req) {
  return stream_when_admitted<blob_reactor>(
    service_, *ctx, domain::operation::ask, wrong_with(*req),
    [&](const claim& who, const std::shared_ptr<blob_reactor>& io) { service_.system.spawn(blob_reader, service_, who, *req, io); });
}

grpc::ServerReadReactor<v1::WriteBlobRequest>* conversation_service::WriteBlob(grpc::CallbackServerContext* ctx, v1::WriteBlobReply* reply) {
  return stream_when_admitted<upload_reactor>(
    service_, *ctx, domain::operation::execute, std::nullopt,
    [&](const claim& who, const std::shared_ptr<upload_reactor>& io) { service_.system.spawn(blob_writer_call, service_, who, reply, io); });
}

} // namespace swarm
