#include "actors/fabric/cluster/link_serve.hpp"

#include <algorithm>

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/decide.hpp"
#include "actors/fabric/admit_command.hpp"
#include "actors/fabric/cluster/placement.hpp"
#include "actors/fabric/graph.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/ending.hpp"
#include "actors/runtime/error_text.hpp"

namespace swarm::link_serve {

bool is_home_of(self_ptr self, const std::string& scope) {
  auto* cluster = self->state.node->cluster;
  return cluster && cluster->is_shared(scope) && cluster->home_of(scope).empty();
}

namespace {

using ticket = link_state::ticket;

link_state::lane& lane_of(self_ptr self, const ticket& t) { return self->state.lanes[static_cast<std::size_t>(t.lane)]; }

link_state::job* job_of(self_ptr self, const ticket& t) {
  auto i = self->state.jobs.find({t.lane, t.id});
  return i == self->state.jobs.end() || t.epoch != lane_of(self, t).epoch ? nullptr : &i->second;
}

/// What the other node is refused because who asks there may not: said once with its reason, and counted in the graph.
void note_denied(self_ptr self, const v1::LinkResponse& r) {
  auto& st = self->state;
  const auto is_denied = [](const v1::Refusal& f) { return f.code() == v1::Refusal::FORBIDDEN; };
  std::string why;
  if (r.error().code() == static_cast<std::uint32_t>(errc::forbidden))
    why = r.error().text();
  else if (is_denied(r.reply().refusal()))
    why = r.reply().refusal().text();
  else if (is_denied(r.answer_to_query().refusal()))
    why = r.answer_to_query().refusal().text();
  else
    return;
  if (st.denied.add(why, st.node->clock->boot_ms()))
    log::warn({"refused: the node ", st.address.node_name(), ": ", why});
}

template <class Fill>
void answer(self_ptr self, const ticket& t, Fill fill) {
  auto& lane = lane_of(self, t);
  if (t.epoch != lane.epoch)
    return;
  auto job = self->state.jobs.extract({t.lane, t.id});
  if (job.empty())
    return;
  lane.link->consumed(job.mapped().cost);
  if (job.mapped().helper)
    runtime::ask_to_end(job.mapped().helper);
  auto m = std::make_shared<v1::LinkMessage>();
  m->mutable_response()->set_id(t.id);
  fill(*m->mutable_response());
  note_denied(self, m->response());
  if (lane.link->send(m)) {
    // Too much waits already, or it is too large: this at least is short.
    m = std::make_shared<v1::LinkMessage>();
    m->mutable_response()->set_id(t.id);
    auto* e = m->mutable_response()->mutable_error();
    e->set_code(static_cast<std::uint32_t>(errc::overloaded));
    e->set_text("the answer finds no room on the link");
    if (lane.link->send(std::move(m)))
      lane.link->forget(); // the other node asks again
  }
  link_internal::pump(self);
}

auto as_error(errc code, std::string text) {
  return [code, text = std::move(text)](v1::LinkResponse& r) {
    r.mutable_error()->set_code(static_cast<std::uint32_t>(code));
    r.mutable_error()->set_text(text);
  };
}

/// The answer's continuation for whatever was asked of an actor here.
template <class T, class Put>
auto then_answer(self_ptr self, const ticket& t, Put put) {
  return [self, t, put](const T& value) { answer(self, t, [&](v1::LinkResponse& r) { put(r, value); }); };
}
auto else_error(self_ptr self, const ticket& t) {
  return [self, t](caf::error& e) {
    // The actor asked has ended in the middle of it, or did not answer in time: it may have happened.
    auto code = e.category() == caf::detail::error_factory<errc>::category ? static_cast<errc>(e.code()) : errc::unknown_outcome;
    answer(self, t, as_error(code, runtime::error_text(e)));
  };
}

/// The other node takes back what it asks at its deadline, and loses it with the link; a timer of each would stay in CAF's clock long after
/// the answer.
template <class Target, class... Ts>
auto ask_here(self_ptr self, const Target& target, Ts&&... what) {
  return self->request(target, caf::infinite, std::forward<Ts>(what)...); // lint: edge deadline
}

/// Asks in an actor of its own, which the one who is asked can watch: when nobody there waits any more, it ends, and its place with it.
template <class Reply, class Target, class Request>
auto ask_by_helper(self_ptr self, const ticket& t, const Target& target, std::chrono::milliseconds patience, const Request& request) {
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
  if (auto* job = job_of(self, t))
    job->helper = helper;
  else
    runtime::ask_to_end(helper);
  return self->request(helper, patience, request);
}

/// Grants of devices and gateways are rows of the node that decides, which looks there; what a link says of them is not believed.
v1::Principal believed(v1::Principal who) {
  if (who.kind() != v1::Principal::SESSION)
    who.clear_grants();
  return who;
}

/// What the other node says of who asks is believed as far as it can be so: its operator, its own sessions, itself.
bool take_principal(self_ptr self, v1::Principal& who) {
  who = believed(std::move(who));
  const auto& id = self->state.address.node_id();
  if (who.kind() == v1::Principal::NODE && who.id() != id)
    return false;
  who.set_node(id);
  return who.kind() != v1::Principal::KIND_UNSPECIFIED;
}

auto not_home(const std::string& scope) {
  return as_error(errc::not_found, concat({"the scope ", scope, " is not shared, or this node is not its home"}));
}

void execute(self_ptr self, const ticket& t, const v1::ExecuteRequest& asked) {
  auto& st = self->state;
  auto refuse = [&](auto fill) { answer(self, t, std::move(fill)); };
  if (!is_home_of(self, asked.command().scope()))
    return refuse(not_home(asked.command().scope()));
  way_in in;
  in.principal = asked.command().principal();
  if (!take_principal(self, in.principal))
    return refuse(as_error(errc::forbidden, "a node speaks for itself and for its own sessions only"));
  in.node_id = st.address.node_id();
  in.node_name = st.address.node_name();
  in.of_other_node = true;
  in.to_store = [&](v1::Command& cmd) { hide_variables(cmd, st.node->facts.token_key); };
  in.place = [&](v1::Command& cmd) { return place(cmd, st.node->cluster->view(), st.address.node_id()); };
  auto admitted = admit_command(asked.id(), asked.command(), in);
  if (!admitted.what)
    return refuse(as_error(errc::invalid, admitted.wrong));
  if (admitted.refusal)
    return refuse([&](v1::LinkResponse& r) { *r.mutable_reply()->mutable_refusal() = *admitted.refusal; });
  auto c = std::make_shared<call>();
  c->what = std::move(admitted.what);
  if (auto* job = job_of(self, t))
    job->call = c;
  ask_here(self, st.front, call_ptr{c})
    .then(then_answer<reply_ptr>(self, t, [](v1::LinkResponse& r, const reply_ptr& reply) { *r.mutable_reply() = *reply; }), else_error(self, t));
}

void query(self_ptr self, const ticket& t, const v1::Query& asked) {
  auto& st = self->state;
  auto q = std::make_shared<v1::Query>(asked);
  if (!domain::about_the_node(*q) && !is_home_of(self, q->scope()))
    return answer(self, t, not_home(q->scope()));
  if (!take_principal(self, *q->mutable_principal()))
    return answer(self, t, as_error(errc::forbidden, "a node speaks for itself and for its own sessions only"));
  if (q->has_list_scopes())
    q->mutable_list_scopes()->set_shared(true); // what this node has for itself is its own business
  ask_here(self, st.front, query_ptr{q})
    .then(then_answer<answer_ptr>(self, t, [](v1::LinkResponse& r, const answer_ptr& a) { *r.mutable_answer_to_query() = *a; }), else_error(self, t));
}

/// A session's mail is for its own node only, which the same rule decides as for its queries.
void wait(self_ptr self, const ticket& t, const v1::WaitRequest& asked, std::chrono::milliseconds patience) {
  auto& st = self->state;
  if (!is_home_of(self, asked.scope()))
    return answer(self, t, not_home(asked.scope()));
  if (auto wrong = domain::check_bounds(asked))
    return answer(self, t, as_error(errc::invalid, wrong->text()));
  auto q = std::make_shared<v1::Query>();
  q->set_scope(asked.scope());
  q->mutable_principal()->set_kind(v1::Principal::SESSION);
  q->mutable_principal()->set_id(asked.session_id());
  q->mutable_principal()->set_node(st.address.node_id());
  q->mutable_find_session()->set_who(asked.session_id());
  auto request = std::make_shared<const v1::WaitRequest>(asked);
  auto go_on = [self, t, patience, request](const answer_ptr& a) {
    if (a->refusal().code() == v1::Refusal::FORBIDDEN)
      return answer(self, t, as_error(errc::forbidden, a->refusal().text()));
    if (!job_of(self, t))
      return;
    ask_by_helper<activity_ptr>(self, t, self->state.front, patience, request)
      .then(then_answer<activity_ptr>(self, t, [](v1::LinkResponse& r, const activity_ptr& act) { *r.mutable_activity() = *act; }),
            else_error(self, t));
  };
  self->request(st.front, limits::call_deadline_default(), query_ptr{q}).then(go_on, else_error(self, t));
}

void watch(self_ptr self, const ticket& t, const v1::WatchPoll& asked, std::chrono::milliseconds patience) {
  auto& st = self->state;
  if (!is_home_of(self, asked.scope()))
    return answer(self, t, not_home(asked.scope()));
  auto poll = std::make_shared<watch_poll>();
  poll->scope = asked.scope();
  poll->after = asked.after();
  poll->types.assign(asked.types().begin(), asked.types().end());
  poll->subject = asked.subject();
  poll->wait = asked.wait();
  auto failed = [self, t, poll, otherwise = else_error(self, t)](caf::error& e) {
    if (e != caf::sec::request_timeout)
      return otherwise(e);
    // Nothing happened all the time: the follower asks again.
    answer(self, t, [&](v1::LinkResponse& r) { r.mutable_page()->set_revision(poll->after); });
  };
  ask_by_helper<watch_page_ptr>(self, t, st.watch, patience / 2, watch_poll_ptr{poll})
    .then(then_answer<watch_page_ptr>(self, t,
                                      [](v1::LinkResponse& r, const watch_page_ptr& p) {
                                        for (const auto& e : p->events)
                                          *r.mutable_page()->add_events() = e;
                                        r.mutable_page()->set_revision(p->revision);
                                        r.mutable_page()->set_too_old(p->too_old);
                                      }),
          failed);
}

// -- terminals -----------------------------------------------------------------------------

template <class Act>
void with_terminal(self_ptr self, const ticket& t, const std::string& pty, Act act) {
  ask_here(self, self->state.processes, pty_atom_v, pty).then([act](const pty_actor& terminal) { act(terminal); }, else_error(self, t));
}

auto put_info() {
  return [](v1::LinkResponse& r, const pty_info_ptr& info) { *r.mutable_pty() = *info; };
}

void read_pty(self_ptr self, const ticket& t, const v1::ReadPtyRequest& asked, std::chrono::milliseconds patience) {
  auto read = std::make_shared<pty_read>();
  read->from = asked.from();
  read->max_bytes = asked.max_bytes();
  read->wait = asked.follow();
  read->tail = asked.tail();
  with_terminal(self, t, asked.id(), [self, t, read, patience](const pty_actor& terminal) {
    auto failed = [self, t, read, otherwise = else_error(self, t)](caf::error& e) {
      if (e != caf::sec::request_timeout)
        return otherwise(e);
      // Nothing was written all the time: the caller may ask again.
      answer(self, t, [&](v1::LinkResponse& r) { r.mutable_chunk()->set_offset(read->from); });
    };
    if (!job_of(self, t))
      return; // nobody waits for it any more
    ask_by_helper<pty_chunk_ptr>(self, t, terminal, patience / 2, pty_read_ptr{read})
      .then(then_answer<pty_chunk_ptr>(self, t, [](v1::LinkResponse& r, const pty_chunk_ptr& c) { *r.mutable_chunk() = *c; }), failed);
  });
}

void send_pty(self_ptr self, const ticket& t, const v1::SendPtyRequest& asked, const v1::Principal& who) {
  if (asked.data().size() > limits::pty_input_bytes_max)
    return answer(self, t, as_error(errc::invalid, "input of more than 64 KiB"));
  if (asked.id().client().size() > limits::pty_request_bytes_max - 32)
    return answer(self, t, as_error(errc::invalid, "the name of the request is too long"));
  auto in = std::make_shared<pty_input>();
  in->request = asked.id().client() + "/" + std::to_string(asked.id().seq());
  in->data = asked.data();
  in->who = who;
  in->who.set_node(self->state.address.node_id());
  with_terminal(self, t, asked.pty_id(), [self, t, in](const pty_actor& terminal) {
    ask_here(self, terminal, pty_input_ptr{in})
      .then(then_answer<std::uint64_t>(self, t, [](v1::LinkResponse& r, std::uint64_t n) { r.mutable_sent()->set_accepted(n); }),
            else_error(self, t));
  });
}

void answer_with_list(self_ptr self, const ticket& t, const std::vector<pty_info_ptr>& here, const std::vector<pty_info_ptr>& elsewhere) {
  answer(self, t, [&](v1::LinkResponse& r) {
    auto& out = *r.mutable_ptys();
    for (const auto* list : {&here, &elsewhere})
      for (const auto& p : *list) {
        if (static_cast<std::size_t>(out.ptys_size()) == limits::page_rows_max || out.ByteSizeLong() > limits::page_encoded_bytes_max)
          return;
        *out.add_ptys() = *p;
        if (list == &here)
          out.mutable_ptys(out.ptys_size() - 1)->set_node_id(self->state.node->facts.node_id);
      }
  });
}

/// Those of this node and, at the home, of the nodes that the asking one is not linked to.
void list_ptys(self_ptr self, const ticket& t, const v1::LinkRequest& r, std::chrono::milliseconds patience) {
  auto who = std::make_shared<v1::Principal>(r.principal());
  who->set_node(self->state.address.node_id());
  auto add_others = [self, t, patience, who, scope = r.list_ptys().scope()](const std::vector<pty_info_ptr>& here) {
    auto& st = self->state;
    if (!st.node->cluster->shared_home().empty())
      return answer_with_list(self, t, here, {});
    self->request(st.parent, patience, list_atom_v, scope, principal_ptr{who})
      .then([self, t, here](const std::vector<pty_info_ptr>& elsewhere) { answer_with_list(self, t, here, elsewhere); },
            [self, t, here](caf::error&) { answer_with_list(self, t, here, {}); });
  };
  self->request(self->state.processes, patience, list_atom_v, r.list_ptys().scope()).then(add_others, else_error(self, t));
}

/// Why this node does not let the caller use its terminals; nothing when it does.
std::optional<std::string> refused_here(self_ptr self, const v1::Principal& caller, bool writes) {
  const auto* cluster = self->state.node->cluster;
  auto why = cluster ? domain::refused_terminal(cluster->accepts(), caller, writes) : std::optional<std::string>{"this node is in no cluster"};
  return why ? std::optional{concat({"the node ", self->state.node->facts.node_name, " does not let you: ", *why})} : std::nullopt;
}

/// Here, or on a node that this one is home of. Only the node that keeps it says who may know.
void find_pty(self_ptr self, const ticket& t, const std::string& pty, const v1::Principal& caller, std::chrono::milliseconds patience) {
  auto who = std::make_shared<v1::Principal>(caller);
  who->set_node(self->state.address.node_id());
  auto found = then_answer<pty_info_ptr>(self, t, [self](v1::LinkResponse& r, const pty_info_ptr& info) {
    *r.mutable_pty() = *info;
    if (info->node_id().empty())
      r.mutable_pty()->set_node_id(self->state.node->facts.node_id);
  });
  auto elsewhere = [self, t, pty, patience, found, who](caf::error& e) {
    auto& st = self->state;
    if (e != errc::not_found || !st.node->cluster->shared_home().empty())
      return else_error(self, t)(e);
    self->request(st.parent, patience, pty_atom_v, pty, principal_ptr{who})
      .then(
        [self, t, patience, found](const pty_actor& terminal) { self->request(terminal, patience, status_atom_v).then(found, else_error(self, t)); },
        else_error(self, t));
  };
  // A node asks for itself where a terminal is, and nothing else.
  auto refused = caller.kind() == v1::Principal::NODE ? std::nullopt : refused_here(self, caller, false);
  self->request(self->state.processes, patience, pty_atom_v, pty)
    .then(
      [self, t, patience, found, refused](const pty_actor& terminal) {
        if (refused)
          return answer(self, t, as_error(errc::forbidden, *refused));
        self->request(terminal, patience, status_atom_v).then(found, else_error(self, t));
      },
      elsewhere);
}

/// To a node that this one is linked to and the asking one is not.
void pass_on(self_ptr self, const ticket& t, const v1::LinkRequest& r, std::chrono::milliseconds patience) {
  auto& st = self->state;
  auto on = std::make_shared<v1::LinkRequest>(r);
  on->mutable_principal()->set_node(st.address.node_id());
  if (auto* job = job_of(self, t))
    job->on = on;
  self->request(st.parent, patience, r.to_node(), link_request_ptr{on})
    .then(then_answer<link_response_ptr>(self, t,
                                         [id = t.id](v1::LinkResponse& out, const link_response_ptr& said) {
                                           out = *said;
                                           out.set_id(id);
                                         }),
          else_error(self, t));
}

/// The live tree of this node.
void graph(self_ptr self, const ticket& t, const v1::GraphRequest& asked, std::chrono::milliseconds patience) {
  auto root = self->state.node->root->get();
  if (!root)
    return answer(self, t, as_error(errc::unavailable, "the node is starting; try again"));
  self->request(root, patience, tree_atom_v)
    .then(then_answer<std::vector<runtime::tree_entry>>(
            self, t,
            [scope = asked.scope(), name = self->state.node->facts.node_name](v1::LinkResponse& r, const std::vector<runtime::tree_entry>& rows) {
              add_rows(*r.mutable_graph(), rows, scope, name);
            }),
          else_error(self, t));
}

/// By what is asked for, whatever grants who asks may have; a body this version does not know is judged by nobody and answered as such.
std::optional<v1::Refusal> refused_by_table(const v1::LinkRequest& r) {
  const auto* what = domain::operation_of_link(r.ask_case());
  return what ? domain::may_ever(r.principal().kind(), *what) : std::nullopt;
}

/// Whether the caller may do that with the terminals of this node; if not, it has been told.
bool may_use_terminals(self_ptr self, const ticket& t, const v1::LinkRequest& r) {
  auto writes = r.has_send_pty() || r.has_resize_pty() || r.has_kill_pty() || r.has_forget_pty();
  if (!writes && !r.has_list_ptys() && !r.has_read_pty())
    return true;
  auto why = refused_here(self, r.principal(), writes);
  if (why)
    answer(self, t, as_error(errc::forbidden, *why));
  return !why;
}

} // namespace

void serve(self_ptr self, link_lane lane, const v1::LinkRequest& r, std::size_t cost) {
  auto& st = self->state;
  ticket t{lane, r.id(), st.lanes[static_cast<std::size_t>(lane)].epoch};
  auto& link = *lane_of(self, t).link;
  // One that is asked again while it is worked on is answered once.
  if (job_of(self, t))
    return link.consumed(cost);
  auto full = st.jobs.size() >= limits::link_requests_max();
  // What waits for long is small: only large requests use up the budget until they are answered.
  if (cost <= limits::link_small_request_bytes)
    link.consumed(std::exchange(cost, 0));
  st.jobs[{t.lane, t.id}].cost = cost;
  auto refuse = [&](errc code, const char* text) { answer(self, t, as_error(code, text)); };
  if (full)
    return refuse(errc::overloaded, "too many requests of this node are under way");
  if (!st.front)
    return refuse(errc::unavailable, "the node is starting; try again");
  auto patience =
    std::chrono::milliseconds{std::clamp<std::int64_t>(r.timeout_ms(), 1, limits::lock_wait_max().count() + limits::call_deadline_default().count())};
  if (!r.to_node().empty() && r.to_node() != st.node->facts.node_id) {
    if (!st.node->cluster || !st.node->cluster->shared_home().empty() || r.to_node() == st.address.node_id())
      return refuse(errc::not_found, "only the home of a cluster passes requests on");
    return pass_on(self, t, r, patience);
  }
  if (auto refused = refused_by_table(r))
    return answer(self, t, as_error(errc::forbidden, refused->text()));
  if (!may_use_terminals(self, t, r))
    return;
  switch (r.ask_case()) {
    case v1::LinkRequest::kExecute: return execute(self, t, r.execute());
    case v1::LinkRequest::kQuery: return query(self, t, r.query());
    case v1::LinkRequest::kWait: return wait(self, t, r.wait(), patience);
    case v1::LinkRequest::kWatch: return watch(self, t, r.watch(), patience);
    case v1::LinkRequest::kListPtys: return list_ptys(self, t, r, patience);
    case v1::LinkRequest::kFindPty: return find_pty(self, t, r.find_pty().id(), r.principal(), patience);
    case v1::LinkRequest::kReadPty: return read_pty(self, t, r.read_pty(), patience);
    case v1::LinkRequest::kSendPty: return send_pty(self, t, r.send_pty(), believed(r.principal()));
    case v1::LinkRequest::kResizePty:
      return with_terminal(self, t, r.resize_pty().pty_id(), [self, t, r, patience](const pty_actor& terminal) {
        const auto& size = r.resize_pty().size();
        self->request(terminal, patience, resize_atom_v, size.columns(), size.rows())
          .then(then_answer<pty_info_ptr>(self, t, put_info()), else_error(self, t));
      });
    case v1::LinkRequest::kKillPty:
      return with_terminal(self, t, r.kill_pty().pty_id(), [self, t, r, patience](const pty_actor& terminal) {
        self->request(terminal, patience, kill_atom_v, r.kill_pty().signal())
          .then(then_answer<pty_info_ptr>(self, t, put_info()), else_error(self, t));
      });
    case v1::LinkRequest::kForgetPty:
      return with_terminal(self, t, r.forget_pty().pty_id(), [self, t, patience](const pty_actor& terminal) {
        self->request(terminal, patience, forget_atom_v).then(then_answer<pty_info_ptr>(self, t, put_info()), else_error(self, t));
      });
    case v1::LinkRequest::kGraph: return graph(self, t, r.graph(), patience);
    default: return refuse(errc::invalid, "this version does not know what is asked; update the node");
  }
}

namespace {

/// Nobody there waits for it any more; `asks_again`: on this way.
void stop_job(self_ptr self, link_lane lane, link_state::job& j, bool asks_again) {
  auto& st = self->state;
  st.lanes[static_cast<std::size_t>(lane)].link->consumed(j.cost);
  if (const auto* waits = j.call ? &j.call->what->command.acquire_lock() : nullptr; waits && waits->wait_ms() > 0 && st.front) {
    if (asks_again)
      caf::anon_send(st.front, forget_atom_v, j.call);
    else
      caf::anon_send(st.front, abort_atom_v, j.call);
  }
  if (j.helper)
    runtime::ask_to_end(j.helper);
  if (j.on)
    caf::anon_send(st.parent, abort_atom_v, j.on->to_node(), j.on);
}

} // namespace

void cancel(self_ptr self, std::uint64_t id) {
  for (auto lane : {link_lane::control, link_lane::bulk})
    if (auto job = self->state.jobs.extract({lane, id}); !job.empty())
      stop_job(self, lane, job.mapped(), false);
}

void forget_all(self_ptr self, link_lane lane) {
  auto& st = self->state;
  ++st.lanes[static_cast<std::size_t>(lane)].epoch;
  for (auto i = st.jobs.begin(); i != st.jobs.end();)
    if (i->first.first == lane) {
      stop_job(self, lane, i->second, true);
      i = st.jobs.erase(i);
    } else {
      ++i;
    }
}

} // namespace swarm::link_serve
