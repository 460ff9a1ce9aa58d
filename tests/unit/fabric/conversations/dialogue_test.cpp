#include "actors/fabric/conversations/dialogue.hpp"

#include <doctest/doctest.h>

#include <random>

#include "tests/support/model_driver.hpp"

using namespace swarm;
using test::model_driver;

namespace {

/// Rows, the log and the driver around a dialogue; each may fail at any step.
class conversation_world {
public:
  explicit conversation_world(std::uint64_t seed) : random_(seed) {
    row_.set_id("c");
    row_.set_generation(1);
    row_.set_state(v1::Conversation::STARTING);
    driver_ = std::make_unique<model_driver>(1);
    begin();
  }

  void prompt(const std::string& id) {
    v1::Prompt p;
    p.set_id(id);
    p.set_number(++number_);
    p.set_text("words");
    p.set_state(v1::Prompt::QUEUED);
    prompts_[id] = p;
    changed();
  }

  void step() {
    switch (random_() % 8) {
      case 0:
      case 1: return listen();
      case 2: return tell();
      case 3:
      case 4: return execute();
      case 5:
      case 6: return write();
      default: return decide();
    }
  }
  /// The actor dies: what it has asked for may have happened.
  void kill_actor() {
    if (random_() % 2 == 0)
      execute();
    if (random_() % 2 == 0)
      write();
    begin();
  }
  void kill_driver() {
    driver_->out.resize(random_() % (driver_->out.size() + 1));
    gone_ = true;
  }

  bool is_quiet() const {
    return std::all_of(prompts_.begin(), prompts_.end(), [](const auto& p) { return p.second.state() >= v1::Prompt::CONSUMED; }) &&
           row_.open_turn().empty() && commands_.empty() && frames_.empty() && down_.empty() && (gone_ || driver_->out.empty());
  }

