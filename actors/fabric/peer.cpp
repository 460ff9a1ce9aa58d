#include "actors/fabric/peer.hpp"

#include <algorithm>

#include <caf/send.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/base/limits.hpp"
#include "actors/domain/decide.hpp"
#include "actors/fabric/placement.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/ending.hpp"
#include "actors/runtime/error_text.hpp"
#include "actors/runtime/tree.hpp"

namespace swarm {

peer_state::~peer_state() {
  for (const auto& [id, asked_of_us] : jobs)
    if (asked_of_us.helper)
      runtime::ask_to_end(asked_of_us.helper);
  if (connection)
    connection->close();
}

bool concerns(const v1::Batch& batch, const std::string& node_id) {
  return std::any_of(batch.patches().begin(), batch.patches().end(), [&](const v1::RowPatch& p) {
    if (p.has_session())
      return p.session().node_id() == node_id;
    if (p.has_spawn())
      return p.spawn().node_id() == node_id;
    if (p.has_task())
      return p.task().status() == v1::CANCELLED; // a worker there may be busy with it
    return p.has_erased() && (p.erased().table() == v1::Erased::SESSIONS || p.erased().table() == v1::Erased::CREDENTIALS);
  });
}

namespace {

using self_ptr = peer_actor::stateful_pointer<peer_state>;
using runtime::link_time;

std::int64_t boot_ms(self_ptr self) { return self->state.node->clock->boot_ms(); }
link_time link_now(self_ptr self) { return std::chrono::milliseconds{boot_ms(self)}; }

bool is_up(self_ptr self) { return self->state.connection && self->state.link->up(); }

const std::string& name_of(self_ptr self) {
  const auto& st = self->state;
  return st.address.node_name().empty() ? st.address.node_id() : st.address.node_name();
}

// -- writing -------------------------------------------------------------------------------

void arm(self_ptr self) {
  auto& st = self->state;
  auto now = boot_ms(self);
  auto at = st.due.next();
  auto sooner = [&](std::int64_t ms) { at = at ? std::min(*at, ms) : ms; };
  if (auto next = st.link->next_deadline())
    sooner(std::chrono::ceil<std::chrono::milliseconds>(*next).count());
  if (st.redial_at_ms != 0)
    sooner(st.redial_at_ms);
  if (st.gone_at_ms != 0)
    sooner(st.gone_at_ms);
  st.timer.arm(self, now, at);
}

void pump(self_ptr self);

/// Nothing: it is on its way, now or when the link is back.
std::optional<errc> send(self_ptr self, v1::LinkMessage m) { return self->state.link->send(std::make_shared<const v1::LinkMessage>(std::move(m))); }

// -- what we ask ---------------------------------------------------------------------------

std::optional<errc> put_question(self_ptr self, std::uint64_t id, const peer_state::question& q) {
  v1::LinkMessage m;
  *m.mutable_request() = *q.request;
  m.mutable_request()->set_id(id);
  m.mutable_request()->set_timeout_ms(std::max<std::int64_t>(q.deadline_ms - boot_ms(self), 1));
  return send(self, std::move(m));
}

void put_waiting(self_ptr self) {
  for (auto& [id, q] : self->state.asked)
    if (!q.put)
      q.put = !put_question(self, id, q);
}

void take_back(self_ptr self, std::uint64_t id) {
  v1::LinkMessage m;
  m.mutable_cancel()->set_id(id);
  send(self, std::move(m)); // one that does not go out is answered for nobody
}

/// What was put and not answered may have happened, or may happen yet.
caf::error not_reached(self_ptr self, const peer_state::question& q) {
  const auto& st = self->state;
  if (q.put && q.request->has_execute())
    return fail(errc::unknown_outcome);
  return fail(errc::unavailable, st.last_failure.empty() ? fmt::format("the node {} did not answer in time", name_of(self))
                                                         : fmt::format("the node {} is not reached: {}", name_of(self), st.last_failure));
}

caf::result<link_response_ptr> ask(self_ptr self, const link_request_ptr& request) {
  auto& st = self->state;
  if (st.revoked)
    return fail(errc::unavailable, fmt::format("the certificate of the node {} has been revoked", name_of(self)));
  if (st.asked.size() >= limits::link_requests_max())
    return fail(errc::overloaded, fmt::format("too many requests wait for the node {}", name_of(self)));
  auto deadline = boot_ms(self) + std::max<std::int64_t>(request->timeout_ms(), 1);
  auto promise = self->make_response_promise<link_response_ptr>();
  auto id = st.next_id++;
  auto& q = st.asked.emplace(id, peer_state::question{request, deadline, runtime::parked<link_response_ptr>{promise}}).first->second;
  // While the link is down nothing piles up in it: what is not wanted any more when it comes back is never put.
  if (is_up(self)) {
    if (auto refused = put_question(self, id, q)) {
      q.answer.answer(fail(*refused, fmt::format("too much waits for the node {}", name_of(self))));
      st.asked.erase(id);
      return promise;
    }
    q.put = true;
  }
  st.due.set(id, deadline);
  pump(self);
  return promise;
}

void end_overdue(self_ptr self) {
  auto& st = self->state;
  while (auto id = st.due.take_due(boot_ms(self))) {
    auto q = st.asked.extract(*id);
    if (q.empty())
      continue;
    q.mapped().answer.answer(not_reached(self, q.mapped()));
    if (q.mapped().put)
      take_back(self, *id);
  }
}

void take_answer(self_ptr self, const v1::LinkResponse& r) {
  auto& st = self->state;
  auto q = st.asked.extract(r.id());
  if (q.empty())
    return; // nobody waits any more, or it was asked twice
  st.due.cancel(r.id());
  q.mapped().answer.answer(std::make_shared<const v1::LinkResponse>(r));
}

// -- what we are asked ---------------------------------------------------------------------

template <class Fill>
void answer(self_ptr self, std::uint64_t epoch, std::uint64_t id, Fill fill) {
  auto& st = self->state;
  if (epoch != st.epoch)
    return;
  auto job = st.jobs.extract(id);
  if (job.empty())
    return;
  st.link->consumed(job.mapped().cost);
  if (job.mapped().helper)
    runtime::ask_to_end(job.mapped().helper);
  v1::LinkMessage m;
  m.mutable_response()->set_id(id);
  fill(*m.mutable_response());
  if (send(self, m)) {
    // Too much waits already, or it is too large: this at least is short.
    auto* e = m.mutable_response()->mutable_error();
    e->set_code(static_cast<std::uint32_t>(errc::overloaded));
    e->set_text("the answer finds no room on the link");
    if (send(self, std::move(m)))
      st.link->forget(); // the other node asks again
  }
  pump(self);
}

auto as_error(errc code, std::string text) {
  return [code, text = std::move(text)](v1::LinkResponse& r) {
    r.mutable_error()->set_code(static_cast<std::uint32_t>(code));
    r.mutable_error()->set_text(text);
  };
}

/// The answer's continuation for whatever was asked of an actor here.
template <class T, class Put>
auto then_answer(self_ptr self, std::uint64_t id, Put put) {
  return [self, epoch = self->state.epoch, id, put](const T& value) { answer(self, epoch, id, [&](v1::LinkResponse& r) { put(r, value); }); };
}
auto else_error(self_ptr self, std::uint64_t id) {
  return [self, epoch = self->state.epoch, id](caf::error& e) {
    // The actor asked has ended in the middle of it, or did not answer in time: it may have happened.
    auto code = e.category() == caf::detail::error_factory<errc>::category ? static_cast<errc>(e.code()) : errc::unknown_outcome;
    answer(self, epoch, id, as_error(code, runtime::error_text(e)));
  };
}

/// Asks in an actor of its own, which whoever is asked can watch: when nobody there waits any more, it ends, and its place with it.
template <class Reply, class Target, class Request>
auto ask_by_helper(self_ptr self, std::uint64_t id, const Target& target, std::chrono::milliseconds patience, const Request& request) {
  auto helper = self->home_system().spawn([target, patience](caf::event_based_actor* h) -> caf::behavior {
    runtime::install_defaults(h);
    return {[h, target, patience](const Request& r) -> caf::result<Reply> {
      auto promise = h->make_response_promise<Reply>();
      auto kept = std::make_shared<runtime::parked<Reply>>(promise);
      h->request(target, 2 * patience, r)
        .then([kept](const Reply& value) { kept->answer(value); }, [kept](caf::error& e) { kept->answer(std::move(e)); });
      return promise;
    }};
  });
  self->state.jobs[id].helper = helper;
  return self->request(helper, patience, request);
}

/// What the other node says of who asks is believed as far as it can be so: its operator, its own sessions, itself.
bool take_principal(self_ptr self, v1::Principal& who) {
  const auto& id = self->state.address.node_id();
  if (who.kind() == v1::Principal::NODE && who.id() != id)
    return false;
  who.set_node(id);
  return who.kind() != v1::Principal::KIND_UNSPECIFIED;
}

/// Only what is shared is open to other nodes, and only its home answers for it.
bool is_home_of(self_ptr self, const std::string& scope) {
  auto* cluster = self->state.node->cluster;
  return cluster && cluster->is_shared(scope) && cluster->home_of(scope).empty();
}

auto not_home(const std::string& scope) {
  return as_error(errc::not_found, fmt::format("the scope {} is not shared, or this node is not its home", scope));
}

void execute(self_ptr self, std::uint64_t id, const v1::ExecuteRequest& asked, std::chrono::milliseconds patience) {
  auto& st = self->state;
  auto refuse = [&](auto fill) { answer(self, st.epoch, id, std::move(fill)); };
  if (!is_home_of(self, asked.command().scope()))
    return refuse(not_home(asked.command().scope()));
  if (asked.command().ByteSizeLong() > limits::command_encoded_bytes_max || asked.id().client().size() > limits::request_client_bytes_max)
    return refuse(as_error(errc::invalid, "the command is larger than 256 KiB"));
  auto what = std::make_shared<execution>();
  what->id = asked.id();
  what->command = asked.command();
  auto& cmd = what->command;
  if (!take_principal(self, *cmd.mutable_principal()))
    return refuse(as_error(errc::forbidden, "a node speaks for itself and for its own sessions only"));
  if (cmd.has_register_session())
    cmd.mutable_register_session()->set_node_id(st.address.node_id());
  what->digest = domain::digest_of(cmd);
  if (auto refusal = place(cmd, st.node->cluster->view(), st.address.node_id()))
    return refuse([&](v1::LinkResponse& r) { *r.mutable_reply()->mutable_refusal() = *refusal; });
  what->valid = !domain::validate(cmd);
  auto c = std::make_shared<call>();
  c->what = what;
  st.jobs[id].call = c;
  self->request(st.front, patience, call_ptr{c})
    .then(then_answer<reply_ptr>(self, id, [](v1::LinkResponse& r, const reply_ptr& reply) { *r.mutable_reply() = *reply; }), else_error(self, id));
}

void query(self_ptr self, std::uint64_t id, const v1::Query& asked, std::chrono::milliseconds patience) {
  auto& st = self->state;
  auto q = std::make_shared<v1::Query>(asked);
  if (!domain::about_the_node(*q) && !is_home_of(self, q->scope()))
    return answer(self, st.epoch, id, not_home(q->scope()));
  if (!take_principal(self, *q->mutable_principal()))
    return answer(self, st.epoch, id, as_error(errc::forbidden, "a node speaks for itself and for its own sessions only"));
  self->request(st.front, patience, query_ptr{q})
    .then(then_answer<answer_ptr>(self, id, [](v1::LinkResponse& r, const answer_ptr& a) { *r.mutable_answer_to_query() = *a; }),
          else_error(self, id));
}

/// A session's mail is for its own node only, which the same rule decides as for its queries.
void wait(self_ptr self, std::uint64_t id, const v1::WaitRequest& asked, std::chrono::milliseconds patience) {
  auto& st = self->state;
  if (!is_home_of(self, asked.scope()))
    return answer(self, st.epoch, id, not_home(asked.scope()));
  if (auto wrong = domain::check_bounds(asked))
    return answer(self, st.epoch, id, as_error(errc::invalid, wrong->text()));
  auto q = std::make_shared<v1::Query>();
  q->set_scope(asked.scope());
  q->mutable_principal()->set_kind(v1::Principal::SESSION);
  q->mutable_principal()->set_id(asked.session_id());
  q->mutable_principal()->set_node(st.address.node_id());
  q->mutable_find_session()->set_who(asked.session_id());
  auto request = std::make_shared<const v1::WaitRequest>(asked);
  auto go_on = [self, id, patience, request, epoch = st.epoch](const answer_ptr& a) {
    if (a->refusal().code() == v1::Refusal::FORBIDDEN)
      return answer(self, epoch, id, as_error(errc::forbidden, a->refusal().text()));
    if (epoch != self->state.epoch || !self->state.jobs.contains(id))
      return;
    ask_by_helper<activity_ptr>(self, id, self->state.front, patience, request)
      .then(then_answer<activity_ptr>(self, id, [](v1::LinkResponse& r, const activity_ptr& act) { *r.mutable_activity() = *act; }),
            else_error(self, id));
  };
  self->request(st.front, limits::call_deadline_default(), query_ptr{q}).then(go_on, else_error(self, id));
}

void watch(self_ptr self, std::uint64_t id, const v1::WatchPoll& asked, std::chrono::milliseconds patience) {
  auto& st = self->state;
  if (!is_home_of(self, asked.scope()))
    return answer(self, st.epoch, id, not_home(asked.scope()));
  auto poll = std::make_shared<watch_poll>();
  poll->scope = asked.scope();
  poll->after = asked.after();
  poll->types.assign(asked.types().begin(), asked.types().end());
  poll->subject = asked.subject();
  poll->wait = asked.wait();
  auto failed = [self, id, poll, otherwise = else_error(self, id), epoch = st.epoch](caf::error& e) {
    if (e != caf::sec::request_timeout)
      return otherwise(e);
    // Nothing happened all the time: whoever follows asks again.
    answer(self, epoch, id, [&](v1::LinkResponse& r) { r.mutable_page()->set_revision(poll->after); });
  };
  ask_by_helper<watch_page_ptr>(self, id, st.watch, patience / 2, watch_poll_ptr{poll})
    .then(then_answer<watch_page_ptr>(self, id,
                                      [](v1::LinkResponse& r, const watch_page_ptr& p) {
                                        for (const auto& e : p->events)
                                          *r.mutable_page()->add_events() = e;
                                        r.mutable_page()->set_revision(p->revision);
                                        r.mutable_page()->set_too_old(p->too_old);
                                      }),
          failed);
}

// -- terminals -----------------------------------------------------------------------------

/// Who may use the terminals of this node from another one: people there. What is theirs was looked at by that node's door.
bool may_use_terminals(const v1::Principal& who) { return who.kind() == v1::Principal::OPERATOR || who.kind() == v1::Principal::NODE; }

template <class Act>
void with_terminal(self_ptr self, std::uint64_t id, const std::string& pty, Act act) {
  self->request(self->state.processes, limits::call_deadline_default(), pty_atom_v, pty)
    .then([act](const pty_actor& terminal) { act(terminal); }, else_error(self, id));
}

auto put_info() {
  return [](v1::LinkResponse& r, const pty_info_ptr& info) { *r.mutable_pty() = *info; };
}

void read_pty(self_ptr self, std::uint64_t id, const v1::ReadPtyRequest& asked, std::chrono::milliseconds patience) {
  auto read = std::make_shared<pty_read>();
  read->from = asked.from();
  read->max_bytes = asked.max_bytes();
  read->wait = asked.follow();
  read->tail = asked.tail();
  with_terminal(self, id, asked.id(), [self, id, read, patience, epoch = self->state.epoch](const pty_actor& terminal) {
    auto failed = [self, id, read, otherwise = else_error(self, id), epoch](caf::error& e) {
      if (e != caf::sec::request_timeout)
        return otherwise(e);
      // Nothing was written all the time: whoever asks may ask again.
      answer(self, epoch, id, [&](v1::LinkResponse& r) { r.mutable_chunk()->set_offset(read->from); });
    };
    if (epoch != self->state.epoch || !self->state.jobs.contains(id))
      return; // nobody waits for it any more
    ask_by_helper<pty_chunk_ptr>(self, id, terminal, patience / 2, pty_read_ptr{read})
      .then(then_answer<pty_chunk_ptr>(self, id, [](v1::LinkResponse& r, const pty_chunk_ptr& c) { *r.mutable_chunk() = *c; }), failed);
  });
}

void send_pty(self_ptr self, std::uint64_t id, const v1::SendPtyRequest& asked, bool person, std::chrono::milliseconds patience) {
  if (asked.data().size() > limits::pty_input_bytes_max)
    return answer(self, self->state.epoch, id, as_error(errc::invalid, "input of more than 64 KiB"));
  auto in = std::make_shared<pty_input>();
  in->request = asked.id().client() + "/" + std::to_string(asked.id().seq());
  in->data = asked.data();
  in->person = person;
  with_terminal(self, id, asked.pty_id(), [self, id, in, patience](const pty_actor& terminal) {
    self->request(terminal, patience, pty_input_ptr{in})
      .then(then_answer<std::uint64_t>(self, id, [](v1::LinkResponse& r, std::uint64_t n) { r.mutable_sent()->set_accepted(n); }),
            else_error(self, id));
  });
}

void list_ptys(self_ptr self, std::uint64_t id, const v1::ListPtysRequest& asked, std::chrono::milliseconds patience) {
  self->request(self->state.processes, patience, list_atom_v, asked.scope())
    .then(then_answer<std::vector<pty_info_ptr>>(self, id,
                                                 [self](v1::LinkResponse& r, const std::vector<pty_info_ptr>& all) {
                                                   auto& out = *r.mutable_ptys();
                                                   for (const auto& p : all) {
                                                     if (static_cast<std::size_t>(out.ptys_size()) == limits::page_rows_max ||
                                                         out.ByteSizeLong() > limits::page_encoded_bytes_max)
                                                       break;
                                                     *out.add_ptys() = *p;
                                                     out.mutable_ptys(out.ptys_size() - 1)->set_node_id(self->state.node->facts.node_id);
                                                   }
                                                 }),
          else_error(self, id));
}

/// Here, or on a node that this one is home of.
void find_pty(self_ptr self, std::uint64_t id, const std::string& pty, std::chrono::milliseconds patience) {
  auto found = then_answer<pty_info_ptr>(self, id, [self](v1::LinkResponse& r, const pty_info_ptr& info) {
    *r.mutable_pty() = *info;
    if (info->node_id().empty())
      r.mutable_pty()->set_node_id(self->state.node->facts.node_id);
  });
  auto elsewhere = [self, id, pty, patience, found](caf::error& e) {
    auto& st = self->state;
    if (e != errc::not_found || !st.node->cluster->shared_home().empty())
      return else_error(self, id)(e);
    self->request(st.parent, patience, pty_atom_v, pty)
      .then([self, id, patience,
             found](const pty_actor& terminal) { self->request(terminal, patience, status_atom_v).then(found, else_error(self, id)); },
            else_error(self, id));
  };
  self->request(self->state.processes, patience, pty_atom_v, pty)
    .then(
      [self, id, patience, found](const pty_actor& terminal) { self->request(terminal, patience, status_atom_v).then(found, else_error(self, id)); },
      elsewhere);
}

/// To a node that this one is linked to and the asking one is not.
void pass_on(self_ptr self, const v1::LinkRequest& r, std::chrono::milliseconds patience) {
  auto& st = self->state;
  auto on = std::make_shared<v1::LinkRequest>(r);
  on->mutable_principal()->set_node(st.address.node_id());
  self->request(st.parent, patience, r.to_node(), link_request_ptr{on})
    .then(then_answer<link_response_ptr>(self, r.id(),
                                         [id = r.id()](v1::LinkResponse& out, const link_response_ptr& said) {
                                           out = *said;
                                           out.set_id(id);
                                         }),
          else_error(self, r.id()));
}

void serve(self_ptr self, const v1::LinkRequest& r, std::size_t cost) {
  auto& st = self->state;
  // One that is asked again while it is worked on is answered once.
  if (st.jobs.contains(r.id()))
    return st.link->consumed(cost);
  auto full = st.jobs.size() >= limits::link_requests_max();
  // What waits for long is small, and must not keep the other node from sending: only what is large counts until it is answered.
  constexpr std::size_t small = 16 * limits::kib;
  if (cost <= small)
    st.link->consumed(std::exchange(cost, 0));
  st.jobs[r.id()].cost = cost;
  auto refuse = [&](errc code, const char* text) { answer(self, st.epoch, r.id(), as_error(code, text)); };
  if (full)
    return refuse(errc::overloaded, "too many requests of this node are under way");
  if (!st.front)
    return refuse(errc::unavailable, "the node is starting; try again");
  auto patience =
    std::chrono::milliseconds{std::clamp<std::int64_t>(r.timeout_ms(), 1, limits::lock_wait_max().count() + limits::call_deadline_default().count())};
  if (!r.to_node().empty() && r.to_node() != st.node->facts.node_id) {
    if (!st.node->cluster || !st.node->cluster->shared_home().empty() || r.to_node() == st.address.node_id())
      return refuse(errc::not_found, "only the home of a cluster passes requests on");
    return pass_on(self, r, patience);
  }
  auto about_terminals = r.has_list_ptys() || r.has_read_pty() || r.has_send_pty() || r.has_resize_pty() || r.has_kill_pty() || r.has_find_pty();
  if (about_terminals && !may_use_terminals(r.principal()))
    return refuse(errc::forbidden, "terminals of another node are for people: ask as the operator");
  switch (r.ask_case()) {
    case v1::LinkRequest::kExecute: return execute(self, r.id(), r.execute(), patience);
    case v1::LinkRequest::kQuery: return query(self, r.id(), r.query(), patience);
    case v1::LinkRequest::kWait: return wait(self, r.id(), r.wait(), patience);
    case v1::LinkRequest::kWatch: return watch(self, r.id(), r.watch(), patience);
    case v1::LinkRequest::kListPtys: return list_ptys(self, r.id(), r.list_ptys(), patience);
    case v1::LinkRequest::kFindPty: return find_pty(self, r.id(), r.find_pty().id(), patience);
    case v1::LinkRequest::kReadPty: return read_pty(self, r.id(), r.read_pty(), patience);
    case v1::LinkRequest::kSendPty: return send_pty(self, r.id(), r.send_pty(), r.principal().kind() == v1::Principal::OPERATOR, patience);
    case v1::LinkRequest::kResizePty:
      return with_terminal(self, r.id(), r.resize_pty().pty_id(), [self, r, patience](const pty_actor& terminal) {
        const auto& size = r.resize_pty().size();
        self->request(terminal, patience, resize_atom_v, size.columns(), size.rows())
          .then(then_answer<pty_info_ptr>(self, r.id(), put_info()), else_error(self, r.id()));
      });
    case v1::LinkRequest::kKillPty:
      return with_terminal(self, r.id(), r.kill_pty().pty_id(), [self, r, patience](const pty_actor& terminal) {
        self->request(terminal, patience, kill_atom_v, r.kill_pty().signal())
          .then(then_answer<pty_info_ptr>(self, r.id(), put_info()), else_error(self, r.id()));
      });
    default: return refuse(errc::invalid, "this version does not know what is asked; update the node");
  }
}

/// Nobody there waits for it any more.
void stop_job(self_ptr self, peer_state::job& j) {
  auto& st = self->state;
  st.link->consumed(j.cost);
  if (j.call && j.call->what->command.has_acquire_lock() && st.front)
    caf::anon_send(st.front, abort_atom_v, j.call);
  if (j.helper)
    runtime::ask_to_end(j.helper);
}

void cancel(self_ptr self, std::uint64_t id) {
  if (auto job = self->state.jobs.extract(id); !job.empty())
    stop_job(self, job.mapped());
}

// -- the link ------------------------------------------------------------------------------

void take_message(self_ptr self, const v1::LinkMessage& m, std::size_t cost) {
  auto& st = self->state;
  if (m.has_request())
    return serve(self, m.request(), cost);
  st.link->consumed(cost);
  auto* cluster = st.node->cluster;
  if (m.has_response()) {
    take_answer(self, m.response());
  } else if (m.has_cancel()) {
    cancel(self, m.cancel().id());
  } else if (m.has_node() && m.node().node_id() == st.address.node_id()) {
    st.info = m.node();
    caf::anon_send(st.parent, tick_atom_v, std::uint64_t{0});
  } else if (m.has_batch() && cluster && cluster->home_of(m.batch().scope()) == st.address.node_id()) {
    auto c = std::make_shared<commit>();
    c->batches.push_back(m.batch());
    if (st.front)
      caf::anon_send(st.front, commit_ptr{c});
  } else if (m.has_view() && cluster && cluster->shared_home() == st.address.node_id()) {
    caf::anon_send(st.parent, std::make_shared<const v1::ClusterView>(m.view()));
  }
}

void tell_about_us(self_ptr self) {
  const auto& st = self->state;
  const auto view = st.node->cluster->view();
  for (const auto& n : view.nodes())
    if (n.link() == v1::ClusterNode::SELF) {
      v1::LinkMessage m;
      *m.mutable_node() = n.info();
      send(self, std::move(m));
    }
}

void on_up(self_ptr self, const runtime::link_up& up) {
  auto& st = self->state;
  spdlog::info("linked to the node {} ({}, version {}){}", up.peer.node_name, up.peer.node_id, up.peer.version, up.resumed ? ", as before" : "");
  st.last_failure.clear();
  st.redials = {};
  st.gone_at_ms = 0;
  st.address.set_node_name(up.peer.node_name);
  st.clock_offset_ms = up.peer.time_ms - st.node->clock->unix_ms();
  if (std::abs(st.clock_offset_ms) > limits::clock_offset_warned.count())
    spdlog::warn("the clock of the node {} is {} s off", name_of(self), st.clock_offset_ms / 1000);
  tell_about_us(self);
  put_waiting(self);
  if (!up.resumed && st.front)
    caf::anon_send(st.front, reload_atom_v, st.address.node_id());
  caf::anon_send(st.parent, tick_atom_v, std::uint64_t{0});
}

/// What was asked may have arrived or not: it is asked again, under the same request ids. What was worked on is asked again, too.
void on_begun_anew(self_ptr self) {
  auto& st = self->state;
  ++st.epoch;
  for (auto& [id, job] : std::exchange(st.jobs, {}))
    stop_job(self, job);
  for (auto& [id, q] : st.asked)
    q.put = false; // until the link is up
}

void end_connection(self_ptr self) {
  auto& st = self->state;
  if (!st.connection)
    return;
  st.link->disconnected(st.connected);
  std::exchange(st.connection, nullptr)->close();
  st.writing = false;
  if (!st.dials && st.gone_at_ms == 0)
    st.gone_at_ms = boot_ms(self) + limits::host_lease().count();
  caf::anon_send(st.parent, tick_atom_v, std::uint64_t{0});
}

void plan_redial(self_ptr self) {
  auto& st = self->state;
  if (!st.dials || st.revoked || st.connection || st.dialling || st.redial_at_ms != 0)
    return;
  runtime::restart_options waits;
  waits.backoff_min = limits::link_redial_min();
  waits.backoff_max = limits::link_redial_max();
  auto now = boot_ms(self);
  st.redial_at_ms = now + st.redials.after_failure(waits, std::chrono::milliseconds{now - st.dialled_ms}, now % 97).count();
}

void dial(self_ptr self) {
  auto& st = self->state;
  if (!st.dials || st.revoked || st.connection || std::exchange(st.dialling, true))
    return;
  st.redial_at_ms = 0;
  st.dialled_ms = boot_ms(self);
  st.node->links->dial(st.address);
}

void take_events(self_ptr self) {
  auto& st = self->state;
  for (auto& e : st.link->take_events()) {
    if (auto* up = std::get_if<runtime::link_up>(&e))
      on_up(self, *up);
    else if (std::holds_alternative<runtime::link_begun_anew<link_message>>(e))
      on_begun_anew(self);
    else if (auto* d = std::get_if<runtime::link_delivery<link_message>>(&e))
      take_message(self, *d->message, d->cost);
    else if (auto* dropped = std::get_if<runtime::link_dropped>(&e)) {
      st.last_failure = dropped->why.text;
      spdlog::warn("the link to the node {} ends{}: {}", name_of(self), dropped->by_peer ? ", it says" : "", dropped->why.text);
      if (dropped->by_peer)
        end_connection(self);
    }
  }
}

/// Does what the link wants until it wants no more.
void pump(self_ptr self) {
  auto& st = self->state;
  take_events(self);
  while (st.connection && !st.writing) {
    auto f = st.link->next_frame(st.connected, link_now(self));
    if (!f)
      break;
    auto last = std::holds_alternative<runtime::link_close>(f->body);
    st.writing = true;
    st.connection->write(to_wire(*f));
    if (last)
      end_connection(self);
  }
  take_events(self);
  plan_redial(self);
  arm(self);
}

/// Says goodbye on a connection that is not to be ours.
void turn_away(const link_connection_ptr& c, v1::LinkClose::Code code, std::string text) {
  v1::LinkFrame f;
  f.mutable_close()->set_code(code);
  f.mutable_close()->set_text(std::move(text));
  c->write(std::move(f));
  c->close();
}

void on_connected(self_ptr self, const link_connection_ptr& c) {
  auto& st = self->state;
  st.dialling &= !c->dialled();
  if (st.revoked)
    return turn_away(c, v1::LinkClose::REVOKED, "the certificate of this node has been revoked");
  // A second one of the same direction is newer than what we know of the first.
  if (st.connection && st.connection->dialled() != c->dialled() && is_up(self) &&
      !runtime::which_connection_stays(st.node->facts.node_id, st.address.node_id(), c->dialled()))
    return turn_away(c, v1::LinkClose::DUPLICATE, "another connection stays");
  if (st.connection)
    turn_away(st.connection, v1::LinkClose::DUPLICATE, "a newer connection stays");
  st.connection = c;
  st.writing = false;
  st.connected = st.link->connected(link_now(self), st.node->clock->unix_ms());
}

void on_news(self_ptr self, const link_news& news) {
  auto& st = self->state;
  if (news.kind == link_news::connected) {
    on_connected(self, news.connection);
  } else if (news.kind == link_news::not_reached) {
    st.dialling = false;
    st.last_failure = news.text;
  } else if (news.connection != st.connection) {
    return; // of one that is not ours any more
  } else if (news.kind == link_news::frame) {
    st.last_heard_ms = st.node->clock->unix_ms();
    st.link->received(st.connected, from_wire(news.body), link_now(self));
    take_events(self);
    if (st.connection)
      st.connection->read();
  } else if (news.kind == link_news::written) {
    st.writing = false;
  } else {
    if (!news.text.empty())
      st.last_failure = news.text;
    end_connection(self);
  }
  pump(self);
}

void on_batch(self_ptr self, const batch_ptr& b) {
  auto& st = self->state;
  if (st.revoked || !is_home_of(self, b->scope()) || !concerns(*b, st.address.node_id()))
    return;
  v1::LinkMessage m;
  *m.mutable_batch() = *b;
  // It reads everything anew when it comes back.
  if (send(self, std::move(m)))
    st.link->forget();
  pump(self);
}

void on_tick(self_ptr self) {
  auto& st = self->state;
  auto now = boot_ms(self);
  st.link->tick(link_now(self));
  end_overdue(self);
  if (st.redial_at_ms != 0 && st.redial_at_ms <= now)
    dial(self);
  if (st.gone_at_ms != 0 && st.gone_at_ms <= now && !st.front)
    st.gone_at_ms = now + limits::link_heartbeat().count(); // nobody to tell
  if (st.gone_at_ms != 0 && st.gone_at_ms <= now) {
    st.gone_at_ms = 0;
    spdlog::warn("the node {} has not been heard of for {} s: what it held ends", name_of(self), limits::host_lease().count() / 1000);
    caf::anon_send(st.front, gone_atom_v, st.address.node_id());
  }
  pump(self);
}

cluster_node_ptr describe(self_ptr self) {
  const auto& st = self->state;
  auto out = std::make_shared<v1::ClusterNode>();
  *out->mutable_info() = st.info;
  out->mutable_info()->set_node_id(st.address.node_id());
  out->mutable_info()->set_node_name(st.address.node_name());
  out->mutable_info()->set_address(st.address.address());
  out->set_link(st.revoked ? v1::ClusterNode::REVOKED : is_up(self) ? v1::ClusterNode::UP : v1::ClusterNode::DOWN);
  out->set_last_heard_ms(st.last_heard_ms);
  if (auto took = st.link->round_trip())
    out->set_round_trip_us(took->count());
  out->set_clock_offset_ms(st.clock_offset_ms);
  out->set_unacknowledged(st.link->waiting_messages());
  return out;
}

void revoke(self_ptr self) {
  auto& st = self->state;
  st.revoked = true;
  st.link->close(runtime::link_reason::revoked, "the certificate of this node has been revoked");
  pump(self);
  if (st.front)
    caf::anon_send(st.front, gone_atom_v, st.address.node_id());
}

void open_link(self_ptr self) {
  auto& st = self->state;
  runtime::link_options o;
  o.cluster_id = st.node->cluster->view().cluster_id();
  o.node_id = st.node->facts.node_id;
  o.node_name = st.node->facts.node_name;
  o.version = st.node->facts.version;
  o.incarnation = st.node->facts.incarnation;
  o.peer_id = st.address.node_id();
  st.link.emplace(std::move(o));
}

} // namespace

peer_actor::behavior_type peer(self_ptr self, node_context_ptr node, v1::NodeAddress address, bool dials, federation_actor parent,
                               watch_hub_actor watch_hub, processes_actor processes) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.node = std::move(node);
  st.address = std::move(address);
  st.dials = dials;
  st.parent = std::move(parent);
  st.watch = std::move(watch_hub);
  st.processes = std::move(processes);
  open_link(self);
  // A node that starts does not know for how long the others have been away.
  if (!dials)
    st.gone_at_ms = boot_ms(self) + (limits::restart_grace() + limits::host_lease()).count();
  dial(self);
  arm(self);
  return {
    [self](const link_news_ptr& news) { on_news(self, *news); },
    [self](const link_request_ptr& request) { return ask(self, request); },
    [self](abort_atom, const link_request_ptr& request) {
      auto& s = self->state;
      for (auto i = s.asked.begin(); i != s.asked.end(); ++i)
        if (i->second.request == request) {
          s.due.cancel(i->first);
          if (i->second.put)
            take_back(self, i->first);
          s.asked.erase(i);
          break;
        }
      pump(self);
    },
    [self](const batch_ptr& b) { on_batch(self, b); },
    [self](const cluster_view_ptr& view) {
      v1::LinkMessage m;
      *m.mutable_view() = *view;
      send(self, std::move(m));
      pump(self);
    },
    [self](gone_atom) { revoke(self); },
    [self](attach_atom, const front_actor& front) {
      auto& s = self->state;
      s.front = front;
      if (is_up(self))
        caf::anon_send(front, reload_atom_v, s.address.node_id());
    },
    [self](status_atom) { return describe(self); },
    [self](tick_atom, std::uint64_t stamp) {
      if (self->state.timer.fired(stamp))
        on_tick(self);
    },
    [self](tree_atom) {
      const auto& s = self->state;
      return runtime::self_row(
        self,
        s.revoked     ? "revoked"
        : is_up(self) ? "up"
                      : "down",
        fmt::format("{}: {} asked, {} asked of us, {} on their way", name_of(self), s.asked.size(), s.jobs.size(), s.link->waiting_messages()));
    },
  };
}

} // namespace swarm
