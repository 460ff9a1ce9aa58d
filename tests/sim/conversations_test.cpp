// Whole nodes with the model of a conversation's driver, of which one is lost at each frame between them in turn: prompts, one that steers, a wish,
// an interrupt, a request that is too long for a row, decisions. SWARM_SIM_SEED=N takes one interleaving alone.
#include <cstdlib>
#include <set>

#include "tests/support/talk_world.hpp"

using namespace swarm;
using test::talk_world;

namespace {

enum class loss { node, driver, node_and_driver, node_and_keeper, keeper };
constexpr const char* names[] = {"node", "driver", "node and driver", "node and keeper", "keeper"};

/// One conversation that meets one loss.
class lossy_talk {
public:
  lossy_talk(std::uint64_t seed, std::size_t frame, loss what) : w_(seed), what_(what) {
    w_.rich = true;
    w_.on_frame = [this, frame](std::size_t n) {
      if (n != frame)
        return;
      met_ = is_due_ = true;
      if (what_ == loss::driver || what_ == loss::node_and_driver)
        w_.f.keeper.exit(w_.spawn, 0, 9);
      if (what_ == loss::keeper || what_ == loss::node_and_keeper)
        w_.f.keeper.die();
    };
  }

  void run() {
    auto c = w_.f.command();
    auto& s = *c.mutable_start_conversation();
    s.set_harness("claude");
    s.add_argv("/bin/true");
    s.set_directory("/repo");
    s.set_prompt("one");
    s.set_node_id("node-1");
    id_ = execute(c).conversation().conversation().id();
    REQUIRE_FALSE(id_.empty());
    prompt("into", true);
    auto wish = w_.f.command();
    wish.mutable_set_conversation()->set_conversation_id(id_);
    wish.mutable_set_conversation()->set_model("large");
    execute(wish);
    prompt("two", false);
    decide();
    auto stop = w_.f.command();
    stop.mutable_interrupt_conversation()->set_conversation_id(id_);
    execute(stop);
    prompt("three", false);
    come_to_rest();
  }
  /// False when the talk was over before.
  bool met() const { return met_; }
  void check();

private:
  /// Nothing has been said to an actor any more, or the loss has come.
  void settle() {
    while (!is_due_ && w_.f.w.step()) {
    }
    if (!std::exchange(is_due_, false))
      return;
    const bool node = what_ != loss::driver && what_ != loss::keeper;
    if (node)
      w_.f.stop();
    if (node)
      w_.f.start();
    w_.wait();
  }
  /// As swarmctl does: under one id until it is answered.
  v1::Reply execute(const v1::Command& c) {
    constexpr int times_max = 20;
    const auto id = w_.f.next_id();
    for (int i = 0; i < times_max; ++i) {
      const auto a = w_.f.send(c, id);
      settle();
      if (a.answered() && !a.failed())
        return *a.get();
      w_.wait();
    }
    FAIL("a command is not answered");
    return {};
  }
  void prompt(const std::string& text, bool steer) {
    auto c = w_.f.command();
    c.mutable_send_prompt()->set_conversation_id(id_);
    c.mutable_send_prompt()->set_prompt(text);
    c.mutable_send_prompt()->set_steer(steer);
    const auto r = execute(c);
    REQUIRE_MESSAGE(!r.has_refusal(), r.refusal().text());
  }
  bool decide() {
    for (const auto& a : w_.approvals()) {
      if (a.decided_at_ms() != 0)
        continue;
      auto c = w_.f.command();
      c.mutable_decide_approval()->set_approval_id(a.id());
      c.mutable_decide_approval()->set_option("allow");
      c.mutable_decide_approval()->set_action_digest(a.action_digest());
      execute(c);
      return true;
    }
    return false;
  }
  void come_to_rest() {
    constexpr int rounds_max = 30;
    for (int i = 0; i < rounds_max; ++i) {
      const bool decided = decide();
      settle();
      w_.wait();
      const auto row = w_.row(id_);
      const bool rests =
        row.open_turn().empty() && row.queued() == 0 && (row.state() == v1::Conversation::IDLE || row.state() == v1::Conversation::SUSPENDED);
      if (!decided && rests)
        return;
      if (!row.held())
        continue;
      auto c = w_.f.command();
      c.mutable_resume_conversation()->set_conversation_id(id_);
      execute(c);
    }
    FAIL("it does not come to rest: ", w_.row(id_).ShortDebugString());
  }
  void check_log(const std::vector<v1::ConversationItem>& log);

