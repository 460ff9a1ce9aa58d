// The proxy of another node's terminal: what it asks of that node.
#include "actors/fabric/cluster/remote.hpp"
#include "tests/support/fabric_world.hpp"

using namespace swarm;

namespace {

/// Stands in for the links: notes what is asked, and answers reads with what the test has ready, in order; one without an answer waits.
struct far_node {
  std::vector<v1::ReadPtyRequest> reads;
  std::deque<std::string> output;
};
struct far_state {
  static inline const char* name = "federation";
  std::vector<runtime::parked<link_response_ptr>> waiting;
};

federation_actor::behavior_type far(federation_actor::stateful_pointer<far_state> self, std::shared_ptr<far_node> node) {
  return {
    [](const link_news_ptr&) {},
    [](const cluster_view_ptr&) {},
    [self, node](const std::string&, const link_request_ptr& r) -> caf::result<link_response_ptr> {
      node->reads.push_back(r->read_pty());
      if (node->output.empty()) {
        auto promise = self->make_response_promise<link_response_ptr>();
        self->state.waiting.emplace_back(promise);
        return promise;
      }
      auto said = std::make_shared<v1::LinkResponse>();
      said->mutable_chunk()->set_offset(r->read_pty().from());
      said->mutable_chunk()->set_data(node->output.front());
      node->output.pop_front();
      return link_response_ptr{said};
    },
    [](abort_atom, const std::string&, const link_request_ptr&) {},
    [](const commit_ptr&) {},
    [](attach_atom, const front_actor&) {},
    [](pty_atom, const std::string&, const principal_ptr&) -> caf::result<pty_actor> { return fail(errc::not_found); },
    [](list_atom, const std::string&, const principal_ptr&) { return std::vector<pty_info_ptr>{}; },
    [](tree_atom, const std::string&) -> caf::result<graph_ptr> { return fail(errc::unavailable); },
    [](list_atom) -> caf::result<cluster_view_ptr> { return fail(errc::unavailable); },
    [](tick_atom, std::uint64_t) {},
    [](tree_atom) { return std::vector<runtime::tree_entry>{}; },
  };
}

struct remote_world {
  remote_world() {
    federation = w.sys.spawn(far, node);
    v1::PtyInfo info;
    info.set_id("t");
    terminal = w.sys.spawn(remote_pty, federation, std::string{"b"}, info, std::make_shared<const v1::Principal>());
    w.settle();
  }
  ~remote_world() {
    w.end(terminal);
    w.end(federation);
  }
  /// Follows from there; returns how much the other node was asked for.
  std::uint64_t follow(std::uint64_t from, bool tail = false) {
    auto read = std::make_shared<pty_read>();
    read->from = from;
    read->wait = true;
    read->tail = tail;
    w.sys.spawn([t = terminal, read](caf::event_based_actor* self) {
      self->request(t, caf::infinite, pty_read_ptr{read}).then([](const pty_chunk_ptr&) {}, [](caf::error&) {});
    });
    auto before = node->reads.size();
    w.settle();
    REQUIRE(node->reads.size() > before);
    return node->reads[before].max_bytes();
  }

  test::quiet log;
  test::fabric_world::sim w;
  std::shared_ptr<far_node> node = std::make_shared<far_node>();
  federation_actor federation;
  pty_actor terminal;
};

} // namespace

TEST_CASE("a call to the home lives as long as its caller waits, and no longer") {
  using namespace std::chrono_literals;
  execution lock;
  lock.command.mutable_acquire_lock()->set_wait_ms(5'000);
  const auto usual = limits::call_deadline_default().count();
  CHECK(to_link(lock)->timeout_ms() == usual + 5'000);
  CHECK(to_link(lock, 2s)->timeout_ms() == 2'000);
  CHECK(to_link(lock, 24h)->timeout_ms() == usual + 5'000);
  CHECK(to_link(v1::Query{})->timeout_ms() == usual);
  CHECK(to_link(v1::Query{}, 2s)->timeout_ms() == 2'000);
}

TEST_CASE("of a terminal that writes little, little is asked, which comes on the way of short things, and chunks of one that writes much") {
  remote_world f;
  const std::string much(limits::pty_interactive_bytes_max, 'x'), prompt = "$ ";
  f.node->output = {prompt, "k", much, much, prompt};
  CHECK(f.follow(0, true) == 0); // what is there may be much
  std::uint64_t at = prompt.size();
  CHECK(f.follow(at) == limits::pty_interactive_bytes_max); // the echo of a key
  CHECK(f.follow(at += 1) == limits::pty_interactive_bytes_max);
  CHECK(f.follow(at += much.size()) == 0); // that was all it asked for: there is more
  CHECK(f.follow(at += much.size()) == 0);
  CHECK(f.follow(at += prompt.size()) == limits::pty_interactive_bytes_max);
}
