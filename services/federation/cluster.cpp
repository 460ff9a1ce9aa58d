#include "services/federation/cluster.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <vector>

#include <google/protobuf/util/json_util.h>

#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "services/security/private_file.hpp"

namespace swarm {

namespace {

std::filesystem::path directory_of(const state_dir& dir) { return dir.root / "cluster"; }
std::filesystem::path nodes_file(const state_dir& dir) { return directory_of(dir) / "nodes.json"; }

template <class T>
T value_or_throw(security_result<T> f) {
  if (!f)
    throw std::runtime_error(f.failure().text);
  return std::move(*f);
}

security_result<v1::ClusterView> read_nodes(const std::filesystem::path& file) {
  auto text = read_private_file(file, limits::cluster_file_bytes_max);
  if (!text)
    return text.failure();
  v1::ClusterView view;
  if (!*text)
    return view;
  if (auto read = google::protobuf::util::JsonStringToMessage(std::string{(*text)->view()}, &view); !read.ok())
    return security_failure{security_error::malformed, concat({file.string(), " is damaged: ", std::string{read.message()},
                                                               ". Remove it; the nodes are listed again as they connect"})};
  return view;
}

v1::ClusterNode* find(v1::ClusterView& view, const std::string& node_id) {
  for (auto& n : *view.mutable_nodes())
    if (n.info().node_id() == node_id)
      return &n;
  return nullptr;
}

/// Another node of the cluster has this name.
bool is_taken(const v1::ClusterView& view, const std::string& name, const std::string& node_id) {
  return std::any_of(view.nodes().begin(), view.nodes().end(), [&](const v1::ClusterNode& n) {
    return n.info().node_name() == name && n.info().node_id() != node_id && n.link() != v1::ClusterNode::REVOKED;
  });
}

/// What the list must keep over a restart: who is in the cluster, by which name, where members look for the home, and whether this node is in it.
std::vector<std::string> membership_of(const v1::ClusterView& view) {
  std::vector<std::string> out;
  for (const auto& n : view.nodes())
    out.push_back(
      concat({n.info().node_id(), " ", n.info().node_name(), " ", n.info().home_address(), n.link() == v1::ClusterNode::REVOKED ? " revoked" : ""}));
  return out;
}

} // namespace

template <class Take>
void cluster::load(const state_dir& dir, Take take) {
  take(&cluster::authority_, authority_store::open(directory_of(dir)));
  take(&cluster::tokens_, join_tokens::open(directory_of(dir)));
  take(&cluster::checkouts_, checkouts::open(dir.root / "checkouts.json"));
  take(&cluster::config_, read_node_config(dir.config_file()));
  take(&cluster::view_, read_nodes(nodes_file(dir)));
}

std::vector<std::string> cluster::obstacles(const state_dir& dir) {
  std::vector<std::string> out;
  load(dir, [&](auto, const auto& loaded) {
    if (!loaded)
      out.push_back(loaded.failure().text);
  });
  return out;
}

std::unique_ptr<cluster> cluster::open(const state_dir& dir, const node_facts& facts, const clock_port& clock) {
  std::unique_ptr<cluster> out{new cluster{dir, facts, clock}};
  load(dir, [&](auto member, auto loaded) { out.get()->*member = value_or_throw(std::move(loaded)); });
  out->self_.set_node_id(facts.node_id);
  out->self_.set_node_name(facts.node_name);
  out->self_.set_version(facts.version);
  out->take_facts();
  return out;
}

std::optional<security_failure> cluster::write_nodes(const v1::ClusterView& view) const {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  std::string text;
  auto printed = google::protobuf::util::MessageToJsonString(view, &text, options);
  if (!printed.ok())
    return security_failure{security_error::failed, std::string{printed.message()}};
  if (text.size() > limits::cluster_file_bytes_max)
    return security_failure{security_error::too_many, "the list of nodes is longer than a node reads"};
  return write_private_file(nodes_file(dir_), text);
}

/// Brings the list of nodes in line with the authority's files, which decide what this node's place in the cluster is.
void cluster::take_facts() {
  auto facts = authority_->facts();
  std::lock_guard guard{mutex_};
  home_.clear();
  if (!facts) {
    view_.Clear();
    if (auto failed = remove_private_file(nodes_file(dir_)))
      log::warn({"the list of nodes is not removed: ", failed->text});
    self_.clear_address();
    self_.clear_draining();
    self_.clear_home_address();
    self_.set_node_name(facts_.node_name);
    return;
  }
  const auto before = membership_of(view_);
  view_.set_cluster_id(facts->cluster_id);
  if (!facts->is_home())
    home_ = facts->home_id;
  self_.set_address(facts->listen);
  self_.set_home_address(facts->is_home() ? std::string{} : facts->home_address);
  auto add = [&](const std::string& id) -> v1::ClusterNode& {
    if (auto* known = find(view_, id))
      return *known;
    auto& n = *view_.add_nodes();
    n.mutable_info()->set_node_id(id);
    n.set_joined_at_ms(clock_.unix_ms());
    return n;
  };
  auto& home = add(facts->home_id);
  if (home.info().node_name().empty())
    home.mutable_info()->set_node_name(facts->home_name);
  home.mutable_info()->set_address(facts->home_address);
  auto& self = add(facts->node_id);
  self_.set_draining(self.info().draining()); // the home decides it; the list keeps it over a restart
  // So it is with the name. The home refuses one that is in use, and this node does not wait to hear that.
  if (const auto& name = self.info().node_name(); !name.empty() && is_taken(view_, self_.node_name(), facts->node_id))
    self_.set_node_name(name);
  *self.mutable_info() = self_;
  if (auto mine = authority_->credentials())
    self.set_certificate_ends_ms(mine->certificate.not_after_ms);
  for (auto& n : *view_.mutable_nodes()) {
    const auto& id = n.info().node_id();
    n.set_home(id == facts->home_id);
    n.set_link(id == facts->node_id                                              ? v1::ClusterNode::SELF
               : authority_->revoked(id) || n.link() == v1::ClusterNode::REVOKED ? v1::ClusterNode::REVOKED
               : facts->is_home() || n.home()                                    ? v1::ClusterNode::DOWN
                                                                                 : v1::ClusterNode::NONE);
  }
  if (before != membership_of(view_))
    if (auto failed = write_nodes(view_))
      log::warn({"the list of nodes is not kept: ", failed->text});
}

void cluster::reload() { take_facts(); }

bool cluster::is_shared(std::string_view scope) const { return is_named_scope(scope); }

std::string cluster::home_of(std::string_view scope) const { return is_shared(scope) ? shared_home() : std::string{}; }

std::string cluster::name() const {
  std::lock_guard guard{mutex_};
  return self_.node_name();
}

std::string cluster::shared_home() const {
  std::lock_guard guard{mutex_};
  return home_;
}

v1::ClusterView cluster::view() const {
  std::lock_guard guard{mutex_};
  auto out = view_;
  if (home_.empty() && !out.cluster_id().empty()) {
    out.set_authority_unlocked(!authority_->locked(clock_.unix_ms()));
    for (auto& n : *out.mutable_nodes()) {
      n.set_left(n.link() == v1::ClusterNode::REVOKED && !authority_->revoked(n.info().node_id()));
      n.set_down_reason(n.link() == v1::ClusterNode::SELF ? unheard_ : "");
    }
  }
  return out;
}

void cluster::cannot_listen(std::string why) {
  std::lock_guard guard{mutex_};
  unheard_ = std::move(why);
}

void cluster::describe(v1::NodeInfo info) {
  std::lock_guard guard{mutex_};
  info.set_node_id(facts_.node_id);
  info.set_node_name(self_.node_name());
  info.set_version(facts_.version);
  info.set_address(self_.address());
  info.set_home_address(self_.home_address());
  info.set_draining(self_.draining());
  for (const auto& [name, value] : config_.labels) {
    auto& l = *info.add_labels();
    l.set_name(name);
    l.set_value(value);
  }
  std::sort(info.mutable_labels()->begin(), info.mutable_labels()->end(), [](const auto& a, const auto& b) { return a.name() < b.name(); });
  for (auto& scope : checkouts_->scopes())
    info.add_checkouts(std::move(scope));
  self_ = std::move(info);
  if (auto* me = find(view_, facts_.node_id))
    *me->mutable_info() = self_;
}

void cluster::checkouts_changed() {
  {
    std::lock_guard guard{mutex_};
    self_.clear_checkouts();
    for (auto& scope : checkouts_->scopes())
      self_.add_checkouts(std::move(scope));
    if (auto* me = find(view_, facts_.node_id))
      *me->mutable_info() = self_;
  }
  std::lock_guard guard{listening_};
  if (changed_)
    changed_();
}

void cluster::busy(std::uint32_t workers) {
  {
    std::lock_guard guard{mutex_};
    if (self_.workers() == workers)
      return;
    self_.set_workers(workers);
    if (auto* me = find(view_, facts_.node_id))
      *me->mutable_info() = self_;
  }
  std::lock_guard guard{listening_};
  if (changed_)
    changed_();
}

void cluster::placed(const std::string& node_id) {
  std::lock_guard guard{mutex_};
  if (auto* n = find(view_, node_id))
    n->mutable_info()->set_workers(n->info().workers() + 1);
  if (node_id == facts_.node_id)
    self_.set_workers(self_.workers() + 1);
}

void cluster::listen(std::function<void()> changed) {
  std::lock_guard guard{listening_};
  changed_ = std::move(changed);
}

void cluster::on_unlocked(std::function<void()> unlocked) {
  std::lock_guard guard{listening_};
  unlocked_ = std::move(unlocked);
}

std::string cluster::checkout_of(std::string_view scope) const { return checkouts_->root_for_worker(scope); }

void cluster::keep(const v1::ClusterView& said) {
  if (keep_nodes(said)) {
    std::lock_guard guard{listening_};
    if (unlocked_)
      unlocked_();
  }
}

namespace {

/// Takes over what a node reports of itself and of its link. The home decides membership, draining and addresses, and may know them newer than the
/// report, so those stay.
void take_report(v1::ClusterNode& known, const v1::ClusterNode& said) {
  if (said.link() == v1::ClusterNode::REVOKED || known.link() == v1::ClusterNode::REVOKED)
    return;
  auto address = known.info().address();
  auto draining = known.info().draining();
  *known.mutable_info() = said.info();
  known.mutable_info()->set_address(address);
  known.mutable_info()->set_draining(draining);
  if (said.link() != v1::ClusterNode::LINK_UNSPECIFIED && said.link() != v1::ClusterNode::SELF)
    known.set_link(said.link());
  known.set_last_heard_ms(said.last_heard_ms());
  known.set_round_trip_us(said.round_trip_us());
  known.set_clock_offset_ms(said.clock_offset_ms());
  known.set_unacknowledged(said.unacknowledged());
}

/// The same for a member's row of the home. A home may revoke this node and let it join again, so both changes of the link are taken over.
void take_way_home(v1::ClusterNode& home, const v1::ClusterNode& said) {
  if (said.link() == v1::ClusterNode::REVOKED || said.link() == v1::ClusterNode::UP)
    home.set_link(said.link());
  take_report(home, said);
}

/// Removes the nodes that the home no longer lists.
void forget_others(v1::ClusterView& view, const v1::ClusterView& said, const std::string& self) {
  std::set<std::string> named{self};
  for (const auto& n : said.nodes())
    named.insert(n.info().node_id());
  auto& rows = *view.mutable_nodes();
  rows.erase(std::remove_if(rows.begin(), rows.end(), [&](const auto& n) { return !named.contains(n.info().node_id()); }), rows.end());
}

/// Makes room for one more node: drops the first revoked one from a full list. The authority keeps revocations in a list of its own.
void make_room(v1::ClusterView& view) {
  if (static_cast<std::size_t>(view.nodes_size()) < limits::nodes_max)
    return;
  auto& rows = *view.mutable_nodes();
  auto gone = std::find_if(rows.begin(), rows.end(), [](const auto& n) { return n.link() == v1::ClusterNode::REVOKED; });
  if (gone != rows.end())
    rows.erase(gone);
}

} // namespace

/// The home decides by which name the cluster knows this node, and whether it gets new workers.
void cluster::take_decisions(const v1::NodeInfo& said) {
  if (!said.node_name().empty() && said.node_name() != self_.node_name()) {
    self_.set_node_name(said.node_name());
    if (is_taken(view_, facts_.node_name, facts_.node_id))
      log::warn({"the cluster knows this node as ", self_.node_name(), " and not as ", facts_.node_name, ", which is the name of another node"});
  }
  self_.set_draining(said.draining());
  if (auto* me = find(view_, facts_.node_id))
    *me->mutable_info() = self_;
}

/// True when this node's certificate is due for renewal and the home's authority is unlocked.
bool cluster::keep_nodes(const v1::ClusterView& said) {
  std::lock_guard guard{mutex_};
  if (said.cluster_id() != view_.cluster_id() || said.cluster_id().empty())
    return false;
  const auto before = membership_of(view_);
  // The home sends a view in which its own row is marked SELF. Any other view is this node's own, with what its linked nodes have
  // reported.
  auto from_home = !home_.empty() && std::any_of(said.nodes().begin(), said.nodes().end(),
                                                 [&](const auto& n) { return n.info().node_id() == home_ && n.link() == v1::ClusterNode::SELF; });
  // React to every such view, not only a change from locked to unlocked, which this node may have missed.
  auto unlocked = from_home && said.authority_unlocked() && authority_->renewal_due(clock_.unix_ms());
  if (from_home)
    view_.set_authority_unlocked(said.authority_unlocked());
  for (const auto& n : said.nodes()) {
    const auto& id = n.info().node_id();
    if (from_home && id == facts_.node_id)
      take_decisions(n.info());
    if (id.empty() || id == facts_.node_id)
      continue;
    auto* known = find(view_, id);
    if (home_.empty()) {
      if (!known && static_cast<std::size_t>(view_.nodes_size()) < limits::nodes_max)
        known = view_.add_nodes(); // the home's own list was lost
      if (known)
        take_report(*known, n);
      continue;
    }
    if (!from_home) {
      if (known && id == home_)
        take_way_home(*known, n);
      continue;
    }
    if (!known && static_cast<std::size_t>(view_.nodes_size()) < limits::nodes_max)
      known = view_.add_nodes();
    if (!known)
      continue;
    // The home's row replaces this node's, except for the state of this node's own link to the home.
    auto mine = *known;
    *known = n;
    known->set_home(id == home_);
    // Of another member it knows whether the home is linked to it.
    known->set_link(n.link() == v1::ClusterNode::REVOKED || n.link() == v1::ClusterNode::DOWN ? n.link() : v1::ClusterNode::NONE);
    if (id == home_) {
      known->set_link(mine.link() != v1::ClusterNode::LINK_UNSPECIFIED ? mine.link() : v1::ClusterNode::NONE);
      known->set_last_heard_ms(mine.last_heard_ms());
      known->set_round_trip_us(mine.round_trip_us());
      known->set_clock_offset_ms(mine.clock_offset_ms());
      known->set_unacknowledged(mine.unacknowledged());
    }
  }
  if (from_home)
    forget_others(view_, said, facts_.node_id);
  // The file holds who is in the cluster. The states of links change too often to be written each time.
  if (before != membership_of(view_))
    if (auto failed = write_nodes(view_))
      log::warn({"the list of nodes is not kept: ", failed->text});
  return unlocked;
}

std::optional<security_failure> cluster::may_admit(const std::string& node_id, const std::string& name, bool again) const {
  std::lock_guard guard{mutex_};
  if (!again && authority_->revoked(node_id))
    return security_failure{security_error::wrong_state, "this node was revoked for good: it can join as a new one, with a new state directory"};
  for (const auto& n : view_.nodes()) {
    auto has_left = n.link() == v1::ClusterNode::REVOKED;
    // A node whose certificate has ended while it was off can return only by joining again.
    auto has_ended = n.certificate_ends_ms() != 0 && n.certificate_ends_ms() < clock_.unix_ms();
    if (n.info().node_id() == node_id && !again && !has_left && !has_ended)
      return security_failure{security_error::wrong_state,
                              "the cluster has a node with this id already; a host that has lost its certificate joins as a "
                              "new node, with a new state directory"};
  }
  if (is_taken(view_, name, node_id))
    // Without the name, which would make one reason of the complaints many.
    return security_failure{security_error::wrong_state,
                            "the cluster has a node of this name already. On the host that wants to join, whose node runs under it: swarmctl down, "
                            "then join again with another --node-name"};
  auto others = std::count_if(view_.nodes().begin(), view_.nodes().end(),
                              [&](const auto& n) { return n.link() != v1::ClusterNode::REVOKED && n.info().node_id() != node_id; });
  if (!again && static_cast<std::size_t>(others) >= limits::nodes_max)
    return security_failure{security_error::too_many, concat({"the cluster has ", limits::nodes_max,
                                                              " nodes, which is the most: `swarmctl leave` on one, or `swarmctl node revoke` here"})};
  return std::nullopt;
}

std::optional<security_failure> cluster::admit(v1::NodeInfo info, std::int64_t certificate_ends_ms) {
  std::lock_guard guard{mutex_};
  auto* known = find(view_, info.node_id());
  if (!known) {
    make_room(view_);
    known = view_.add_nodes();
  }
  if (known->link() == v1::ClusterNode::LINK_UNSPECIFIED || known->link() == v1::ClusterNode::REVOKED) {
    known->set_joined_at_ms(clock_.unix_ms());
    known->set_link(v1::ClusterNode::DOWN);
  }
  *known->mutable_info() = std::move(info);
  known->set_certificate_ends_ms(certificate_ends_ms);
  return write_nodes(view_);
}

/// A node of the home's own list; a failure on a member, which may not change the list. Under the mutex.
security_result<v1::ClusterNode*> cluster::named(const std::string& id_or_name) {
  if (view_.cluster_id().empty())
    return security_failure{security_error::wrong_state, "this node is in no cluster"};
  if (!home_.empty())
    return security_failure{security_error::wrong_state, "only the home of the cluster decides that; ask there"};
  for (auto& n : *view_.mutable_nodes())
    if (n.info().node_id() == id_or_name || (n.info().node_name() == id_or_name && n.link() != v1::ClusterNode::REVOKED))
      return &n;
  for (const auto& n : view_.nodes())
    if (n.info().node_name() == id_or_name)
      return security_failure{security_error::wrong_state,
                              id_or_name +
                                (authority_->revoked(n.info().node_id()) ? " was revoked already" : " has left the cluster: there is nothing to do")};
  return security_failure{security_error::wrong_state, concat({"no node is called ", id_or_name, "; `swarmctl nodes` lists them"})};
}

std::optional<security_failure> cluster::drain(const std::string& id_or_name, bool off) {
  std::lock_guard guard{mutex_};
  auto found = named(id_or_name);
  if (!found)
    return found.failure();
  (*found)->mutable_info()->set_draining(!off);
  if ((*found)->link() == v1::ClusterNode::SELF)
    self_.set_draining(!off);
  return write_nodes(view_);
}

void cluster::renewed(const std::string& node_id, std::int64_t certificate_ends_ms) {
  std::lock_guard guard{mutex_};
  if (auto* n = find(view_, node_id)) {
    n->set_certificate_ends_ms(certificate_ends_ms);
    if (auto failed = write_nodes(view_))
      log::warn({"the list of nodes is not kept: ", failed->text});
  }
}

std::optional<security_failure> cluster::retire(const std::string& node_id) {
  std::lock_guard guard{mutex_};
  auto known = named(node_id);
  if (!known)
    return known.failure();
  auto ends = (*known)->certificate_ends_ms();
  if (auto failed = authority_->retire(node_id, ends != 0 ? ends : clock_.unix_ms() + limits::node_certificate_lifetime().count()))
    return failed;
  (*known)->set_link(v1::ClusterNode::REVOKED);
  return write_nodes(view_);
}

std::optional<security_failure> cluster::revoke(const std::string& id_or_name) {
  std::lock_guard guard{mutex_};
  auto known = named(id_or_name);
  if (!known)
    return known.failure();
  auto* found = *known;
  if (found->link() == v1::ClusterNode::SELF)
    return security_failure{security_error::wrong_state, "the home cannot revoke itself"};
  if (auto failed = authority_->revoke(found->info().node_id(), clock_.unix_ms()))
    return failed;
  found->set_link(v1::ClusterNode::REVOKED);
  return write_nodes(view_);
}

} // namespace swarm
