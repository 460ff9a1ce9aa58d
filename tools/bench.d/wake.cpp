#include <future>

#include "tools/bench.d/suite.hpp"

namespace swarm::bench {

namespace {

using namespace std::chrono_literals;

const std::string scope = "/bench/wake";
constexpr int repetitions = 40; // per round

class wake_suite final : public suite {
public:
  explicit wake_suite(const settings& s) : node_(s.bin, s.dir / "wake") {
    node_.start();
    waiter_ = std::make_unique<node_client>(node_.socket());
    actor_ = std::make_unique<node_client>(node_.socket());
    waiting_ = register_session(*waiter_, scope);
    acting_ = register_session(*actor_, scope);
  }

  void round() override {
    for (auto what : {"lock", "message", "task", "kv"}) {
      std::vector<double> taken;
      for (int i = 0; i < repetitions; ++i)
        taken.push_back(what == std::string{"lock"} ? hand_over() : activity(what));
      samples_.add(what, median(taken));
    }
  }

  std::vector<row> rows() const override {
    std::vector<row> out;
    for (const auto& [what, title] : {std::pair{"lock", "lock: release to the next in line"}, std::pair{"message", "wait_for_activity: message"},
                                      std::pair{"task", "wait_for_activity: task"}, std::pair{"kv", "wait_for_activity: key"}})
      out.push_back({std::string{"wake-up, "} + title, samples_.median_of(what), "ms", "", 0, {goal::value_at_most, 2}});
    return out;
  }

private:
  /// From before the release is sent until the one who waits has its answer.
  double hand_over() {
    const auto path = scope + "/file";
    auto take = command(scope, acting_);
    take.mutable_acquire_lock()->set_path(path);
    actor_->execute(take);
    auto wait = command(scope, waiting_);
    wait.mutable_acquire_lock()->set_path(path);
    wait.mutable_acquire_lock()->set_wait_ms(30'000);
    auto got = std::async(std::launch::async, [&] {
      waiter_->execute(wait);
      return steady::now();
    });
    v1::Query look;
    look.set_scope(scope);
    look.mutable_get_lock()->set_path(path);
    if (!eventually(10s, [&] { return actor_->ask(look).lock().active().waiters() == 1; }))
      throw std::runtime_error("nobody waits for the lock");
    auto give = command(scope, acting_);
    give.mutable_release_lock()->set_path(path);
    auto began = steady::now();
    actor_->execute(give);
    auto taken = std::chrono::duration<double, std::milli>(got.get() - began).count();
    auto done = command(scope, waiting_);
    done.mutable_release_lock()->set_path(path);
    waiter_->execute(done);
    return taken;
  }

  /// From before the change is sent until wait_for_activity has answered; a message is also marked as read in that time.
  double activity(const std::string& what) {
    v1::WaitRequest request;
    request.set_scope(scope);
    request.set_session_id(waiting_);
    request.set_timeout_ms(30'000);
    request.set_since(revision_);
    auto got = std::async(std::launch::async, [&] {
      grpc::ClientContext context;
      v1::Activity answer;
      check(waiter_->stub().WaitForActivity(&context, request, &answer), "WaitForActivity");
      auto now = steady::now();
      if (answer.timed_out())
        throw std::runtime_error("nobody was woken by a " + what);
      return std::pair{now, answer.revision()};
    });
    if (!eventually(10s, [&] { return is_waiting(); }))
      throw std::runtime_error("nobody waits for activity");
    auto c = command(scope, acting_);
    if (what == "message") {
      c.mutable_send_message()->set_recipient(waiting_);
      c.mutable_send_message()->set_content("please look");
    } else if (what == "kv") {
      c.mutable_set_kv()->set_key("bench");
      c.mutable_set_kv()->set_value(std::to_string(revision_));
    } else {
      auto* t = c.mutable_create_tasks()->add_tasks();
      t->set_type("implement");
      t->set_title("wake up");
    }
    auto began = steady::now();
    actor_->execute(c);
    auto [woken, revision] = got.get();
    revision_ = revision;
    return std::chrono::duration<double, std::milli>(woken - began).count();
  }

  /// Its mailbox actor lives and has a caller.
  bool is_waiting() {
    // The status call counts itself.
    return actor_->status().calls_in_flight() >= 2;
  }

  node node_;
  std::unique_ptr<node_client> waiter_, actor_;
  std::string waiting_, acting_;
  std::uint64_t revision_ = 0;
};

} // namespace

std::unique_ptr<suite> make_wake_suite(const settings& s) { return std::make_unique<wake_suite>(s); }

} // namespace swarm::bench
