#include "gateway/mcp/member.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "gateway/mcp/rows.hpp"
#include "gateway/session/register.hpp"

namespace swarm::mcp {

namespace {

std::string or_variable(const host& process, std::string value, const char* name) {
  return value.empty() ? process.variable(name) : std::move(value);
}

v1::Command deregistration(const v1::Session& s) {
  v1::Command out;
  out.set_scope(s.scope());
  out.set_actor(s.id());
  out.mutable_deregister_session()->set_session_id(s.id());
  return out;
}

} // namespace

member::member(const host& process) : host_(process), connection_(process.connect({})) {}

member::~member() = default;

void member::connect(const std::string& token, host::start start) {
  std::shared_ptr<mcp::connection> fresh = host_.connect(token, start);
  std::lock_guard guard{mutex_};
  connection_.swap(fresh);
}

void member::renew() {
  auto b = bound();
  connect(b ? b->token : std::string{});
}

void member::cancel() {
  std::shared_ptr<mcp::connection> now;
  {
    std::lock_guard guard{mutex_};
    now = connection_;
  }
  now->cancel();
}

binding_ptr member::bound() const {
  std::lock_guard guard{mutex_};
  return bound_;
}

void member::set(binding_ptr b) {
  {
    std::lock_guard guard{mutex_};
    bound_ = b;
  }
  if (changed_)
    changed_(b);
}

v1::Command member::registering(const registration& r) const {
  auto directory = normalize_path(r.directory.empty() ? "." : r.directory, host_.working_directory());
  v1::Command command;
  *command.mutable_caller() = host_.caller();
  command.set_scope(resolve_scope(r.scope, directory));
  auto* body = command.mutable_register_session();
  body->set_directory(directory);
  body->set_root(git_root(directory));
  body->set_file_root(r.file_root.empty() ? directory : normalize_path(r.file_root, host_.working_directory()));
  body->set_label(std::string{trimmed(r.label)});
  body->set_adopt_session_id(r.adopt);
  return command;
}

/// Inside a worker its token says who calls, and its process keeps the session. Elsewhere the session gets a token of its own and ends with
/// this process.
v1::Reply member::send(v1::Command& command, std::string& token) {
  token = host_.variable("SWARM_TOKEN");
  if (token.empty()) {
    token = host_.new_token();
    command.mutable_register_session()->set_token_hash(sha256(from_hex(token)));
  }
  auto [pid, start] = host_.process();
  command.mutable_register_session()->set_pid(pid);
  command.mutable_register_session()->set_pid_start(start);
  // As the process, not as a session that is gone; the bound session stays so when it fails.
  auto before = bound();
  connect({});
  try {
    return register_in_its_scope(command, [&](const v1::Command& c) { return connection_->execute(c); });
  } catch (...) {
    connect(before ? before->token : std::string{});
    throw;
  }
}

void member::bind(v1::Reply registered, std::string token) {
  auto& session = *registered.mutable_session()->mutable_session();
  auto b = std::make_shared<binding>();
  auto [pid, start] = host_.process();
  b->ours = session.presence() == v1::Session::PROCESS && session.pid() == pid && session.pid_start() == start;
  b->session = std::move(session);
  b->token = std::move(token);
  b->since = registered.revision();
  b->note = registered.session().note();
  auto before = bound();
  connect(b->token);
  auto id = b->session.id();
  set(std::move(b));
  if (before && before->ours && before->session.id() != id)
    end_session(*before);
}

/// Of a binding that has ended: nobody would speak for the session, and it would live as long as this process.
void member::end_session(const binding& b) {
  try {
    host_.connect(b.token)->execute(deregistration(b.session));
  } catch (const call_failed& e) {
    host_.note(std::string{"the former session could not be ended: "} + e.what());
  }
}

void member::enroll(registration r) {
  r.scope = or_variable(host_, r.scope, "SWARM_MCP_SCOPE");
  auto command = registering(r);
  auto& body = *command.mutable_register_session();
  body.set_preassigned_id(host_.variable("SWARM_MCP_INSTANCE_ID"));
  host_.check_directories(body.label(), body.directory(), body.file_root());
  const auto wished = command;
  bool hooked = false;
  if (body.preassigned_id().empty() && body.adopt_session_id().empty()) {
    body.set_of_agent(true);
    const auto leased = leased_by_hooks(command.scope());
    if (const auto* found = of_this_agent(leased)) {
      body.set_adopt_session_id(found->id());
      body.set_directory(found->directory());
      hooked = true;
    }
  }
  std::string token;
  auto reply = send(command, token);
  // It was somebody else's, of another host for instance, where the numbers of processes mean others.
  if (hooked && reply.refusal().code() == v1::Refusal::CONFLICT) {
    command = wished;
    reply = send(command, token);
  }
  if (reply.has_refusal())
    throw std::runtime_error(reply.refusal().text());
  bind(std::move(reply), std::move(token));
}

bool member::adopt(registration r) {
  r.directory = or_variable(host_, r.directory, "SWARM_MCP_DIRECTORY");
  r.scope = or_variable(host_, r.scope, "SWARM_MCP_SCOPE");
  r.label = or_variable(host_, r.label, "SWARM_MCP_LABEL");
  return take_over(r);
}

bool member::take_over(const registration& r) {
  auto command = registering(r);
  command.mutable_register_session()->set_adopt_only(true);
  command.mutable_register_session()->set_of_agent(r.of_agent);
  std::string token;
  auto before = bound();
  auto reply = send(command, token);
  if (reply.has_refusal()) {
    if (before)
      connect(before->token);
    return false;
  }
  bind(std::move(reply), std::move(token));
  return true;
}

/// What hooks have registered in the scope and nobody has taken over yet.
std::vector<v1::Session> member::leased_by_hooks(const std::string& scope) {
  v1::Query query;
  *query.mutable_caller() = host_.caller();
  query.set_scope(scope);
  query.mutable_list_sessions()->set_label_contains("session:");
  auto out = all_sessions(*connection_, query);
  std::erase_if(out, [&](const auto& s) { return s.adopted() || s.lease_until_ms() <= host_.now_ms(); });
  return out;
}

/// The one of this agent, as far as this process can tell. Where the node knows below which agent it runs, that knows better.
const v1::Session* member::of_this_agent(const std::vector<v1::Session>& sessions) const {
  const v1::Session* found = nullptr;
  for (const auto& s : sessions)
    if (host_.is_agent(s.pid(), s.pid_start())) {
      if (found)
        return nullptr; // of several nobody can tell which is meant
      found = &s;
    }
  return found;
}

bool member::adopt_leased() {
  registration r;
  r.directory = host_.variable("SWARM_MCP_DIRECTORY");
  r.scope = host_.variable("SWARM_MCP_SCOPE");
  auto directory = normalize_path(r.directory.empty() ? "." : r.directory, host_.working_directory());
  auto hooked = leased_by_hooks(resolve_scope(r.scope, directory));
  // Nothing is asked of the node that it could only refuse: this comes before each call of a tool.
  r.of_agent = std::any_of(hooked.begin(), hooked.end(), [](const auto& s) { return !s.agent_root().empty(); });
  if (const auto* found = of_this_agent(hooked)) {
    r.directory = found->directory();
    r.scope = found->scope();
    r.adopt = found->id();
  }
  return (r.of_agent || !r.adopt.empty()) && take_over(r);
}

bool member::ensure() {
  if (bound())
    return true;
  try {
    if (!host_.variable("SWARM_MCP_INSTANCE_ID").empty()) {
      registration r;
      r.directory = host_.variable("SWARM_MCP_DIRECTORY");
      r.label = host_.variable("SWARM_MCP_LABEL");
      r.scope = host_.variable("SWARM_MCP_SCOPE");
      r.file_root = host_.variable("SWARM_MCP_FILE_ROOT");
      enroll(r);
      return true;
    }
    return adopt_leased();
  } catch (const call_failed&) {
    throw;
  } catch (const std::runtime_error& e) {
    host_.note(std::string{"cannot register: "} + e.what());
    return false;
  }
}

void member::forget() {
  if (!bound())
    return;
  connect({});
  set(nullptr);
}

void member::deregister() {
  auto b = bound();
  if (!b)
    return;
  auto reply = connection_->execute(deregistration(b->session));
  if (reply.has_refusal())
    throw std::runtime_error(reply.refusal().text());
  forget();
}

void member::leave() {
  auto b = bound();
  if (!b || !b->ours)
    return;
  try {
    // Nobody starts a node to tell it that he leaves.
    connect(b->token, host::start::never);
    std::mutex mutex;
    std::condition_variable left;
    bool over = false;
    // A node that does not answer sees that this process has ended.
    std::thread patience([&] {
      std::unique_lock lock{mutex};
      if (!left.wait_for(lock, limits::mcp_finish_deadline(), [&] { return over; }))
        cancel();
    });
    try {
      deregister();
    } catch (const std::exception&) {
      // It is away or stopping, and sees the same.
    }
    {
      std::lock_guard lock{mutex};
      over = true;
    }
    left.notify_one();
    patience.join();
  } catch (const std::exception&) {
    // There is no way to it.
  }
}

} // namespace swarm::mcp
