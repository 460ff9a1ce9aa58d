// A member's link to its home: what becomes of what is asked while the home is not reached.
#include "actors/fabric/cluster/federation.hpp"
#include "actors/fabric/cluster/link.hpp"
#include "actors/fabric/watch_hub.hpp"
#include "actors/runtime/error_text.hpp"
#include "tests/support/fabric_world.hpp"

#include <deque>
#include <functional>

using namespace swarm;
using namespace std::chrono_literals;

namespace {

class wire final : public link_connection {
public:
  const std::string& node_id() const noexcept override { return home; }
  bool dialled() const noexcept override { return true; }
  link_lane lane() const noexcept override { return link_lane::control; }
  void write(v1::LinkFrame f) override { written.push_back(std::move(f)); }
  void read() override {}
  void close() override {}
  void abort() override {}

  std::string home = "a";
  std::deque<v1::LinkFrame> written;
};

struct dials final : link_port {
  void listen(link_listener) override {}
  void dial(const v1::NodeAddress&, link_lane lane) override { count += lane == link_lane::control; }
  void cancel_dial(const std::string&, link_lane) override {}
  int count = 0;
};

struct membership final : cluster_port {
  std::string home_of(std::string_view) const override { return "a"; }
  std::string shared_home() const override { return "a"; }
  bool is_shared(std::string_view) const override { return true; }
  v1::ClusterView view() const override {
    v1::ClusterView out;
    out.set_cluster_id("c");
    for (const auto& n : nodes)
      *out.add_nodes() = n;
    return out;
  }
  void keep(const v1::ClusterView&) override {}
  void busy(std::uint32_t) override {}
  void placed(const std::string&) override {}
  void listen(std::function<void()>) override {}
  std::string checkout_of(std::string_view) const override { return {}; }
  const domain::accept_policy& accepts() const override { return policy; }
  domain::accept_policy policy;
  std::vector<v1::ClusterNode> nodes;
};

link_request_ptr asked_by(v1::Principal::Kind who, bool command) {
  auto r = std::make_shared<v1::LinkRequest>();
  r->set_timeout_ms(30'000);
  r->mutable_principal()->set_kind(who);
  if (command)
    r->mutable_execute()->mutable_command()->set_scope("shared");
  else
    r->mutable_query()->set_scope("shared");
  return r;
}
link_request_ptr query() { return asked_by(v1::Principal::OPERATOR, false); }
link_request_ptr command() { return asked_by(v1::Principal::OPERATOR, true); }

/// Somebody here follows a scope of the home.
link_request_ptr watch_after(std::uint64_t revision) {
  auto r = std::make_shared<v1::LinkRequest>();
  r->set_timeout_ms(60'000);
  r->mutable_principal()->set_kind(v1::Principal::NODE);
  r->mutable_watch()->set_scope("shared");
  r->mutable_watch()->set_after(revision);
  r->mutable_watch()->set_wait(true);
  return r;
}

/// What came back.
struct answer {
  std::optional<caf::error> failed;
  link_response_ptr response;
  bool waits() const { return !failed.has_value() && !response; }
  bool is(errc e) const { return failed && *failed == e; }
  std::string text() const { return failed ? runtime::error_text(*failed) : ""; }
};

struct wired_node {
  wired_node() {
    w.advance(1s); // like a machine that has been on for a while
    environment->facts.node_id = "b";
    environment->facts.node_name = "b";
    environment->facts.version = "1";
    environment->clock = &w.clock;
    environment->links = &links;
    environment->cluster = &cluster;
  }

  void tell(link_news::kind_t kind, link_connection_ptr of = nullptr, v1::LinkFrame frame = {}, std::string text = {}) {
    hears(std::make_shared<const link_news>(link_news{kind, std::move(of), "a", link_lane::control, std::move(frame), std::move(text)}));
  }
  void refuse_dial() { tell(link_news::not_reached, nullptr, {}, "10.0.0.1:7400: connection refused"); }
  /// The home takes the connection, and from then on what is asked, without an answer.
  void link_up() {
    runtime::link_options o;
    o.cluster_id = "c";
    o.version = "1";
    o.node_id = o.node_name = "a";
    o.other_id = "b";
    o.incarnation = ++runs; // it has been started again
    federation_link far{o};
    connection = std::make_shared<wire>();
    tell(link_news::connected, connection);
    auto at = far.connected(runtime::link_time{}, w.clock.unix_ms());
    for (bool busy = true; busy;) {
      busy = !connection->written.empty();
      if (busy) {
        far.received(at, from_wire(connection->written.front()), runtime::link_time{});
        connection->written.pop_front();
        tell(link_news::written, connection);
      }
      while (auto f = far.next_frame(at, runtime::link_time{})) {
        tell(link_news::frame, connection, to_wire(*f));
        busy = true;
      }
    }
  }
  void link_down() { tell(link_news::disconnected, std::exchange(connection, nullptr)); }

  /// Each dial is refused at once.
  void pass(std::chrono::milliseconds d) {
    for (auto left = d; left > 0ms; left -= 50ms) {
      w.advance(std::min<std::chrono::milliseconds>(left, 50ms));
      if (std::exchange(refused, links.count) != links.count && !connection)
        refuse_dial();
    }
  }

  /// Until the last dial is longer ago than the shortest pause between two.
  void rest() {
    int before = 0;
    do {
      before = links.count;
      pass(2 * limits::link_redial_min());
    } while (links.count != before);
  }

  test::quiet log;
  test::fabric_world::sim w;
  std::shared_ptr<node_environment> environment = std::make_shared<node_environment>();
  dials links;
  membership cluster;
  std::shared_ptr<wire> connection;
  std::function<void(const link_news_ptr&)> hears;
  int refused = 0;
  std::uint64_t runs = 0;
};

struct member : wired_node {
  member() {
    v1::NodeAddress home;
    home.set_node_id("a");
    home.set_node_name("a");
    home.set_address("10.0.0.1:7400");
    hears = [this](const link_news_ptr& news) { w.tell(subject, news); };
    subject = w.sys.spawn(swarm::link, node_environment_ptr{environment}, home, true, federation_actor{}, watch_hub_actor{}, processes_actor{});
    w.settle();
  }
  ~member() { w.end(subject); }

  std::shared_ptr<answer> ask(const link_request_ptr& r) {
    auto out = std::make_shared<answer>();
    w.sys.spawn([out, r, to = subject](caf::event_based_actor* self) {
      self->request(to, caf::infinite, r)
        .then([out](const link_response_ptr& said) { out->response = said; }, [out](caf::error& e) { out->failed = std::move(e); });
    });
    w.settle();
    return out;
  }
  v1::ClusterNode row() {
    auto said = w.ask<cluster_node_ptr>(subject, status_atom_v);
    REQUIRE(said.has_value());
    return *std::get<cluster_node_ptr>(*said);
  }

  link_actor subject;
};

/// The same with what chooses between links.
struct federated_member : wired_node {
  federated_member() {
    cluster.nodes.resize(2);
    auto& home = cluster.nodes[0];
    home.mutable_info()->set_node_id("a");
    home.mutable_info()->set_node_name("a");
    home.mutable_info()->set_address("10.0.0.1:7400");
    home.set_link(v1::ClusterNode::DOWN);
    home.set_home(true);
    cluster.nodes[1].mutable_info()->set_node_id("b");
    cluster.nodes[1].set_link(v1::ClusterNode::SELF);
    watch = w.sys.spawn(watch_hub, std::uint64_t{1'000});
    hears = [this](const link_news_ptr& news) { w.tell(subject, news); };
    subject = w.sys.spawn(federation, node_environment_ptr{environment}, watch, processes_actor{});
    w.settle();
  }
  ~federated_member() {
    w.end(subject);
    w.end(watch);
  }

  /// What becomes of the question for a terminal that nobody on this node knows.
  std::shared_ptr<std::optional<caf::error>> find() {
    auto out = std::make_shared<std::optional<caf::error>>();
    auto person = std::make_shared<v1::Principal>();
    person->set_kind(v1::Principal::OPERATOR);
    w.sys.spawn([out, person, to = subject](caf::event_based_actor* self) {
      self->request(to, caf::infinite, pty_atom_v, std::string{"t"}, principal_ptr{person})
        .then([](const pty_actor&) {}, [out](caf::error& e) { *out = std::move(e); });
    });
    w.settle();
    return out;
  }

  watch_hub_actor watch;
  federation_actor subject;
};

} // namespace

TEST_CASE("a terminal is waited for while a link that was lost a moment ago is likely to come back, and later it is said who was not asked") {
  federated_member b;
  b.link_up();
  SUBCASE("it broke") {}
  SUBCASE("this node was suspended, and had heard of nothing for long") { b.w.advance(48s); }
  b.link_down();
  auto soon = b.find();
  REQUIRE(soon->has_value());
  CHECK_MESSAGE(**soon == errc::unavailable, runtime::error_text(**soon));
  b.pass(limits::restart_grace() + 1s);
  auto later = b.find();
  REQUIRE(later->has_value());
  CHECK(**later == errc::not_found);
  CHECK_MESSAGE(runtime::error_text(**later).find("not linked, and so not asked: a; ") != std::string::npos, runtime::error_text(**later));
}

TEST_CASE("a node that is linked and does not answer may have the terminal") {
  federated_member b;
  b.link_up();
  auto asked = b.find();
  CHECK_FALSE(asked->has_value());
  b.w.advance(limits::call_deadline_default());
  REQUIRE(asked->has_value());
  CHECK_MESSAGE(**asked == errc::unavailable, runtime::error_text(**asked));
}

TEST_CASE("what a client asks of a home that is away is refused after a restart's time, also what waits then, and says for how long and why") {
  member b;
  b.link_up();
  b.link_down();
  b.pass(1s);
  auto first = b.ask(query()), second = b.ask(command());
  b.pass(1'500ms);
  CHECK(first->waits());
  CHECK(second->waits());
  b.pass(1s);
  CHECK(first->is(errc::away));
  CHECK(second->is(errc::away));
  CHECK_MESSAGE(first->text().starts_with("the home of this scope, a, has not been reached for 3.0 s (10.0.0.1:7400: connection refused)"),
                first->text());
  b.pass(60s);
  auto later = b.ask(command());
  b.pass(50ms);
  CHECK(later->is(errc::away));
}

TEST_CASE("a home that hangs is away as soon as its link is given up, and has been since it was heard last") {
  member b;
  b.link_up();
  auto asked = b.ask(query());
  b.pass(limits::link_silence() - 1s); // its system takes the connection that is dialled then, and nobody answers on it
  CHECK(asked->waits());
  b.pass(1s + limits::home_away_dial + 100ms);
  CHECK(asked->is(errc::away));
  CHECK_MESSAGE(asked->text().starts_with("the home of this scope, a, has not been reached for 16."), asked->text());
  CHECK_MESSAGE(asked->text().find("(nothing was heard for 15.0 s)") != std::string::npos, asked->text());
}

TEST_CASE("a node that has just started gives its first dial the time that it may take") {
  member b;
  auto early = b.ask(query());
  b.pass(limits::home_away_after() + 1s);
  CHECK(early->waits());
  b.pass(limits::link_connect_timeout);
  CHECK(early->is(errc::away));
}

TEST_CASE("a home that the first dial of a node does not reach is down from then on, with the reason") {
  member b;
  CHECK(b.row().down_ms() == 0);
  b.refuse_dial();
  b.pass(47s);
  CHECK(b.row().link() == v1::ClusterNode::DOWN);
  CHECK(b.row().last_heard_ms() == 0);
  CHECK(b.row().down_ms() == 47'000);
  CHECK(b.row().down_reason() == "10.0.0.1:7400: connection refused");
  b.link_up();
  CHECK(b.row().down_ms() == 0);
  CHECK(b.row().down_reason().empty());
}

TEST_CASE("a home whose first dial is not answered is down when that one may be over") {
  member b;
  b.w.advance_by(limits::link_connect_timeout - 100ms, 100ms);
  CHECK(b.row().down_ms() == 0);
  b.w.advance_by(100ms, 100ms);
  CHECK(b.row().down_ms() > 0);
}

TEST_CASE("what the node asks for itself waits for the home: not to know is no no") {
  member b;
  b.link_up();
  b.link_down();
  auto does = b.ask(asked_by(v1::Principal::NODE, true)), looks_up = b.ask(asked_by(v1::Principal::NODE, false));
  b.pass(limits::link_silence());
  CHECK(does->waits());
  CHECK(looks_up->waits());
  b.pass(16s);
  CHECK(does->is(errc::unavailable));
  CHECK(looks_up->is(errc::unavailable));
}

TEST_CASE("a command that was put may have happened: it keeps its deadline, and its outcome is unknown") {
  member b;
  b.link_up();
  auto put = b.ask(command()), looked = b.ask(query());
  b.link_down();
  b.pass(limits::home_away_after() + limits::home_away_dial);
  CHECK(put->waits());
  CHECK(looked->is(errc::away));
  b.pass(30s);
  CHECK(put->is(errc::unknown_outcome));
}

TEST_CASE("a client that asks has an away home dialled at once, and is answered by it if it is back") {
  member b;
  b.link_up();
  b.link_down();
  b.pass(60s); // the pause between two dials is long by now
  b.rest();
  auto before = b.links.count;
  auto asked = b.ask(command());
  CHECK(b.links.count == before + 1);
  CHECK(asked->waits());
  b.link_up();
  b.pass(limits::home_away_dial);
  CHECK(asked->waits()); // it was put
  CHECK(b.ask(command())->waits());
}

TEST_CASE("a home that answers nothing, not even with a refusal, is waited for no longer than a moment") {
  member b;
  b.link_up();
  b.link_down();
  b.pass(60s);
  b.rest();
  auto asked = b.ask(query());
  b.w.advance(limits::home_away_dial - 50ms);
  CHECK(asked->waits());
  b.w.advance(50ms);
  CHECK(asked->is(errc::away));
}

TEST_CASE("who follows a scope of a home that has started again is sent to its store, also who asked while it was away") {
  member b;
  b.link_up();
  auto before = b.ask(watch_after(7));
  b.link_down();
  auto meanwhile = b.ask(watch_after(8));
  b.pass(1s);
  CHECK(before->waits());
  CHECK(meanwhile->waits());
  b.link_up();
  for (const auto& [asked, after] : {std::pair{before, 7u}, std::pair{meanwhile, 8u}}) {
    REQUIRE(asked->response);
    CHECK(asked->response->page().too_old());
    CHECK(asked->response->page().revision() == after);
  }
  CHECK(b.ask(watch_after(9))->waits());
}