  void check() const {
    std::map<std::uint64_t, std::uint64_t> last;
    std::map<std::string, int> turns, whole;
    for (const auto& f : log_) {
      v1::ConversationItem i;
      REQUIRE(i.ParseFromString(f.body));
      if (f.driver_seq != 0) {
        CHECK(f.driver_seq > last[f.generation]);
        last[f.generation] = f.driver_seq;
      }
      const auto name = std::to_string(f.generation) + "/" + i.id();
      if (i.kind() == v1::CONVERSATION_TURN) {
        turns[name] += i.state() == "started" ? 1 : -1;
        CHECK(turns[name] >= 0);
      } else if ((i.kind() == v1::CONVERSATION_TEXT || i.kind() == v1::CONVERSATION_USER) && i.last()) {
        CHECK(++whole[name] == 1);
      }
    }
    for (const auto& [name, open] : turns) {
      CAPTURE(name);
      CHECK(open == 0);
    }
    CHECK(ended_twice_ == 0);
    CHECK(tokens_ <= 7 * static_cast<std::uint64_t>(turns.size()));
  }
  void check_complete() const {
    std::vector<std::string> items;
    for (const auto& f : log_) {
      v1::ConversationItem i;
      REQUIRE(i.ParseFromString(f.body));
      if (i.kind() == v1::CONVERSATION_TEXT && i.last() && f.generation == row_.generation())
        items.push_back(i.id());
    }
    CHECK(items == driver_->told);
  }
  const model_driver& driver() const { return *driver_; }
  const std::map<std::string, v1::Prompt>& prompts() const { return prompts_; }
  std::uint32_t generation() const { return row_.generation(); }

private:
  void begin() {
    commands_.clear();
    frames_.clear();
    down_.clear();
    log_tail tail;
    for (const auto& f : log_)
      take_frame(tail, row_.generation(), f);
    talk_ = std::make_unique<dialogue>(row_, tail);
    changed();
    if (gone_)
      return talk_->driver_ended("it was killed");
    driver_->out.clear(); // read from its end on
    talk_->connected(std::string(16, static_cast<char>('A' + random_() % 26)));
  }
  void collect() {
    std::vector<std::string> allowed;
    for (auto& e : talk_->take()) {
      if (auto* answer = std::get_if<dialogue::judge_answer>(&e))
        allowed.push_back(answer->approval_id);
      else if (auto* f = std::get_if<dialogue::to_driver>(&e))
        down_.push_back(f->frame);
      else if (auto* c = std::get_if<dialogue::ask>(&e))
        commands_.push_back(c->command);
      else if (auto* k = std::get_if<dialogue::keep>(&e))
        frames_.push_back(std::move(*k));
      else
        CHECK_FALSE(std::holds_alternative<dialogue::hello_again>(e));
    }
    CHECK(commands_.size() + frames_.size() <= 1);
    for (const auto& id : allowed)
      talk_->answer_judged(id, {});
    if (!allowed.empty())
      collect();
  }
  void changed() {
    ++revision_;
    if (!talk_)
      return;
    talk_->row_is(row_, revision_);
    for (const auto& [id, p] : prompts_)
      talk_->prompt_is(p, revision_);
    for (const auto& [id, a] : approvals_)
      talk_->approval_is(a, revision_);
    collect();
  }
  void listen() {
    collect();
    if (!talk_->wants_output())
      return;
    const auto n = random_() % (driver_->out.size() + 1);
    talk_->heard(driver_->out.substr(0, n));
    driver_->out.erase(0, n);
    if (gone_ && driver_->out.empty())
      talk_->driver_ended("it was killed");
    collect();
  }
  void tell() {
    collect();
    if (down_.empty())
      return;
    if (!gone_)
      driver_->hear(down_.front());
    down_.pop_front();
  }
  void write() {
    collect();
    if (frames_.empty())
      return;
    for (auto& f : frames_.front().frames)
      log_.push_back(f);
    frames_.pop_front();
    talk_->kept({1, log_.size()});
    collect();
  }
  void decide() {
    for (auto& [id, a] : approvals_)
      if (a.decided_at_ms() == 0 && a.generation() == row_.generation()) {
        a.set_decided_at_ms(1);
        a.set_decision("allow");
        a.set_delivery(v1::Approval::PENDING);
        return changed();
      }
  }
  void execute() {
    collect();
    if (commands_.empty())
      return;
    auto c = commands_.front();
    commands_.pop_front();
    ++revision_;
    v1::Reply r;
    r.set_revision(revision_);
    if (c.has_report_conversation())
      report(c.report_conversation(), r);
    else if (c.has_request_approval())
      request(c.request_approval(), r);
    else if (c.has_report_delivery())
      r.mutable_approval()->CopyFrom(deliver(c.report_delivery()));
    const auto next = row_.generation();
    talk_->answered(r);
    collect();
    if (next != talk_->generation()) {
      gone_ = false;
      driver_ = std::make_unique<model_driver>(next);
      begin();
    } else {
      changed();
    }
  }
  v1::Approval& deliver(const v1::ReportDelivery& d) {
    auto& a = approvals_.at(d.approval_id());
    a.set_delivery(d.delivery());
    return a;
  }
  void request(const v1::RequestApproval& q, v1::Reply& r) {
    const auto id = std::to_string(q.conversation().generation()) + q.conversation().native_id();
    auto& a = approvals_[id];
    if (a.id().empty()) {
      a.set_id(id);
      a.set_conversation_id("c");
      a.set_generation(q.conversation().generation());
      a.set_native_id(q.conversation().native_id());
      a.set_kind(q.kind());
      a.set_body(q.body());
      a.set_action_digest(sha256(q.body()));
    }
    *r.mutable_approval() = a;
  }
  /// As the rules do, without the number of the driver's frame: each may come again.
  void report(const v1::ReportConversation& q, v1::Reply& r) {
    if (q.generation() != row_.generation()) {
      r.mutable_refusal()->set_code(v1::Refusal::STALE);
      return;
    }
    if (!q.sending().empty()) {
      auto& p = prompts_.at(q.sending());
      if (p.state() == v1::Prompt::QUEUED) {
        p.set_state(v1::Prompt::SENDING);
        p.set_generation(row_.generation());
      }
      *r.mutable_conversation()->mutable_prompt() = p;
    }
    for (const auto& o : q.prompts())
      if (auto& p = prompts_.at(o.prompt_id()); p.state() < o.state())
        p.set_state(o.state());
    if (!q.turn_started().empty() && !ended_.contains(turn(q.turn_started()))) {
      row_.set_open_turn(q.turn_started());
      row_.set_state(v1::Conversation::RUNNING);
    }
    if (q.has_turn_ended() && row_.open_turn() == q.turn_ended().turn()) {
      ended_twice_ += ended_.insert(turn(row_.open_turn())).second ? 0 : 1;
      tokens_ += q.turn_ended().usage().output_tokens();
      row_.clear_open_turn();
      row_.set_state(v1::Conversation::IDLE);
    }
    if (q.driver_ended())
      end();
    *r.mutable_conversation()->mutable_conversation() = row_;
  }
  std::string turn(const std::string& id) const { return std::to_string(row_.generation()) + "/" + id; }
  void end() {
    row_.clear_open_turn();
    for (auto& [id, p] : prompts_)
      if (p.state() == v1::Prompt::SENDING || p.state() == v1::Prompt::SUBMITTED)
        p.set_state(v1::Prompt::UNKNOWN);
    for (auto& [id, a] : approvals_)
      if (a.decided_at_ms() == 0 || a.delivery() == v1::Approval::PENDING) {
        a.set_decided_at_ms(1);
        a.set_delivery(a.decision().empty() ? v1::Approval::DELIVERY_UNSPECIFIED : v1::Approval::OUTCOME_UNKNOWN);
      }
    row_.set_generation(row_.generation() + 1);
    row_.set_state(v1::Conversation::STARTING);
  }

