#include "actors/base/log.hpp"
#include "actors/fabric/cluster/link_away.hpp"
#include "actors/fabric/cluster/link_serve.hpp"

#include <algorithm>

#include <caf/send.hpp>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/ending.hpp"
#include "actors/runtime/error_text.hpp"
#include "actors/runtime/tree.hpp"

namespace swarm {

link_state::~link_state() {
  for (const auto& [id, asked_of_us] : jobs)
    if (asked_of_us.helper)
      runtime::ask_to_end(asked_of_us.helper);
  for (auto& l : lanes)
    if (l.connection)
      l.connection->close();
  if (newcomer)
    newcomer->close();
}

std::string revoked_by(const std::string& home_name) {
  return concat({"the home ", home_name, " has revoked this node, which is out of the cluster for good; run on this host: swarmctl leave"});
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

using link_away::is_of_client;
using link_away::refuse_while_away;
using link_internal::boot_ms;
using link_internal::dial;
using link_internal::is_up;
using link_internal::name_of;
using link_internal::pump;
using link_internal::self_ptr;
using link_internal::take_back;
using runtime::link_time;
using lane = link_state::lane;

/// A dial that has come to nothing by then, neither connected nor failed, is given up.
constexpr auto dial_patience = 3 * limits::link_connect_timeout;
constexpr std::array<link_lane, link_lanes> both{link_lane::control, link_lane::bulk};

lane& lane_of(self_ptr self, link_lane which) { return self->state.lanes[static_cast<std::size_t>(which)]; }

link_time link_now(self_ptr self) { return std::chrono::milliseconds{boot_ms(self)}; }

/// What this node keeps of the other one.
v1::ClusterNode row_of(self_ptr self) {
  const auto& st = self->state;
  const auto view = st.node->cluster->view();
  for (const auto& n : view.nodes())
    if (n.info().node_id() == st.address.node_id())
      return n;
  return {};
}

// -- writing -------------------------------------------------------------------------------

void arm(self_ptr self) {
  auto& st = self->state;
  auto now = boot_ms(self);
  auto at = st.due.next();
  auto sooner = [&](std::int64_t ms) { at = at ? std::min(*at, ms) : ms; };
  for (const auto& l : st.lanes) {
    if (auto next = l.link->next_deadline())
      sooner(std::chrono::ceil<std::chrono::milliseconds>(*next).count());
    if (l.redial_at_ms != 0)
      sooner(l.redial_at_ms);
    if (l.dialling)
      sooner(l.dialled_ms + dial_patience.count());
    if (l.leaving)
      sooner(l.leaving_until_ms);
  }
  if (st.gone_at_ms != 0)
    sooner(st.gone_at_ms);
  if (st.held_until_ms != 0)
    sooner(st.held_until_ms);
  if (st.refuse_at_ms != 0)
    sooner(st.refuse_at_ms);
  st.timer.arm(self, now, at);
}

/// Nothing: it is on its way, now or when the link is back.
std::optional<errc> send(lane& l, v1::LinkMessage m) { return l.link->send(std::make_shared<const v1::LinkMessage>(std::move(m))); }

// -- what we ask ---------------------------------------------------------------------------

/// Where it is asked; nothing while the link is down: what is not wanted any more when it comes back is never put.
std::optional<link_lane> lane_for(self_ptr self, const v1::LinkRequest& r) {
  const auto& control = lane_of(self, link_lane::control);
  if (!is_up(control))
    return std::nullopt;
  // A node of the first protocol has one link for everything.
  auto is_bulk = r.has_read_pty() && (r.read_pty().max_bytes() == 0 || r.read_pty().max_bytes() > limits::pty_interactive_bytes_max);
  if (!is_bulk || control.protocol < link_protocol_with_bulk)
    return link_lane::control;
  return is_up(lane_of(self, link_lane::bulk)) ? std::optional{link_lane::bulk} : std::nullopt;
}

/// A key goes before a flood: while somebody types, each read of much output waits until what it sets off is likely to be over.
bool is_held(self_ptr self, const link_state::question& q) {
  auto& st = self->state;
  auto until = std::min(st.typed_ms, q.asked_ms) + limits::link_bulk_hold.count();
  if (boot_ms(self) >= until)
    return false;
  st.held_until_ms = st.held_until_ms == 0 ? until : std::min(st.held_until_ms, until);
  return true;
}

/// Puts it, if that is possible just now.
std::optional<errc> put_question(self_ptr self, std::uint64_t id, link_state::question& q) {
  auto where = lane_for(self, *q.request);
  if (!where || (*where == link_lane::bulk && is_held(self, q)))
    return std::nullopt;
  if (q.request->has_send_pty())
    self->state.typed_ms = boot_ms(self);
  v1::LinkMessage m;
  *m.mutable_request() = *q.request;
  m.mutable_request()->set_id(id);
  m.mutable_request()->set_timeout_ms(std::max<std::int64_t>(q.deadline_ms - boot_ms(self), 1));
  auto refused = send(lane_of(self, *where), std::move(m));
  if (!refused) {
    q.put = where;
    q.was_put = true;
  }
  return refused;
}

void put_waiting(self_ptr self) {
  for (auto& [id, q] : self->state.asked)
    if (!q.put)
      put_question(self, id, q);
}

/// Not to be tried again.
caf::error out_of_cluster(self_ptr self) { return fail(errc::forbidden, revoked_by(name_of(self))); }

caf::result<link_response_ptr> ask(self_ptr self, const link_request_ptr& request) {
  auto& st = self->state;
  if (st.revoked_us)
    return out_of_cluster(self);
  if (st.revoked)
    return fail(errc::unavailable, concat({"the certificate of the node ", name_of(self), " has been revoked"}));
  if (auto silent = link_away::is_silent(self, *request))
    return std::move(*silent);
  if (st.asked.size() >= limits::link_requests_max())
    return fail(errc::overloaded, concat({"too many requests wait for the node ", name_of(self)}));
  auto deadline = boot_ms(self) + std::max<std::int64_t>(request->timeout_ms(), 1);
  auto promise = self->make_response_promise<link_response_ptr>();
  auto id = st.next_id++;
  auto& q =
    st.asked.emplace(id, link_state::question{request, boot_ms(self), deadline, runtime::parked<link_response_ptr>{promise}, std::nullopt, false})
      .first->second;
  if (auto refused = put_question(self, id, q)) {
    q.answer.answer(fail(*refused, concat({"too much waits for the node ", name_of(self)})));
    st.asked.erase(id);
    return promise;
  }
  st.due.set(id, deadline);
  if (is_of_client(*request))
    refuse_while_away(self);
  pump(self);
  return promise;
}

void end_overdue(self_ptr self) {
  auto& st = self->state;
  while (auto id = st.due.take_due(boot_ms(self))) {
    auto q = st.asked.extract(*id);
    if (q.empty())
      continue;
    q.mapped().answer.answer(link_away::not_reached(self, q.mapped()));
    if (q.mapped().put)
      take_back(self, *id, *q.mapped().put);
  }
}

/// The home sends this node away for good. It keeps calling, in case the home lets it in again.
void on_revoked(self_ptr self) {
  auto& st = self->state;
  st.revoked_us = true;
  st.due = {};
  for (auto& [id, q] : std::exchange(st.asked, {}))
    q.answer.answer(out_of_cluster(self));
}

void take_answer(self_ptr self, const v1::LinkResponse& r) {
  auto& st = self->state;
  auto q = st.asked.extract(r.id());
  if (q.empty())
    return; // nobody waits any more, or it was asked twice
  st.due.cancel(r.id());
  q.mapped().answer.answer(std::make_shared<const v1::LinkResponse>(r));
}

// -- the link ------------------------------------------------------------------------------

v1::NodeInfo bounded(v1::NodeInfo info) {
  while (info.ByteSizeLong() > limits::node_info_bytes_max && !info.checkouts().empty())
    info.mutable_checkouts()->RemoveLast();
  while (info.ByteSizeLong() > limits::node_info_bytes_max && !info.labels().empty())
    info.mutable_labels()->RemoveLast();
  return info.ByteSizeLong() > limits::node_info_bytes_max ? v1::NodeInfo{} : info;
}

void take_message(self_ptr self, link_lane which, const v1::LinkMessage& m, std::size_t cost) {
  auto& st = self->state;
  if (m.has_request())
    return link_serve::serve(self, which, m.request(), cost);
  lane_of(self, which).link->consumed(cost);
  auto* cluster = st.node->cluster;
  if (m.has_response()) {
    take_answer(self, m.response());
  } else if (m.has_cancel()) {
    link_serve::cancel(self, m.cancel().id());
  } else if (m.has_node() && m.node().node_id() == st.address.node_id()) {
    st.info = bounded(m.node());
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

/// A node that connects again and again, and is refused each time, does not fill the log.
void complain(self_ptr self, const std::string& why) {
  auto& st = self->state;
  if (st.refused.add(why, boot_ms(self)))
    log::warn({"the link to the node ", name_of(self), " ends: ", why});
}

void on_not_reached(self_ptr self, const std::string& why) {
  auto& st = self->state;
  st.last_failure = why;
  if (st.unreached.add(why, boot_ms(self)))
    log::warn({"the node ", name_of(self), " is not reached: ", why});
}

/// The name of another node is not taken: people choose nodes by it.
void take_name(self_ptr self, const std::string& name) {
  auto& st = self->state;
  const auto view = st.node->cluster->view();
  for (const auto& n : view.nodes())
    if (n.info().node_name() == name && n.info().node_id() != st.address.node_id() && n.link() != v1::ClusterNode::REVOKED)
      return complain(self, concat({"it calls itself ", name, ", which is the name of another node; it keeps the name it joined with"}));
  st.address.set_node_name(name);
}

void look_at_clock(self_ptr self, std::int64_t time_ms) {
  auto& st = self->state;
  // It may say anything; no clock is before 1970, and the difference of two that are not fits.
  st.clock_offset_ms = std::max<std::int64_t>(time_ms, 0) - st.node->clock->unix_ms();
  auto off = std::abs(st.clock_offset_ms) > limits::clock_offset_warned.count();
  if (off && !st.clock_off)
    log::warn({"the clock of the node ", name_of(self), " is ", st.clock_offset_ms / 1000, " s off: set one of the two; no lease depends on it"});
  st.clock_off = off;
}

/// What this node says of itself, when that is something new.
void tell_about_us(self_ptr self) {
  auto& st = self->state;
  const auto view = st.node->cluster->view();
  for (const auto& n : view.nodes())
    if (n.link() == v1::ClusterNode::SELF && is_up(self)) {
      auto said = n.info().SerializeAsString();
      if (said == st.said_info)
        return;
      v1::LinkMessage m;
      *m.mutable_node() = n.info();
      if (!send(lane_of(self, link_lane::control), std::move(m)))
        st.said_info = std::move(said);
    }
}

void on_up(self_ptr self, link_lane which, const runtime::link_up& up) {
  auto& st = self->state;
  auto& l = lane_of(self, which);
  l.protocol = up.protocol;
  l.redials = {};
  if (which == link_lane::bulk)
    return put_waiting(self);
  log::info(
    {"linked to the node ", up.other.node_name, " (", up.other.node_id, ", version ", up.other.version, ")", up.resumed ? ", as before" : ""});
  st.last_failure.clear();
  st.run = up.other.incarnation;
  st.was_up = true;
  st.fell_silent = false;
  st.revoked_us = false;
  st.down_since_ms = 0;
  st.dial_failed_ms = 0;
  st.refuse_at_ms = 0;
  st.gone_at_ms = 0;
  st.unreached = {};
  take_name(self, up.other.node_name);
  look_at_clock(self, up.other.time_ms);
  st.said_info.clear();
  tell_about_us(self);
  put_waiting(self);
  if (up.protocol >= link_protocol_with_bulk)
    dial(self, link_lane::bulk);
  if (!up.resumed && st.front)
    caf::anon_send(st.front, reload_atom_v, st.address.node_id());
  caf::anon_send(st.parent, tick_atom_v, std::uint64_t{0});
}

/// Of what has happened since, a hub that has started again knows nothing: those who follow here have to look at the store, which may be another one.
void end_watches(self_ptr self) {
  auto& st = self->state;
  for (auto i = st.asked.begin(); i != st.asked.end();) {
    auto& [id, q] = *i;
    if (!q.request->has_watch()) {
      ++i;
      continue;
    }
    auto r = std::make_shared<v1::LinkResponse>();
    r->mutable_page()->set_revision(q.request->watch().after());
    r->mutable_page()->set_too_old(true);
    q.answer.answer(link_response_ptr{r});
    st.due.cancel(id);
    i = st.asked.erase(i);
  }
}

/// What was asked may have arrived or not: it is asked again, under the same request ids. What was worked on is asked again, too.
void on_begun_anew(self_ptr self, link_lane which) {
  link_serve::forget_all(self, which);
  if (which == link_lane::control)
    end_watches(self);
  for (auto& [id, q] : self->state.asked)
    if (q.put == which)
      q.put.reset(); // until the link is up
}

/// The connection ends when the other node has read the last frame, or after a time if it does not read.
void leave(self_ptr self, lane& l) {
  l.connection->close();
  if (l.leaving)
    l.leaving->abort();
  l.leaving = std::exchange(l.connection, nullptr);
  l.leaving_until_ms = boot_ms(self) + limits::link_silence().count();
  l.writing = false;
}

void end_connection(self_ptr self, link_lane which) {
  auto& st = self->state;
  auto& l = lane_of(self, which);
  if (!l.connection)
    return;
  l.link->disconnected(l.connected);
  leave(self, l);
  if (which == link_lane::bulk)
    return;
  if (st.down_since_ms == 0)
    st.down_since_ms = boot_ms(self);
  else
    st.dial_failed_ms = boot_ms(self);
  refuse_while_away(self);
  if (!st.dials && st.gone_at_ms == 0)
    st.gone_at_ms = boot_ms(self) + limits::host_lease().count();
  caf::anon_send(st.parent, tick_atom_v, std::uint64_t{0});
}

/// The second one is dialled while the first is up, by the side that dials that one.
bool may_dial(self_ptr self, link_lane which) {
  const auto& st = self->state;
  const auto& l = lane_of(self, which);
  if (!st.dials || st.revoked || l.connection || l.dialling)
    return false;
  return which == link_lane::control || (is_up(self) && lane_of(self, link_lane::control).protocol >= link_protocol_with_bulk);
}

void plan_redial(self_ptr self, link_lane which) {
  auto& l = lane_of(self, which);
  if (!may_dial(self, which) || l.redial_at_ms != 0)
    return;
  runtime::restart_options waits;
  waits.backoff_min = limits::link_redial_min();
  waits.backoff_max = limits::link_redial_max();
  auto now = boot_ms(self);
  l.redial_at_ms = now + l.redials.after_failure(waits, std::chrono::milliseconds{now - l.dialled_ms}, now % 97).count();
}

/// Not of the moment: the next connection may end like this one. This side closes with `going` when the other node does not take what waits for it.
bool is_refusal(const runtime::link_dropped& dropped) {
  using runtime::link_reason;
  auto why = dropped.why.reason;
  return why != link_reason::duplicate && why != link_reason::silent && (why != link_reason::going || !dropped.by_other);
}

void take_events(self_ptr self, link_lane which) {
  auto& st = self->state;
  for (auto& e : lane_of(self, which).link->take_events()) {
    if (auto* up = std::get_if<runtime::link_up>(&e))
      on_up(self, which, *up);
    else if (std::holds_alternative<runtime::link_begun_anew<link_message>>(e))
      on_begun_anew(self, which);
    else if (auto* d = std::get_if<runtime::link_delivery<link_message>>(&e))
      take_message(self, which, *d->message, d->cost);
    else if (auto* dropped = std::get_if<runtime::link_dropped>(&e)) {
      auto why = concat({dropped->by_other ? "it says: " : "", escape_control(dropped->why.text, false)});
      st.last_failure = dropped->why.text;
      if (st.dials && dropped->by_other && dropped->why.reason == runtime::link_reason::revoked)
        on_revoked(self);
      if (is_refusal(*dropped))
        complain(self, why);
      else
        log::warn({"the link to the node ", name_of(self), " ends: ", why});
      if (!dropped->by_other)
        lane_of(self, which).writing = false; // the close does not wait for a node that reads nothing
      // Of a side that is not heard there is nothing to wait for, the end of a write least of all.
      if (dropped->why.reason == runtime::link_reason::silent && lane_of(self, which).connection)
        lane_of(self, which).connection->abort();
      if (which == link_lane::control)
        st.fell_silent = dropped->why.reason == runtime::link_reason::silent && !dropped->by_other;
      if (dropped->by_other || dropped->why.reason == runtime::link_reason::silent)
        end_connection(self, which);
    }
  }
}

/// Does what the link wants until it wants no more.
void pump_lane(self_ptr self, link_lane which) {
  auto& l = lane_of(self, which);
  take_events(self, which);
  while (l.connection && !l.writing) {
    auto f = l.link->next_frame(l.connected, link_now(self));
    if (!f)
      break;
    auto last = std::holds_alternative<runtime::link_close>(f->body);
    l.writing = true;
    l.connection->write(to_wire(*f));
    if (last)
      end_connection(self, which);
  }
  take_events(self, which);
}

/// Says goodbye on a connection that is not to be ours.
void turn_away(const link_connection_ptr& c, v1::LinkClose::Code code, std::string text) {
  v1::LinkFrame f;
  f.mutable_close()->set_code(code);
  f.mutable_close()->set_text(std::move(text));
  c->write(std::move(f));
  c->close();
}

void take_over(self_ptr self, const link_connection_ptr& c) {
  auto& st = self->state;
  auto& l = lane_of(self, c->lane());
  if (l.connection) {
    turn_away(l.connection, v1::LinkClose::DUPLICATE, "a newer connection stays");
    leave(self, l);
  }
  l.connection = c;
  l.connected = l.link->connected(link_now(self), st.node->clock->unix_ms());
}

void on_connected(self_ptr self, const link_connection_ptr& c) {
  auto& st = self->state;
  auto& l = lane_of(self, c->lane());
  l.dialling &= !c->dialled();
  if (st.revoked)
    return turn_away(c, v1::LinkClose::REVOKED, "the certificate of this node has been revoked");
  // A second one of the same direction is newer than what we know of the first.
  if (l.connection && l.connection->dialled() != c->dialled() && is_up(l) &&
      !runtime::which_connection_stays(st.node->facts.node_id, st.address.node_id(), c->dialled()))
    return turn_away(c, v1::LinkClose::DUPLICATE, "another connection stays");
  if (c->lane() == link_lane::control && !c->dialled() && l.connection && is_up(l)) {
    if (auto before = std::exchange(st.newcomer, c))
      turn_away(before, v1::LinkClose::DUPLICATE, "a newer connection stays");
    return;
  }
  take_over(self, c);
}

/// The connections of a run of a node end with it, so a further run that calls while the last one is heard is another node with the same id.
bool is_twin(self_ptr self, const v1::LinkFrame& first) {
  const auto& st = self->state;
  return is_up(self) && first.has_hello() && first.hello().incarnation() != st.run && boot_ms(self) - st.heard_ms < twin_patience().count();
}

/// True when the newcomer has the place of the connection before it, and what it said is to be heard.
bool meet_newcomer(self_ptr self, const link_news& news) {
  auto& st = self->state;
  if (news.kind != link_news::frame && news.kind != link_news::disconnected)
    return false;
  auto c = std::exchange(st.newcomer, nullptr);
  if (news.kind == link_news::disconnected)
    return false;
  if (!is_twin(self, news.body)) {
    take_over(self, c);
    return true;
  }
  turn_away(
    c, v1::LinkClose::WRONG_NODE,
    "another node with the id of this one is linked: its state directory is a copy. Stop one of the two; a further host joins with a new state "
    "directory");
  if (st.refused.add("twin", boot_ms(self)))
    log::warn({"a second node with the id of ", name_of(self), " is refused: the state directory of one is a copy of the other's"});
  return false;
}

void on_news(self_ptr self, const link_news& news) {
  auto& st = self->state;
  if (st.newcomer && news.connection == st.newcomer && !meet_newcomer(self, news))
    return pump(self);
  const auto which = news.lane;
  auto& l = lane_of(self, which);
  // Also of one that has been replaced meanwhile.
  if (news.kind == link_news::disconnected && !news.text.empty() && !news.connection->dialled())
    complain(self, news.text);
  if (news.kind == link_news::connected) {
    on_connected(self, news.connection);
  } else if (news.kind == link_news::not_reached) {
    l.dialling = false;
    on_not_reached(self, news.text);
    if (which == link_lane::control)
      st.dial_failed_ms = boot_ms(self);
    refuse_while_away(self);
  } else if (news.connection != l.connection) {
    if (news.kind == link_news::disconnected && news.connection == l.leaving)
      l.leaving = nullptr;
    return; // of one that is not ours any more
  } else if (news.kind == link_news::frame) {
    st.last_heard_ms = st.node->clock->unix_ms();
    st.heard_ms = boot_ms(self);
    l.link->received(l.connected, from_wire(news.body), link_now(self));
    take_events(self, which);
    if (l.connection)
      l.connection->read();
  } else if (news.kind == link_news::written) {
    l.writing = false;
  } else {
    if (!news.text.empty())
      st.last_failure = news.text;
    end_connection(self, which);
  }
  pump(self);
}

void on_batch(self_ptr self, const batch_ptr& b) {
  auto& st = self->state;
  if (st.revoked || !link_serve::is_home_of(self, b->scope()) || !concerns(*b, st.address.node_id()))
    return;
  auto& l = lane_of(self, link_lane::control);
  // Until it says itself how busy it is.
  for (const auto& p : b->patches())
    if (p.has_spawn() && p.spawn().status() == v1::Spawn::REQUESTED && p.spawn().node_id() == st.address.node_id())
      st.info.set_workers(st.info.workers() + 1);
  v1::LinkMessage m;
  *m.mutable_batch() = *b;
  // It reads everything again when it comes back.
  if (send(l, std::move(m)))
    l.link->forget();
  pump(self);
}

/// Until the scopes have done it: they may be starting again just now.
void tell_that_it_has_gone(self_ptr self) {
  auto& st = self->state;
  auto again = [self] {
    auto& s = self->state;
    if (s.gone_at_ms == 0 && !is_up(self))
      s.gone_at_ms = boot_ms(self) + limits::link_heartbeat().count();
    arm(self);
  };
  st.gone_at_ms = 0;
  if (!st.front)
    return again();
  self->request(st.front, limits::call_deadline_default() * 2, gone_atom_v, st.address.node_id())
    .then(
      [self](bool) {
        log::info({"what the node ", name_of(self), " held has ended"});
      },
      [again](caf::error&) { again(); });
}

void on_tick(self_ptr self) {
  auto& st = self->state;
  auto now = boot_ms(self);
  for (auto& l : st.lanes)
    l.link->tick(link_now(self));
  end_overdue(self);
  for (auto which : both) {
    auto& l = lane_of(self, which);
    if (l.redial_at_ms != 0 && l.redial_at_ms <= now)
      dial(self, which);
    if (l.dialling && now - l.dialled_ms >= dial_patience.count()) {
      l.dialled_ms = now; // not_reached follows; if it does not, this node cancels again after dial_patience
      st.node->links->cancel_dial(st.address.node_id(), which);
    }
    if (l.leaving && l.leaving_until_ms <= now)
      std::exchange(l.leaving, nullptr)->abort();
  }
  if (st.refuse_at_ms != 0 && st.refuse_at_ms <= now)
    refuse_while_away(self);
  if (st.held_until_ms != 0 && st.held_until_ms <= now) {
    st.held_until_ms = 0;
    put_waiting(self);
  }
  // This host slept, or stood still: the other had no chance to be heard.
  if (st.gone_at_ms != 0 && now - st.gone_at_ms > limits::link_silence().count())
    st.gone_at_ms = now + limits::restart_grace().count();
  if (st.gone_at_ms != 0 && st.gone_at_ms <= now) {
    log::warn({"the node ", name_of(self), " has not been heard of for ", limits::host_lease().count() / 1000, " s: what it held ends"});
    tell_that_it_has_gone(self);
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
  out->set_link(st.revoked || st.revoked_us ? v1::ClusterNode::REVOKED : is_up(self) ? v1::ClusterNode::UP : v1::ClusterNode::DOWN);
  out->set_last_heard_ms(st.last_heard_ms);
  const auto& control = st.lanes[static_cast<std::size_t>(link_lane::control)];
  if (auto took = control.link->round_trip())
    out->set_round_trip_us(took->count());
  out->set_clock_offset_ms(st.clock_offset_ms);
  out->set_unacknowledged(control.link->waiting_messages());
  link_away::describe(self, *out);
  return out;
}

void revoke(self_ptr self) {
  auto& st = self->state;
  st.revoked = true;
  for (auto& l : st.lanes)
    l.link->close(runtime::link_reason::revoked,
                  row_of(self).left() ? "the node has left the cluster" : "the certificate of this node has been revoked");
  pump(self);
  tell_that_it_has_gone(self);
}

void open_links(self_ptr self) {
  auto& st = self->state;
  runtime::link_options o;
  o.cluster_id = st.node->cluster->view().cluster_id();
  o.node_id = st.node->facts.node_id;
  o.node_name = st.node->facts.node_name;
  o.version = st.node->facts.version;
  o.incarnation = st.node->facts.incarnation;
  o.other_id = st.address.node_id();
  for (auto& l : st.lanes)
    l.link.emplace(o);
}

} // namespace

void link_internal::take_back(self_ptr self, std::uint64_t id, link_lane where) {
  v1::LinkMessage m;
  m.mutable_cancel()->set_id(id);
  send(lane_of(self, where), std::move(m)); // one that does not go out is answered for nobody
}

void link_internal::dial(self_ptr self, link_lane which) {
  auto& st = self->state;
  auto& l = lane_of(self, which);
  l.redial_at_ms = 0;
  if (!may_dial(self, which))
    return;
  l.dialling = true;
  l.dialled_ms = boot_ms(self);
  st.node->links->dial(st.address, which);
}

void link_internal::pump(self_ptr self) {
  for (auto which : both)
    pump_lane(self, which);
  // What the second lane brought may have given the first something to say.
  pump_lane(self, link_lane::control);
  for (auto which : both)
    plan_redial(self, which);
  arm(self);
}

link_actor::behavior_type link(self_ptr self, node_environment_ptr node, v1::NodeAddress address, bool dials, federation_actor parent,
                               watch_hub_actor watch_hub, processes_actor processes) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.node = std::move(node);
  st.address = std::move(address);
  st.dials = dials;
  st.parent = std::move(parent);
  st.watch = std::move(watch_hub);
  st.processes = std::move(processes);
  st.heard_ms = st.down_since_ms = boot_ms(self);
  st.revoked_us = dials && row_of(self).link() == v1::ClusterNode::REVOKED;
  open_links(self);
  // A node that starts does not know for how long the others have been away.
  if (!dials)
    st.gone_at_ms = boot_ms(self) + (limits::restart_grace() + limits::host_lease()).count();
  dial(self, link_lane::control);
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
            take_back(self, i->first, *i->second.put);
          s.asked.erase(i);
          break;
        }
      pump(self);
    },
    [self](const batch_ptr& b) { on_batch(self, b); },
    [self](const cluster_view_ptr& view) {
      // Members are told of all nodes by the home, and tell it of themselves.
      if (self->state.node->cluster->shared_home().empty()) {
        v1::LinkMessage m;
        *m.mutable_view() = *view;
        send(lane_of(self, link_lane::control), std::move(m));
      }
      tell_about_us(self);
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
      return runtime::self_row(self,
                               s.revoked     ? "revoked"
                               : is_up(self) ? "up"
                                             : "down",
                               concat({name_of(self), ": ", s.asked.size(), " asked, ", s.jobs.size(), " asked of us, ",
                                       s.lanes[0].link->waiting_messages() + s.lanes[1].link->waiting_messages(), " on their way",
                                       s.refused.summary("refused"), s.denied.summary("denied"), s.unreached.summary("not reached")}));
    },
  };
}

} // namespace swarm
