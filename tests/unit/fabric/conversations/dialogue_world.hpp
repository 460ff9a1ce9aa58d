// Rows, the log and the driver around a dialogue; each may be lost between any two steps.
#pragma once

#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "actors/fabric/conversations/dialogue.hpp"
#include "tests/support/model_driver.hpp"

namespace swarm::test {

class dialogue_world {
public:
  explicit dialogue_world(std::uint64_t seed, bool rich = false) : random_(seed), rich_(rich) {
    row_.set_id("c");
    row_.set_generation(1);
    row_.set_state(v1::Conversation::STARTING);
    start_driver();
    begin();
  }

  // -- people --------------------------------------------------------------------------------

  void prompt(const std::string& id, bool steer = false) {
    v1::Prompt p;
    p.set_id(id);
    p.set_number(++number_);
    p.set_text("words");
    p.set_steer(steer);
    p.set_state(v1::Prompt::QUEUED);
    prompts_[id] = p;
    changed();
  }
  void wish(const std::string& model) {
    row_.set_wishes(row_.wishes() + 1);
    row_.set_wished_model(model);
    changed();
  }
  void interrupt() {
    row_.set_interrupts(row_.interrupts() + 1);
    changed();
  }
  /// What is done once so many turns have begun.
  std::map<int, std::function<void()>> when_begun;

  // -- what happens ---------------------------------------------------------------------------

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
  /// The node dies: what it has asked for may have happened.
  void lose_node() {
    forget_asked();
    begin();
  }
  /// What it has said last is kept.
  void lose_driver() { gone_ = true; }
  void lose_node_and_driver() {
    gone_ = true;
    lose_node();
  }
  /// Nobody has what the driver has said last. Its row may hear of its end before the conversation does.
  void lose_node_and_keeper(bool row_first) {
    cut_output();
    forget_asked();
    if (row_first)
      end();
    begin();
  }
  /// Nobody has what the driver has said last, and its row is over before the conversation has heard that.
  void lose_keeper_unheard() {
    cut_output();
    end();
    if (random_() % 2 == 0)
      execute(); // it is told that it is over
    while (!frames_.empty())
      write();
    talk_->is_unfinished() ? begin() : go_on();
  }

  /// Steps that did something.
  std::size_t done() const { return done_; }
  bool is_quiet() const {
    return std::all_of(prompts_.begin(), prompts_.end(), [](const auto& p) { return p.second.state() >= v1::Prompt::CONSUMED; }) &&
           row_.open_turn().empty() && commands_.empty() && frames_.empty() && down_.empty() && !gone_ && sizes_.empty() &&
           row_.interrupts_told() == row_.interrupts() && row_.wishes_told() == row_.wishes();
  }

  // -- what came of it -------------------------------------------------------------------------

