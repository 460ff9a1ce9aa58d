// The requests that are no commands: terminals, watch, wait, attach. What is let in is within the contract's bounds, and the command and
// the query made from it are decided and answered like any other.
#include "actors/base/environment.hpp"
#include "actors/base/limits.hpp"
#include "services/call/requests.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

bool is_id(const std::string& id) { return id.size() <= limits::id_bytes_max && id.find('\0') == id.npos; }
bool is_path(const std::string& path) { return path.size() <= limits::path_bytes_max() && path.find('\0') == path.npos; }
bool is_scope(const std::string& scope) { return !scope.empty() && is_path(scope); }

bool in_bounds(const v1::WatchRequest& m) {
  const bool is_placed = is_scope(m.scope()) || (m.scope().empty() && m.subscription().empty());
  if (!is_placed || !is_path(m.subject()) || !is_id(m.subscription()) || m.types_size() > 32)
    return false;
  return std::all_of(m.types().begin(), m.types().end(), is_id);
}
bool in_bounds(const v1::WaitRequest& m) {
  return is_scope(m.scope()) && !m.session_id().empty() && is_id(m.session_id()) && !domain::check_bounds(m.caller()) && is_id(m.id().client());
}
bool in_bounds(const v1::AttachRequest& m) { return is_scope(m.scope()) && !m.session_id().empty() && is_id(m.session_id()); }
bool in_bounds(const v1::CreatePtyRequest& m) {
  return !m.scope().empty() && m.scope().size() <= limits::path_bytes_max() && m.name().size() <= limits::id_bytes_max &&
         m.identity().size() <= limits::id_bytes_max;
}
bool in_bounds(const v1::ListPtysRequest& m) { return is_path(m.scope()) && m.page().token().size() <= 8 * limits::kib; }
bool in_bounds(const v1::ReadPtyRequest& m) { return is_id(m.id()); }
bool in_bounds(const v1::SendPtyRequest& m) { return is_id(m.pty_id()) && is_id(m.id().client()) && m.data().size() <= limits::pty_input_bytes_max; }
bool in_bounds(const v1::ResizePtyRequest& m) { return is_id(m.pty_id()); }
bool in_bounds(const v1::KillPtyRequest& m) { return is_id(m.pty_id()); }
bool in_bounds(const v1::ForgetPtyRequest& m) { return is_id(m.pty_id()); }
bool in_bounds(const v1::AttachFrame& m) { return is_id(m.pty_id()) && m.input().size() <= limits::pty_input_bytes_max; }

const fuzz::populated& world() {
  static const fuzz::populated w;
  return w;
}

template <class Request>
void go_on(const Request&) {}

/// As the watch does: an accepted one never fails on the query it asks.
void go_on(const v1::WatchRequest& m) {
  if (m.scope().empty())
    return; // the feed is asked of the hub alone
  v1::Query q;
  q.set_scope(m.scope());
  q.mutable_principal()->set_kind(v1::Principal::OPERATOR);
  *q.mutable_list_events()->mutable_types() = m.types();
  q.mutable_list_events()->set_subject(m.subject());
  q.mutable_list_events()->set_after(m.after());
  SWARM_HOLDS(!domain::validate(q));
  SWARM_HOLDS(!domain::answer(q, world().rows, world().in).has_refusal());
}

void go_on(const v1::CreatePtyRequest& m) {
  auto req = spawn_request(m);
  auto cmd = req.command();
  cmd.mutable_principal()->set_kind(v1::Principal::OPERATOR);
  auto wrong = domain::validate(cmd);
  auto w = world();
  auto batch = domain::decide(cmd, w.rows, w.in);
  SWARM_HOLDS(!wrong || batch.reply().has_refusal());
  w.rows.apply(batch);
  auto environment = worker_environment(req.environment(), req.command().dispatch().harness());
  if (!environment)
    return;
  std::size_t bytes = 0;
  for (const auto& v : *environment) {
    auto equals = v.find('=');
    auto name = v.substr(0, equals);
    SWARM_HOLDS(equals != v.npos && !name.empty() && (inheritable(name) || !name.starts_with("SWARM_")));
    SWARM_HOLDS(v.find('\0') == v.npos);
    bytes += v.size() - 1;
  }
  SWARM_HOLDS(bytes <= limits::environment_bytes_max());
}

template <class Request>
void check(const std::string& bytes, std::size_t more) {
  Request m;
  if (!m.ParseFromString(bytes))
    return;
  // The fuzzer's inputs are short; the bounds are not.
  const auto* r = m.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  r->ListFields(m, &fields);
  if (more > 0 && !fields.empty()) {
    const auto* f = fields[more % fields.size()];
    if (f->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING && !f->is_repeated())
      r->SetString(&m, f, r->GetString(m, f) + std::string(more, 'x'));
  }
  auto wrong = wrong_with(m);
  SWARM_HOLDS(wrong.has_value() == !in_bounds(m));
  SWARM_HOLDS(!wrong || !wrong->empty());
  Request again;
  SWARM_HOLDS(again.ParseFromString(m.SerializeAsString()));
  SWARM_HOLDS(wrong_with(again) == wrong);
  if (!wrong)
    go_on(m);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  auto which = in.byte();
  auto more = static_cast<std::size_t>(in.byte()) | static_cast<std::size_t>(in.byte()) << 8 | static_cast<std::size_t>(in.byte() % 4) << 16;
  auto bytes = in.rest();
  switch (which % 11) {
    case 0: check<v1::WatchRequest>(bytes, more); break;
    case 1: check<v1::WaitRequest>(bytes, more); break;
    case 2: check<v1::AttachRequest>(bytes, more); break;
    case 3: check<v1::CreatePtyRequest>(bytes, more); break;
    case 4: check<v1::ListPtysRequest>(bytes, more); break;
    case 5: check<v1::ReadPtyRequest>(bytes, more); break;
    case 6: check<v1::SendPtyRequest>(bytes, more); break;
    case 7: check<v1::ResizePtyRequest>(bytes, more); break;
    case 8: check<v1::KillPtyRequest>(bytes, more); break;
    case 10: check<v1::ForgetPtyRequest>(bytes, more); break;
    default: check<v1::AttachFrame>(bytes, more); break;
  }
  return 0;
}
