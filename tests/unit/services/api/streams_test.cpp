#include "tests/unit/services/service_world.hpp"

using namespace swarm;
using test::eventually;
using test::fabric_world;
using test::service_world;
using namespace std::chrono_literals;

namespace {

using watch_stream = std::unique_ptr<grpc::ClientReader<v1::WatchReply>>;

v1::WatchRequest from(std::uint64_t after) {
  v1::WatchRequest r;
  r.set_scope("s");
  r.set_after(after);
  return r;
}

/// Events until that many have come.
std::vector<v1::Event> take(grpc::ClientReader<v1::WatchReply>& in, std::size_t n, std::uint64_t* revision = nullptr) {
  std::vector<v1::Event> out;
  v1::WatchReply page;
  while (out.size() < n && in.Read(&page)) {
    out.insert(out.end(), page.events().begin(), page.events().end());
    if (revision)
      *revision = page.revision();
  }
  return out;
}

std::chrono::system_clock::time_point soon() { return std::chrono::system_clock::now() + 30s; }

} // namespace

TEST_CASE("replies on one stream come in the order of the requests") {
  service_world f;
  auto a = f.session(100);
  grpc::ClientContext ctx;
  ctx.set_deadline(soon());
  auto stream = f.coordination->Pipeline(&ctx);
  const std::uint64_t n = 400;
  std::thread writer{[&] {
    for (std::uint64_t i = 1; i <= n; ++i) {
      v1::ExecuteRequest r;
      r.mutable_id()->set_client("pipeline-client");
      r.mutable_id()->set_seq(i);
      // Some go through other actors than the rest, some are refused, some cannot even be asked.
      switch (i % 4) {
        case 0: *r.mutable_command() = fabric_world::acquire(a, "/repo/x", 1'000); break;
        case 1: *r.mutable_command() = fabric_world::set_kv("k", std::to_string(i)); break;
        case 2: *r.mutable_command() = fabric_world::release(a, "/repo/x"); break;
        default: r.mutable_id()->set_client("short"), *r.mutable_command() = fabric_world::set_kv("never", "v");
      }
      stream->Write(r);
    }
    stream->WritesDone();
  }};
  std::uint64_t seen = 0;
  v1::PipelineReply reply;
  while (stream->Read(&reply)) {
    ++seen;
    REQUIRE(reply.seq() == seen);
    CHECK((reply.status() != 0) == (seen % 4 == 3));
  }
  writer.join();
  CHECK(seen == n);
  CHECK(stream->Finish().ok());
  CHECK(eventually([&] { return f.is_idle(); }));
}

TEST_CASE("requests packed into messages are answered in order, in packed replies") {
  service_world f;
  grpc::ClientContext ctx;
  ctx.set_deadline(soon());
  auto stream = f.coordination->Pipeline(&ctx);
  const std::uint64_t n = 2'000;
  std::uint64_t next = 0;
  auto request = [&] {
    v1::ExecuteRequest r;
    r.mutable_id()->set_client(++next % 7 == 0 ? "short" : "pipeline-client");
    r.mutable_id()->set_seq(next);
    *r.mutable_command() = fabric_world::set_kv("k", std::to_string(next));
    return r;
  };
  std::thread writer{[&] {
    std::size_t size = 1;
    while (next < n) {
      auto message = request();
      while (next < n && static_cast<std::size_t>(message.more_size()) + 1 < std::min<std::size_t>(size, 256))
        *message.add_more() = request();
      stream->Write(message);
      size = size % 256 + 51;
    }
    stream->WritesDone();
  }};
  std::uint64_t seen = 0, messages = 0;
  v1::PipelineReply replies;
  auto look = [&](const v1::PipelineReply& reply) {
    REQUIRE(reply.seq() == ++seen);
    CHECK((reply.status() != 0) == (seen % 7 == 0));
  };
  while (stream->Read(&replies)) {
    ++messages;
    look(replies);
    for (const auto& further : replies.more())
      look(further);
  }
  writer.join();
  CHECK(seen == n);
  CHECK(messages < n / 2);
  CHECK(stream->Finish().ok());
}

TEST_CASE("a message with too many requests ends its stream, and a call takes one command") {
  service_world f;
  grpc::ClientContext ctx;
  ctx.set_deadline(soon());
  auto stream = f.coordination->Pipeline(&ctx);
  v1::ExecuteRequest message;
  for (int i = 0; i < 256; ++i)
    message.add_more();
  stream->Write(message);
  v1::PipelineReply reply;
  CHECK_FALSE(stream->Read(&reply));
  CHECK(stream->Finish().error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  auto one = f.request(fabric_world::set_kv("k", "v"));
  *one.add_more() = f.request(fabric_world::set_kv("l", "v"));
  v1::Reply answer;
  CHECK(f.execute(one, answer).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(eventually([&] { return f.is_idle(); }));
}

TEST_CASE("a client that does not read its replies is not read from any further") {
  service_world f;
  grpc::ClientContext ctx;
  auto stream = f.coordination->Pipeline(&ctx);
  const std::uint64_t n = 3'000;
  // Scope and key come back in every reply: 15 MB in all, far more than connections buffer.
  const std::string scope(limits::path_bytes_max(), 's'), key(limits::kv_key_bytes_max(), 'k');
  std::atomic<std::uint64_t> written{0};
  auto before = f.commands();
  std::thread writer{[&] {
    for (std::uint64_t i = 1; i <= n; ++i) {
      v1::ExecuteRequest r;
      r.mutable_id()->set_client("pipeline-client");
      r.mutable_id()->set_seq(i);
      *r.mutable_command() = fabric_world::set_kv(key, "v");
      r.mutable_command()->set_scope(scope);
      if (!stream->Write(r))
        return;
      ++written;
    }
    stream->WritesDone();
  }};
  REQUIRE(eventually([&] { return f.commands() - before >= limits::pipeline_outstanding_max(); }, 60s));
  // It had every opportunity to go on: other calls are served all the time.
  for (int i = 0; i < 1'000; ++i)
    f.run(fabric_world::set_kv("other", "v"));
  CHECK(f.commands() - before - 1'000 < n / 2);
  CHECK(written < n);
  std::uint64_t seen = 0;
  v1::PipelineReply reply;
  while (stream->Read(&reply))
    REQUIRE(reply.seq() == ++seen);
  writer.join();
  CHECK(seen == n);
  CHECK(stream->Finish().ok());
}

TEST_CASE("a watch shows what was, says that it has caught up, and goes on with what happens") {
  service_world f;
  for (int i = 0; i < 600; ++i)
    f.run(fabric_world::set_kv("k", std::to_string(i)));
  grpc::ClientContext ctx;
  ctx.set_deadline(soon());
  auto in = f.coordination->Watch(&ctx, from(0));
  auto past = take(*in, 600);
  REQUIRE(past.size() == 600);
  for (std::size_t i = 1; i < past.size(); ++i)
    REQUIRE(past[i].revision() == past[i - 1].revision() + 1);
  v1::WatchReply mark;
  REQUIRE(in->Read(&mark));
  CHECK(mark.events_size() == 0);
  CHECK(mark.revision() == past.back().revision());
  f.run(fabric_world::set_kv("k", "live"));
  auto live = take(*in, 1);
  REQUIRE(live.size() == 1);
  CHECK(live[0].revision() == past.back().revision() + 1);
  ctx.TryCancel();
  in->Finish();
  CHECK(eventually([&] { return f.is_idle(); }));
}

TEST_CASE("a watch resumed after the last revision seen has neither gaps nor repetitions") {
  service_world f;
  std::atomic<bool> over{false};
  std::thread busy{[&] {
    auto stub = v1::Coordination::NewStub(f.connect());
    for (std::uint64_t i = 1; !over; ++i) {
      v1::ExecuteRequest r;
      r.mutable_id()->set_client("busy-client");
      r.mutable_id()->set_seq(i);
      *r.mutable_command() = fabric_world::set_kv("k", std::to_string(i));
      grpc::ClientContext ctx;
      v1::Reply reply;
      stub->Execute(&ctx, r, &reply);
    }
  }};
  std::uint64_t last = 0;
  for (int round = 0; round < 20; ++round) {
    grpc::ClientContext ctx;
    ctx.set_deadline(soon());
    auto in = f.coordination->Watch(&ctx, from(last));
    for (const auto& e : take(*in, 40)) {
      if (last != 0)
        REQUIRE(e.revision() == last + 1);
      last = e.revision();
    }
    ctx.TryCancel();
    in->Finish();
  }
  over = true;
  busy.join();
  CHECK(last >= 800);
}

TEST_CASE("a watch from now shows nothing old, and filters hold for past and live events alike") {
  service_world f;
  auto a = f.session(100);
  f.run(fabric_world::set_kv("k", "old"));
  grpc::ClientContext now_ctx, locks_ctx;
  now_ctx.set_deadline(soon());
  locks_ctx.set_deadline(soon());
  auto now = from(0);
  now.set_from_now(true);
  auto in = f.coordination->Watch(&now_ctx, now);
  v1::WatchReply mark;
  REQUIRE(in->Read(&mark));
  CHECK(mark.events_size() == 0);
  auto only_locks = from(0);
  only_locks.add_types("context.");
  f.run(fabric_world::acquire(a, "/repo/x"));
  auto locks = f.coordination->Watch(&locks_ctx, only_locks);
  auto seen = take(*locks, 1);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].subject() == "/repo/x");
  f.run(fabric_world::set_kv("k", "new"));
  f.run(fabric_world::release(a, "/repo/x"));
  seen = take(*locks, 1);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].type() == "context.lock_released");
  auto live = take(*in, 3);
  REQUIRE(live.size() == 3);
  CHECK(live[0].type() == "context.lock_acquired");
  CHECK(live[1].type() == "kv.set");
}

TEST_CASE("a position that is no longer kept ends the watch with OUT_OF_RANGE") {
  service_world f;
  for (int i = 0; i < 5; ++i)
    f.run(fabric_world::set_kv("k", std::to_string(i)));
  f.clock.ahead_ms = (limits::row_retention() + limits::minutes{1}).count();
  caf::scoped_actor me{f.sys};
  auto sweep = internal_command(*f.node, "s", [](v1::Command& c) { c.mutable_sweep()->set_mode("manual"); });
  std::uint32_t deleted = 0;
  me->request(f.board->get().writer, 10s, sweep).receive([&](const reply_ptr& r) { deleted = r->sweep().events_deleted(); }, [](caf::error&) {});
  REQUIRE(deleted >= 5);
  for (int i = 0; i < 3; ++i)
    f.run(fabric_world::set_kv("k", "after " + std::to_string(i)));
  grpc::ClientContext ctx;
  ctx.set_deadline(soon());
  auto in = f.coordination->Watch(&ctx, from(2));
  v1::WatchReply page;
  while (in->Read(&page)) {
  }
  CHECK(in->Finish().error_code() == grpc::StatusCode::OUT_OF_RANGE);
  // From the start of what is kept it works.
  grpc::ClientContext again;
  again.set_deadline(soon());
  auto rest = f.coordination->Watch(&again, from(0));
  // The three new ones, after the event of the sweep itself.
  CHECK(take(*rest, 4).size() == 4);
}

TEST_CASE("the operator follows approvals of all scopes from now on, and a session is refused") {
  service_world f;
  auto token = random_bytes(32);
  auto c = fabric_world::command();
  auto& r = *c.mutable_register_session();
  r.set_directory("/repo");
  r.set_root("/repo");
  r.set_pid(100);
  r.set_pid_start(100);
  r.set_token_hash(sha256(token));
  f.run(c);
  grpc::ClientContext of_session;
  of_session.set_deadline(soon());
  of_session.AddMetadata(token_metadata, to_hex(token));
  auto refused = f.coordination->Watch(&of_session, {});
  v1::WatchReply page;
  CHECK_FALSE(refused->Read(&page));
  CHECK(refused->Finish().error_code() == grpc::StatusCode::PERMISSION_DENIED);

  auto ask_in = [&](const std::string& scope) {
    auto asked = fabric_world::command();
    asked.set_scope(scope);
    asked.mutable_request_approval()->set_subject("task/x");
    f.run(asked);
  };
  ask_in("before");
  grpc::ClientContext ctx;
  ctx.set_deadline(soon());
  auto in = f.coordination->Watch(&ctx, {});
  REQUIRE(in->Read(&page));
  CHECK(page.events().empty());
  const auto begin = page.revision();
  ask_in("one");
  ask_in("two");
  const auto told = take(*in, 2);
  REQUIRE(told.size() == 2);
  CHECK(told[0].scope() == "one");
  CHECK(told[1].scope() == "two");
  ctx.TryCancel();
  in->Finish();
  // From a place in the feed; and a place that this node has not given is no place.
  grpc::ClientContext again;
  again.set_deadline(soon());
  v1::WatchRequest later;
  later.set_after(begin + 1);
  auto rest = f.coordination->Watch(&again, later);
  const auto second = take(*rest, 1);
  REQUIRE(second.size() == 1);
  CHECK(second[0].scope() == "two");
  later.set_after(1);
  grpc::ClientContext old;
  old.set_deadline(soon());
  auto lost = f.coordination->Watch(&old, later);
  while (lost->Read(&page)) {
  }
  CHECK(lost->Finish().error_code() == grpc::StatusCode::OUT_OF_RANGE);
}

TEST_CASE("watches that make no sense are refused") {
  service_world f;
  auto code = [&](const v1::WatchRequest& r) {
    grpc::ClientContext ctx;
    ctx.set_deadline(soon());
    auto in = f.coordination->Watch(&ctx, r);
    v1::WatchReply page;
    while (in->Read(&page)) {
    }
    return in->Finish().error_code();
  };
  v1::WatchRequest of_no_scope;
  of_no_scope.set_subscription("of a scope");
  CHECK(code(of_no_scope) == grpc::StatusCode::INVALID_ARGUMENT);
  auto many = from(0);
  for (int i = 0; i < 33; ++i)
    many.add_types("t");
  CHECK(code(many) == grpc::StatusCode::INVALID_ARGUMENT);
  auto unknown = from(0);
  unknown.set_subscription("nobody's");
  CHECK(code(unknown) == grpc::StatusCode::NOT_FOUND);
}

TEST_CASE("a session attached by a stream ends with it, however the client goes") {
  service_world f;
  auto c = fabric_world::command();
  c.mutable_register_session()->set_directory("/repo");
  c.mutable_register_session()->set_root("/repo");
  c.mutable_register_session()->set_attached(true);
  auto id = f.run(c).session().session().id();
  auto is_there = [&] {
    auto q = fabric_world::query();
    q.mutable_list_sessions();
    auto a = f.ask(q);
    return std::any_of(a.sessions().sessions().begin(), a.sessions().sessions().end(), [&](const auto& s) { return s.id() == id; });
  };
  v1::AttachRequest r;
  r.set_scope("s");
  r.set_session_id(id);
  auto own = f.connect();
  auto stub = v1::Coordination::NewStub(own);
  auto ctx = std::make_unique<grpc::ClientContext>();
  auto in = stub->Attach(ctx.get(), r);
  v1::AttachReply hello;
  REQUIRE(in->Read(&hello));
  CHECK(hello.attached());
  CHECK(is_there());
  ctx->TryCancel();
  in->Finish();
  CHECK(eventually([&] { return !is_there(); }));
  CHECK(eventually([&] { return f.is_idle(); }));
}

TEST_CASE("the server stops in time although streams are open, and their clients hear of it") {
  service_world f;
  auto a = f.session(100);
  grpc::ClientContext watch_ctx, pipe_ctx, attach_ctx;
  auto watch = f.coordination->Watch(&watch_ctx, from(0));
  auto pipe = f.coordination->Pipeline(&pipe_ctx);
  v1::AttachRequest r;
  r.set_scope("s");
  r.set_session_id(a);
  auto attach = f.coordination->Attach(&attach_ctx, r);
  v1::AttachReply hello;
  REQUIRE(attach->Read(&hello));
  v1::WatchReply page;
  REQUIRE(watch->Read(&page));
  REQUIRE(eventually([&] { return f.in_flight() == 4; }));
  auto start = std::chrono::steady_clock::now();
  f.server->stop(200ms);
  CHECK(std::chrono::steady_clock::now() - start < 10s);
  while (watch->Read(&page)) {
  }
  CHECK_FALSE(watch->Finish().ok());
  v1::PipelineReply reply;
  CHECK_FALSE(pipe->Read(&reply));
  CHECK_FALSE(pipe->Finish().ok());
  CHECK_FALSE(attach->Read(&hello));
  CHECK_FALSE(attach->Finish().ok());
}

TEST_CASE("a terminal is made, typed into, followed and ended over gRPC") {
  service_world f;
  v1::CreatePtyRequest create;
  create.mutable_id()->set_client("pty-client");
  create.mutable_id()->set_seq(1);
  create.set_scope("s");
  create.set_directory("/");
  create.add_argv("/bin/sh");
  grpc::ClientContext c1, c2, c3, c4, c5;
  v1::PtyInfo info, again;
  auto made = f.ptys->Create(&c1, create, &info);
  REQUIRE_MESSAGE(made.ok(), made.error_message());
  CHECK(info.running());
  c2.set_deadline(soon());
  REQUIRE(f.ptys->Create(&c2, create, &again).ok()); // repeated: the same terminal, at once
  CHECK(again.id() == info.id());
  v1::SendPtyRequest send;
  send.set_pty_id(info.id());
  send.set_data("ls\n");
  v1::SendPtyReply sent;
  REQUIRE(f.ptys->Send(&c3, send, &sent).ok());
  CHECK(sent.accepted() == 3);
  v1::ReadPtyRequest read;
  read.set_id(info.id());
  read.set_follow(true);
  c4.set_deadline(soon());
  auto out = f.ptys->Read(&c4, read);
  f.keeper.print(info.id(), "one ");
  v1::PtyChunk chunk;
  REQUIRE(out->Read(&chunk));
  CHECK(chunk.data() == "one ");
  f.keeper.print(info.id(), "two");
  f.keeper.exit(info.id(), 3);
  std::string rest;
  while (out->Read(&chunk))
    rest += chunk.data();
  CHECK(rest == "two");
  CHECK(chunk.ended());
  CHECK(chunk.exit_status() == 3);
  CHECK(out->Finish().ok());
  read.set_id("no-such-terminal");
  auto none = f.ptys->Read(&c5, read);
  CHECK_FALSE(none->Read(&chunk));
  CHECK(none->Finish().error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(eventually([&] { return f.is_idle(); }));
}

TEST_CASE("a session's right to a terminal ends with the session, also on a stream that is open") {
  service_world f;
  auto token = random_bytes(32);
  auto c = fabric_world::command();
  auto& r = *c.mutable_register_session();
  r.set_directory("/repo");
  r.set_root("/repo");
  r.set_pid(100);
  r.set_pid_start(100);
  r.set_token_hash(sha256(token));
  r.add_grants("pty");
  auto id = f.run(c).session().session().id();
  v1::CreatePtyRequest create;
  create.mutable_id()->set_client("pty-client");
  create.mutable_id()->set_seq(1);
  create.set_scope("s");
  create.set_directory("/");
  create.add_argv("/bin/sh");
  v1::PtyInfo info;
  {
    grpc::ClientContext ctx;
    REQUIRE(f.ptys->Create(&ctx, create, &info).ok());
  }
  auto context = [&] {
    auto out = std::make_unique<grpc::ClientContext>();
    out->set_deadline(soon());
    out->AddMetadata(token_metadata, to_hex(token));
    return out;
  };
  v1::ReadPtyRequest read;
  read.set_id(info.id());
  read.set_follow(true);
  auto follows = context(), watches = context();
  auto out = f.ptys->Read(follows.get(), read);
  f.keeper.print(info.id(), "one ");
  v1::PtyChunk chunk;
  REQUIRE(out->Read(&chunk));
  auto watch = f.coordination->Watch(watches.get(), from(0));
  v1::WatchReply page;
  REQUIRE(watch->Read(&page));
  auto send = [&] {
    v1::SendPtyRequest keys;
    keys.set_pty_id(info.id());
    keys.set_data("x");
    v1::SendPtyReply sent;
    auto ctx = context();
    return f.ptys->Send(ctx.get(), keys, &sent);
  };
  REQUIRE(send().ok());
  auto leave = fabric_world::command(id);
  leave.mutable_deregister_session()->set_session_id(id);
  auto began = std::chrono::steady_clock::now();
  f.run(leave);
  while (out->Read(&chunk)) {
  }
  CHECK(out->Finish().error_code() == grpc::StatusCode::UNAVAILABLE);
  while (watch->Read(&page)) {
  }
  CHECK(watch->Finish().error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(send().error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(std::chrono::steady_clock::now() - began < limits::resolved_token_age);
  f.keeper.print(info.id(), "secret");
  auto again = context();
  auto refused = f.ptys->Read(again.get(), read);
  CHECK_FALSE(refused->Read(&chunk));
  CHECK(refused->Finish().error_code() == grpc::StatusCode::UNAUTHENTICATED);
}

TEST_CASE("a right that was given for a time ends then, also on a stream that is open and for a token that is remembered") {
  service_world f;
  auto token = random_bytes(32);
  auto c = fabric_world::command();
  auto& r = *c.mutable_register_session();
  r.set_directory("/repo");
  r.set_root("/repo");
  r.set_pid(100);
  r.set_pid_start(100);
  r.set_token_hash(sha256(token));
  r.add_grants("pty");
  auto& time = *r.add_grant_times();
  time.set_grant("pty");
  time.set_for_ms(3'600'000);
  REQUIRE(f.run(c).session().session().grant_ends_size() == 1);
  v1::CreatePtyRequest create;
  create.mutable_id()->set_client("pty-client");
  create.mutable_id()->set_seq(1);
  create.set_scope("s");
  create.set_directory("/");
  create.add_argv("/bin/sh");
  v1::PtyInfo info;
  {
    grpc::ClientContext ctx;
    REQUIRE(f.ptys->Create(&ctx, create, &info).ok());
  }
  auto context = [&] {
    auto out = std::make_unique<grpc::ClientContext>();
    out->set_deadline(soon());
    out->AddMetadata(token_metadata, to_hex(token));
    return out;
  };
  v1::ReadPtyRequest read;
  read.set_id(info.id());
  read.set_follow(true);
  auto follows = context();
  auto out = f.ptys->Read(follows.get(), read);
  f.keeper.print(info.id(), "one ");
  v1::PtyChunk chunk;
  REQUIRE(out->Read(&chunk));
  f.clock.ahead_ms += 3'600'000;
  f.keeper.print(info.id(), "secret");
  while (out->Read(&chunk))
    CHECK(chunk.data().find("secret") == std::string::npos);
  CHECK(out->Finish().error_code() == grpc::StatusCode::UNAVAILABLE);
  auto asks = [&] {
    auto again = context();
    auto refused = f.ptys->Read(again.get(), read);
    CHECK_FALSE(refused->Read(&chunk));
    return refused->Finish();
  };
  // The token may be remembered for some seconds more: by its own clock.
  CHECK(eventually([&] { return asks().error_code() == grpc::StatusCode::PERMISSION_DENIED; }));
  CHECK(asks().error_message().find("--grant pty") != std::string::npos);
}

TEST_CASE("input with a fence is typed only while the worker works under that claim") {
  service_world f;
  auto order = fabric_world::dispatch("talk");
  order.mutable_dispatch()->set_directory("/");
  auto made = f.run(order).dispatch();
  REQUIRE(eventually([&] { return f.keeper.runs(made.spawn().id()); }));
  auto task = [&] {
    auto q = fabric_world::query();
    q.mutable_get_task()->set_task_id(made.task().id());
    return f.ask(q).task();
  };
  REQUIRE(eventually([&] { return task().status() == v1::IN_PROGRESS; }));
  auto fence = task().fence();
  REQUIRE(fence != 0);
  auto type = [&](std::uint64_t with) {
    v1::SendPtyRequest send;
    send.set_pty_id(made.spawn().id());
    send.set_data("x");
    send.set_fence(with);
    grpc::ClientContext ctx;
    v1::SendPtyReply sent;
    return f.ptys->Send(&ctx, send, &sent);
  };
  CHECK(type(0).ok());
  CHECK(type(fence).ok());
  auto stale = type(fence + 1);
  CHECK(stale.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK(stale.error_message().find("claim") != std::string::npos);
  // Somebody ends the task; the program, which has not heard of it yet, is not told anything in its name.
  auto cancel = fabric_world::command();
  cancel.mutable_update_task()->set_task_id(made.task().id());
  cancel.mutable_update_task()->set_status(v1::CANCELLED);
  REQUIRE_FALSE(f.run(cancel).has_refusal());
  CHECK_FALSE(type(fence).ok());
}

TEST_CASE("the environment of a call is filtered before it reaches a worker") {
  service_world f;
  auto r = f.request(fabric_world::dispatch("env"));
  r.mutable_command()->mutable_dispatch()->set_directory("/");
  auto add = [&](const std::string& name, const std::string& value) {
    auto* v = r.add_environment();
    v->set_name(name);
    v->set_value(value);
  };
  add("PATH", "/usr/bin");
  add("LD_PRELOAD", "/tmp/evil.so");
  add("AWS_SECRET_ACCESS_KEY", "hunter2");
  add("SWARM_TOKEN", "stolen");
  add("LC_ALL", "C");
  add("SWARM_X=Y", "z");
  v1::Reply reply;
  REQUIRE(f.execute(r, reply).ok());
  REQUIRE_FALSE(reply.has_refusal());
  auto id = reply.dispatch().spawn().id();
  REQUIRE(eventually([&] { return f.keeper.runs(id); }));
  std::lock_guard guard{f.keeper.mutex};
  std::string all;
  for (const auto& v : f.keeper.find(id)->request.environment())
    all += v + "\n";
  CHECK(all.find("/usr/bin") != std::string::npos);
  for (const auto* secret : {"LD_PRELOAD", "hunter2", "stolen", "SWARM_X=Y"})
    CHECK(all.find(secret) == std::string::npos);
}