  /// Every final item once and in order, no turn, item and request without an end.
  void check() const;
  /// Of drivers whose output nobody has lost the log has everything.
  void check_complete() const;
  /// At most once to any agent.
  void check_drivers() const {
    std::map<std::string, int> prompts;
    for (const auto& [generation, d] : drivers_) {
      for (const auto& [id, times] : d->prompts)
        CHECK((prompts[id] += times) <= 1);
      for (const auto& [id, times] : d->answers)
        CHECK(times <= 1);
    }
  }
  const model_driver& driver() const { return *driver_; }
  const std::map<std::string, v1::Prompt>& prompts() const { return prompts_; }
  std::uint32_t generation() const { return row_.generation(); }
  int begun() const { return begun_; }

private:
  void start_driver() {
    driver_ = (drivers_[row_.generation()] = std::make_unique<model_driver>(row_.generation())).get();
    driver_->rich = rich_;
    gone_ = false;
    ring_.clear();
    sizes_.clear();
    nonces_.clear();
    read_ = 0;
  }
  void cut_output() {
    lost_output_.insert(row_.generation());
    gone_ = true;
    ring_.clear();
    sizes_.clear();
    read_ = 0;
  }
  void forget_asked() {
    if (random_() % 2 == 0)
      execute();
    if (random_() % 2 == 0)
      write();
    forget();
  }
  void forget() {
    commands_.clear();
    frames_.clear();
    down_.clear();
    blob_ = false;
  }
  /// As the actor does when it begins.
  void begin() {
    forget();
    former_generation former;
    former.next = row_.generation();
    for (const auto& f : log_)
      former.generation = std::max(former.generation, static_cast<std::uint32_t>(f.generation));
    log_tail tail;
    for (const auto& f : log_) {
      take_frame(tail, row_.generation(), f);
      take_frame(former.tail, former.generation, f);
    }
    std::vector<v1::Prompt> unknown;
    for (const auto& [id, p] : prompts_)
      if (p.state() == v1::Prompt::UNKNOWN)
        unknown.push_back(p);
    if (former.generation < former.next)
      for (auto& f : unfinished(row_, former, unknown, "both are gone", now_++))
        log_.push_back(std::move(f));
    talk_ = std::make_unique<dialogue>(row_, tail);
    meet();
  }
  /// Another generation, for which nothing is to be read.
  void go_on() {
    forget();
    talk_ = std::make_unique<dialogue>(row_, log_tail{});
    meet();
  }
  void meet() {
    if (gone_ && drivers_.rbegin()->first != row_.generation())
      start_driver();
    changed();
    if (gone_) {
      talk_->last_words(ring_, nonces_);
      talk_->driver_ended("it was killed", now_++);
      read_ = ring_.size();
      sizes_.clear();
      return;
    }
    read_ = ring_.size(); // read from its end on
    sizes_.clear();
    nonces_.insert(nonces_.begin(), std::string(15, 'n') + static_cast<char>('A' + nonces_made_++ % 26));
    nonces_.resize(std::min<std::size_t>(nonces_.size(), 2));
    talk_->connected(nonces_.front());
    collect();
  }
  void collect() {
    std::vector<std::string> allowed;
    for (auto& e : talk_->take()) {
      if (auto* answer = std::get_if<dialogue::judge_answer>(&e))
        allowed.push_back(answer->approval_id);
      else if (auto* f = std::get_if<dialogue::to_driver>(&e))
        down_.push_back(*f);
      else if (auto* c = std::get_if<dialogue::ask>(&e))
        commands_.push_back(c->command);
      else if (auto* k = std::get_if<dialogue::keep>(&e))
        frames_.push_back(std::move(*k));
      else if (std::holds_alternative<dialogue::keep_blob>(e))
        blob_ = true;
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
  /// One frame.
  void listen() {
    collect();
    if (!talk_->wants_output())
      return;
    if (!sizes_.empty()) {
      ++done_;
      talk_->heard(ring_.substr(read_, sizes_.front()));
      read_ += sizes_.front();
      sizes_.pop_front();
    }
    if (gone_ && sizes_.empty()) {
      if (!talk_->is_ready())
        talk_->last_words(ring_, nonces_);
      talk_->driver_ended("it was killed", now_++);
    }
    collect();
  }
  void tell() {
    collect();
    if (down_.empty())
      return;
    ++done_;
    const auto frame = down_.front();
    down_.pop_front();
    if (gone_)
      return;
    driver_->hear(frame.frame);
    ring_ += std::exchange(driver_->out, {});
    for (auto n : std::exchange(driver_->sizes, {}))
      sizes_.push_back(n);
    if (frame.interrupt != 0)
      talk_->interrupt_taken(frame.interrupt);
    collect();
  }
  void write() {
    collect();
    if (std::exchange(blob_, false)) {
      ++done_;
      talk_->blob_kept({});
      return collect();
    }
    if (frames_.empty())
      return;
    ++done_;
    for (auto& f : frames_.front().frames)
      log_.push_back(f);
    frames_.pop_front();
    talk_->kept({1, log_.size()});
    collect();
  }
  void decide() {
    for (auto& [id, a] : approvals_)
      if (a.decided_at_ms() == 0 && a.generation() == row_.generation()) {
        ++done_;
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
    ++done_;
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
    else if (c.has_withdraw_approval())
      r.mutable_approval()->CopyFrom(withdraw(c.withdraw_approval()));
    const auto over = talk_->generation() != row_.generation();
    talk_->answered(r);
    collect();
    if (over && r.has_refusal())
      return; // its caller goes on
    if (over)
      return talk_->is_unfinished() ? begin() : go_on();
    changed();
    if (auto todo = when_begun.extract(begun_); !todo.empty())
      todo.mapped()();
  }
  void set_unknown(v1::Prompt& p) {
    p.set_state(v1::Prompt::UNKNOWN);
    p.set_changed_at_ms(now_);
  }
  v1::Approval& deliver(const v1::ReportDelivery& d) {
    auto& a = approvals_.at(d.approval_id());
    if (a.delivery() == v1::Approval::PENDING)
      a.set_delivery(d.delivery());
    return a;
  }
  v1::Approval& withdraw(const v1::WithdrawApproval& w) {
    auto& a = approvals_.at(w.approval_id());
    if (a.decided_at_ms() == 0) {
      a.set_decided_at_ms(1);
      a.set_withdrawn(w.reason());
    }
    return a;
  }
  void request(const v1::RequestApproval& q, v1::Reply& r) {
    if (q.conversation().generation() != row_.generation()) {
      r.mutable_refusal()->set_code(v1::Refusal::STALE);
      return;
    }
    const auto id = std::to_string(q.conversation().generation()) + q.conversation().native_id();
    auto& a = approvals_[id];
    if (a.id().empty()) {
      a.set_id(id);
      a.set_conversation_id("c");
      a.set_created_at_ms(now_);
      a.set_generation(q.conversation().generation());
      a.set_native_id(q.conversation().native_id());
      a.set_kind(q.kind());
      a.set_body(q.body());
      a.set_body_bytes(q.body_bytes());
      a.set_action_digest(q.body_bytes() != 0 ? q.action_digest() : sha256(q.body()));
    }
    *r.mutable_approval() = a;
  }
  /// As the rules do, without the number of the driver's frame: each may come again.
  void report(const v1::ReportConversation& q, v1::Reply& r) {
    if (q.generation() != row_.generation()) {
      r.mutable_refusal()->set_code(v1::Refusal::STALE);
      return;
    }
    row_.set_driver_seq(std::max(row_.driver_seq(), q.driver_seq()));
    row_.set_interrupts_told(std::max(row_.interrupts_told(), q.interrupts_told()));
    row_.set_wishes_told(std::max(row_.wishes_told(), q.wishes_told()));
    if (!q.sending().empty()) {
      auto& p = prompts_.at(q.sending());
      if (p.state() == v1::Prompt::QUEUED && (row_.open_turn().empty() || p.steer())) {
        p.set_state(v1::Prompt::SENDING);
        p.set_generation(row_.generation());
      }
      *r.mutable_conversation()->mutable_prompt() = p;
    }
    for (const auto& o : q.prompts())
      if (auto& p = prompts_.at(o.prompt_id()); p.state() < o.state())
        p.set_state(o.state());
    if (!q.turn_started().empty() && !ended_.contains(turn(q.turn_started()))) {
      begun_ += row_.open_turn() != q.turn_started();
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
    row_.clear_driver_seq();
    row_.set_interrupts_told(row_.interrupts());
    row_.set_wishes_told(0);
    for (auto& [id, p] : prompts_)
      if (p.state() == v1::Prompt::SENDING || p.state() == v1::Prompt::SUBMITTED)
        set_unknown(p);
    for (auto& [id, a] : approvals_)
      if (a.decided_at_ms() == 0 || a.delivery() == v1::Approval::PENDING) {
        a.set_decided_at_ms(1);
        a.set_delivery(a.decision().empty() ? v1::Approval::DELIVERY_UNSPECIFIED : v1::Approval::OUTCOME_UNKNOWN);
        if (a.decision().empty())
          a.set_withdrawn("the agent has ended");
      }
    row_.set_generation(row_.generation() + 1);
    row_.set_state(v1::Conversation::STARTING);
    gone_ = true; // until the next one is met
  }

  std::mt19937_64 random_;
  bool rich_;
  v1::Conversation row_;
  std::uint64_t revision_ = 0, number_ = 0, tokens_ = 0;
  std::int64_t now_ = 1'000;
  std::size_t done_ = 0;
  int ended_twice_ = 0, begun_ = 0, nonces_made_ = 0;
  std::set<std::string> ended_;
  std::map<std::string, v1::Prompt> prompts_;
  std::map<std::string, v1::Approval> approvals_;
  std::vector<conversation_frame> log_;
  std::map<std::uint32_t, std::unique_ptr<model_driver>> drivers_; // by generation
  std::set<std::uint32_t> lost_output_;                            // generations
  model_driver* driver_ = nullptr;
  bool gone_ = false;
  std::string ring_; // all that it has said
  std::size_t read_ = 0;
  std::deque<std::size_t> sizes_; // of the frames that are not read
  std::vector<std::string> nonces_;
  std::unique_ptr<dialogue> talk_;
  std::deque<v1::Command> commands_;
  std::deque<dialogue::keep> frames_;
  std::deque<dialogue::to_driver> down_;
  bool blob_ = false; // is being kept
};

inline void dialogue_world::check() const {
  std::map<std::uint64_t, std::uint64_t> last;
  std::map<std::string, int> turns, whole, notices;
  std::map<std::string, std::vector<std::string>> requests;
  std::map<std::uint64_t, std::vector<std::string>> said;
  std::string open_part;
  for (const auto& f : log_) {
    v1::ConversationItem i;
    REQUIRE(i.ParseFromString(f.body));
    const auto name = std::to_string(f.generation) + "/" + i.id();
    CAPTURE(name);
    if (f.driver_seq != 0) {
      CHECK(f.driver_seq > last[f.generation]);
      last[f.generation] = f.driver_seq;
    }
    if (!open_part.empty())
      CHECK(open_part == name);
    open_part = i.last() ? std::string{} : name;
    if (i.kind() == v1::CONVERSATION_TURN) {
      turns[name] += i.state() == "started" ? 1 : -1;
      CHECK(turns[name] >= 0);
    } else if (i.kind() == v1::CONVERSATION_NOTICE) {
      for (const auto& p : i.prompts())
        ++notices[p];
    } else if (!i.approval_id().empty()) {
      requests[i.approval_id()].push_back(i.state() + " " + std::to_string(f.driver_seq));
    } else if (i.last()) {
      CHECK(++whole[std::to_string(i.kind()) + name] == 1);
      if (i.kind() == v1::CONVERSATION_TEXT && !i.aborted())
        said[f.generation].push_back(i.id());
    }
  }
  CHECK(open_part.empty());
  for (const auto& [name, open] : turns) {
    CAPTURE(name);
    CHECK(open == 0);
  }
  for (const auto& [id, states] : requests) {
    CAPTURE(id);
    INFO(states.front(), ", then ", states.back());
    REQUIRE(states.size() == 2);
    CHECK(states.front().starts_with("asked "));
    CHECK_FALSE(states.back().starts_with("asked "));
    CHECK(approvals_.at(id).decided_at_ms() != 0);
    CHECK(approvals_.at(id).delivery() != v1::Approval::PENDING);
  }
  for (const auto& [generation, items] : said) {
    const auto& told = drivers_.at(static_cast<std::uint32_t>(generation))->told;
    REQUIRE(items.size() <= told.size());
    CHECK(std::equal(items.begin(), items.end(), told.begin()));
  }
  for (const auto& [id, p] : prompts_) {
    CAPTURE(id);
    CHECK(notices[id] == (p.state() == v1::Prompt::UNKNOWN ? 1 : 0));
    CHECK((p.state() != v1::Prompt::CONSUMED || whole[std::to_string(v1::CONVERSATION_USER) + std::to_string(p.generation()) + "/" + id] == 1));
  }
  CHECK(ended_twice_ == 0);
  CHECK(tokens_ <= 7 * static_cast<std::uint64_t>(turns.size()));
}

inline void dialogue_world::check_complete() const {
  for (const auto& [generation, d] : drivers_) {
    if (lost_output_.contains(generation))
      continue;
    CAPTURE(generation);
    std::vector<std::string> items;
    for (const auto& f : log_) {
      v1::ConversationItem i;
      REQUIRE(i.ParseFromString(f.body));
      if (i.kind() == v1::CONVERSATION_TEXT && i.last() && f.generation == generation)
        items.push_back(i.id());
    }
    CHECK(items == d->told);
  }
}

} // namespace swarm::test