  std::mt19937_64 random_;
  v1::Conversation row_;
  std::uint64_t revision_ = 0, number_ = 0, tokens_ = 0;
  int ended_twice_ = 0;
  std::set<std::string> ended_;
  std::map<std::string, v1::Prompt> prompts_;
  std::map<std::string, v1::Approval> approvals_;
  std::vector<conversation_frame> log_;
  std::unique_ptr<model_driver> driver_;
  bool gone_ = false;
  std::unique_ptr<dialogue> talk_;
  std::deque<v1::Command> commands_;
  std::deque<dialogue::keep> frames_;
  std::deque<std::string> down_;
};

void check_driver(const conversation_world& w) {
  for (const auto& [id, times] : w.driver().prompts)
    CHECK(times == 1);
  for (const auto& [id, times] : w.driver().answers)
    CHECK(times == 1);
}

} // namespace

TEST_CASE("a prompt becomes a turn whose items stand in the log once and in order") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    conversation_world w{seed};
    w.prompt("p1");
    w.prompt("p2");
    for (int i = 0; i < 20'000 && !w.is_quiet(); ++i)
      w.step();
    REQUIRE(w.is_quiet());
    CHECK(w.driver().prompts.size() == 2);
    CHECK(w.driver().answers.size() == 2);
    check_driver(w);
    w.check_complete();
    w.check();
  }
}

TEST_CASE("a node that dies at any step loses and doubles nothing of what the driver tells") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    conversation_world w{seed};
    std::mt19937_64 random{seed};
    w.prompt("p1");
    w.prompt("p2");
    for (int i = 0; i < 40'000 && !w.is_quiet(); ++i) {
      w.step();
      if (i < 2'000 && random() % 12 == 0)
        w.kill_actor();
    }
    REQUIRE(w.is_quiet());
    CHECK(w.generation() == 1);
    CHECK(w.driver().prompts.size() == 2);
    check_driver(w);
    w.check_complete();
    w.check();
  }
}

TEST_CASE("a driver that dies at any step leaves no turn without an end and no prompt that is given twice in a generation") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    conversation_world w{seed};
    std::mt19937_64 random{seed};
    for (const auto* id : {"p1", "p2", "p3", "p4"})
      w.prompt(id);
    for (int i = 0; i < 40'000 && !w.is_quiet(); ++i) {
      w.step();
      check_driver(w);
      if (i < 2'000 && random() % 40 == 0)
        w.kill_driver();
      if (i < 2'000 && random() % 40 == 0)
        w.kill_actor();
    }
    REQUIRE(w.is_quiet());
    w.check();
  }
}