  talk_world w_;
  const loss what_;
  std::string id_;
  bool met_ = false, is_due_ = false;
};

void lossy_talk::check_log(const std::vector<v1::ConversationItem>& log) {
  std::string open_turn, open_part;
  std::set<std::string> once;
  std::map<std::uint64_t, std::vector<std::string>> said;
  for (const auto& i : log) {
    const auto name = concat({i.generation(), "/", i.id()});
    CAPTURE(name);
    if (!open_part.empty())
      CHECK(open_part == name);
    open_part = i.last() ? std::string{} : name;
    if (i.kind() == v1::CONVERSATION_TURN) {
      CHECK(open_turn == (i.state() == "started" ? std::string{} : name));
      open_turn = i.state() == "started" ? name : std::string{};
    }
    if (i.last())
      CHECK(once.insert(concat({static_cast<int>(i.kind()), name, i.state(), i.kind() == v1::CONVERSATION_NOTICE ? i.title() : ""})).second);
    if (i.kind() == v1::CONVERSATION_TEXT && i.last() && !i.aborted())
      said[i.generation()].push_back(i.id());
  }
  CHECK(open_part.empty());
  CHECK(open_turn.empty());
  const bool is_lost = what_ == loss::keeper || what_ == loss::node_and_keeper;
  for (const auto& [driver, d] : w_.drivers) {
    const auto generation = std::stoul(driver.substr(driver.find('#') + 1));
    CAPTURE(generation);
    const auto& items = said[generation];
    REQUIRE(items.size() <= d->told.size());
    CHECK(std::equal(items.begin(), items.end(), d->told.begin()));
    // A frame that nobody has printed was not said.
    CHECK((is_lost || generation != 1 || items.size() + 2 >= d->told.size()));
  }
}

void lossy_talk::check() {
  const auto log = w_.parts(id_);
  check_log(log);
  std::map<std::string, int> given, notices;
  std::map<std::string, std::vector<std::string>> requests;
  for (const auto& [generation, d] : w_.drivers) {
    for (const auto& [p, times] : d->prompts)
      given[p] += times;
    for (const auto& [request, times] : d->answers)
      CHECK(times <= 1);
  }
  for (const auto& i : log) {
    if (i.kind() == v1::CONVERSATION_NOTICE)
      for (const auto& p : i.prompts())
        ++notices[p];
    if (!i.approval_id().empty())
      requests[i.approval_id()].push_back(i.state());
  }
  for (const auto& p : w_.prompts(id_)) {
    CAPTURE(p.ShortDebugString());
    CHECK(p.state() >= v1::Prompt::CONSUMED);
    CHECK(given[p.id()] <= 1);
    CHECK((p.state() != v1::Prompt::CONSUMED || given[p.id()] == 1));
    CHECK(notices[p.id()] == (p.state() == v1::Prompt::CONSUMED ? 0 : 1));
  }
  for (const auto& a : w_.approvals()) {
    CAPTURE(a.id());
    CHECK(a.decided_at_ms() != 0);
    CHECK(a.delivery() != v1::Approval::PENDING);
    const auto& states = requests[a.id()];
    CHECK((states.empty() || (states.size() == 2 && states.front() == "asked" && states.back() != "asked")));
  }
}

} // namespace

TEST_CASE("a conversation that loses its node or driver or keeper at any frame says everything once and gives nothing twice") {
  const auto* one = std::getenv("SWARM_SIM_SEED");
  const std::uint64_t first = one ? std::strtoull(one, nullptr, 10) : 0;
  const std::uint64_t last = one ? first : std::getenv("SWARM_TEST_FULL") ? 20 : 0;
  for (auto seed = first; seed <= last; ++seed)
    for (const auto what : {loss::node, loss::driver, loss::node_and_driver, loss::node_and_keeper, loss::keeper}) {
      CAPTURE(seed);
      CAPTURE(names[static_cast<std::size_t>(what)]);
      std::size_t frame = 0;
      for (bool met = true; met; ++frame) {
        CAPTURE(frame);
        lossy_talk talk{seed, frame, what};
        talk.run();
        talk.check();
        met = talk.met();
      }
      CHECK(frame > 20);
    }
}
