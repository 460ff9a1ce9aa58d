#include <atomic>
#include <fstream>
#include <future>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "swarm/v1/conversation.grpc.pb.h"
#include "tools/bench.d/operations.hpp"
#include "tools/bench.d/suite.hpp"

namespace swarm::bench {

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int many = 100;      // conversations
constexpr int per_second = 50; // deltas of each
constexpr int samples_wanted = 200;
constexpr int replayed_items = 40'000;
constexpr int item_bytes = 1'024;
constexpr double replay_goal = 100; // MB/s

double now_ms() { return std::chrono::duration<double, std::milli>(steady::now().time_since_epoch()).count(); }

/// swarmd and its keeper with the scripted driver beside them.
fs::path bin_with_scripted_driver(const settings& s) {
  const auto bin = s.dir / "bin";
  fs::create_directories(bin);
  const auto put = [&](const fs::path& from, const char* name) { fs::copy_file(from, bin / name, fs::copy_options::overwrite_existing); };
  put(s.bin / "swarmd", "swarmd");
  put(s.bin / "swarm-keeper", "swarm-keeper");
  put(s.tools / "scripted-driver", "swarm-driver");
  return bin;
}

/// Seconds of processor time of a process so far.
double processor_time(pid_t pid) {
  std::ifstream in{"/proc/" + std::to_string(pid) + "/stat"};
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  const auto after_name = text.rfind(')');
  if (after_name == std::string::npos)
    return 0;
  std::istringstream fields{text.substr(after_name + 2)};
  std::string skipped;
  for (int i = 0; i < 11; ++i)
    fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> out;
  std::ifstream in{"/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children"};
  for (pid_t p = 0; in >> p;)
    out.push_back(p);
  return out;
}

class talk {
public:
  talk(const node& n, std::string scope) : client_(n.socket()), scope_(std::move(scope)) {
    fs::create_directories(scope_);
    reader_ = v1::Conversations::NewStub(client_.channel());
  }

  std::string start(const std::string& prompt = {}, const std::vector<std::string>& argv = {"/bin/true"}) {
    auto c = command(scope_);
    auto& s = *c.mutable_start_conversation();
    s.set_harness("claude");
    for (const auto& a : argv)
      s.add_argv(a);
    s.set_directory(scope_);
    s.set_title("bench");
    s.set_prompt(prompt);
    return client_.execute(c).conversation().conversation().id();
  }
  void say(const std::string& id, const std::string& prompt) {
    auto c = command(scope_);
    c.mutable_send_prompt()->set_conversation_id(id);
    c.mutable_send_prompt()->set_prompt(prompt);
    client_.execute(c);
  }
  v1::Conversation row(const std::string& id) {
    v1::Query q;
    q.set_scope(scope_);
    q.mutable_list_conversations()->set_id(id);
    const auto a = client_.ask(q);
    if (a.conversations().conversations_size() != 1)
      throw std::runtime_error("a conversation is not there");
    return a.conversations().conversations(0);
  }
  /// Reads until `on` says false.
  void follow(const std::string& id, const std::string& cursor, bool follows, const std::function<bool(const v1::ConversationChunk&)>& on) {
    grpc::ClientContext context;
    v1::ReadConversationRequest q;
    q.set_scope(scope_);
    q.set_conversation_id(id);
    q.set_cursor(cursor);
    q.set_follow(follows);
    auto stream = reader_->Read(&context, q);
    v1::ConversationChunk c;
    while (stream->Read(&c))
      if (!on(c)) {
        context.TryCancel();
        break;
      }
    stream->Finish();
  }
  /// Behind everything that is kept.
  std::string end_of(const std::string& id) {
    std::string cursor;
    follow(id, "", false, [&](const auto& c) {
      if (c.has_caught_up())
        cursor = c.caught_up().cursor();
      return true;
    });
    return cursor;
  }
  /// The turns that have ended, whatever came before.
  void wait_for_turns(const std::string& id, std::uint64_t turns) {
    follow(id, "", true, [&](const auto& c) { return !c.has_state() || c.state().usage().turns() < turns; });
  }
  node_client& client() { return client_; }
  const std::string& scope() const { return scope_; }

private:
  node_client client_;
  std::string scope_;
  std::unique_ptr<v1::Conversations::Stub> reader_;
};

/// Those who begin to follow together.
struct beginners {
  std::atomic<int> missing; // who have not got anything yet
};

/// From the driver's writes to this reader, of what comes once everybody follows, until so many turns are over; ms. What was said before is the first
/// chunk, and was not written now.
std::vector<double> delays(talk& t, const std::string& id, std::uint64_t turns, std::size_t wanted, beginners& all) {
  std::vector<double> out;
  bool follows = false;
  t.follow(id, t.end_of(id), true, [&](const v1::ConversationChunk& c) {
    if (c.has_state() && c.state().usage().turns() >= turns)
      return false;
    if (!c.has_delta() || c.delta().text().size() < 64)
      return true;
    // Several that came together are one chunk; the last of them was written last.
    const auto taken = now_ms() - static_cast<double>(std::stoll(c.delta().text().substr(c.delta().text().size() - 64, 20))) / 1e6;
    if (!std::exchange(follows, true))
      --all.missing;
    else if (all.missing <= 0)
      out.push_back(taken);
    return out.size() < wanted;
  });
  return out;
}

class chat_suite final : public suite {
public:
  explicit chat_suite(const settings& s)
    : settings_(s), echo_(s.tools, s.dir), node_(bin_with_scripted_driver(s), s.dir / "node"), real_(s.bin, s.dir / "real") {
    node_.start();
    real_.start();
    for (int i = 0; i < 16; ++i)
      sessions_.push_back(register_session(main().client(), main().scope()));
  }

  void round() override {
    machine();
    one();
    replay();
    memory();
    if (crowd_.empty())
      for (int i = 0; i < many; ++i)
        crowd_.push_back(main().start("nothing"));
    for (const auto& id : crowd_)
      main().wait_for_turns(id, 1);
    crowd();
    locks(1);
    locks(16);
  }

  std::vector<row> rows() const override {
    auto m = [&](const std::string& name) { return samples_.median_of(name); };
    const auto hop = m("hop");
    std::vector<row> out;
    out.push_back({"one hop: a message of a bare gRPC stream, p50", hop, "ms", "", 0, {}, true});
    out.push_back({"a bare pipe between two processes, p50", m("pipe"), "ms", "", 0, {}, true});
    out.push_back({"chat, delta to a follower, 1 conversation, p50", m("one p50"), "ms", "2 hops + 1 ms", 2 * hop + 1, {goal::ratio_at_most, 1}});
    out.push_back({"chat, delta to a follower, 1 conversation, p99", m("one p99"), "ms", "", 0, {}});
    out.push_back({"chat, delta to 100 followers of 100 conversations, p50", m("many p50"), "ms", "", 0, {}});
    out.push_back({"chat, delta to 100 followers of 100 conversations, p99", m("many p99"), "ms", "", 0, {}});
    out.push_back({"chat, until 100 who begin at once have their first delta", m("begin"), "ms", "", 0, {}});
    out.push_back(
      {"chat, prompt to its driver, p50", m("prompt"), "ms", "3 fdatasync + 4 echo", 3 * m("sync") + 4 * m("echo"), {goal::ratio_at_most, 1}});
    out.push_back({"chat, replay of items of 1 KiB", m("replay"), "MB/s", "what a person waits for", replay_goal, {goal::ratio_at_least, 1}});
    out.push_back({"chat, replay of items of 1 KiB", m("replay"), "MB/s", "a bare gRPC stream of such", m("bulk"), {}});
    for (const auto& [n, share] : {std::pair{"1", 0.9}, std::pair{"16", 0.75}})
      out.push_back({std::string{"lock+unlock beside 100 conversations that stream, "} + n + (n == std::string{"1"} ? " client" : " clients"),
                     2 * m(std::string{"beside "} + n),
                     "calls/s",
                     "beside the same load of a dummy",
                     2 * m(std::string{"dummy "} + n),
                     {goal::ratio_at_least, share}});
    out.push_back({"processor time of 100 conversations that stream", m("load"), "% of a core", "", 0, {}});
    out.push_back({"memory of the node per suspended conversation", m("suspended"), "bytes", "", 0, {}});
    out.push_back({"memory of node and keeper per live conversation", m("live"), "bytes", "", 0, {}});
    out.push_back({"memory of a live conversation's swarm-driver", m("driver"), "bytes", "", 0, {}});
    return out;
  }

private:
  talk& main() {
    if (!talk_)
      talk_ = std::make_unique<talk>(node_, (settings_.dir / "work").string());
    return *talk_;
  }

  void machine() {
    samples_.add("sync", closed_loop(1, settings_.length / 3, [&](int) { return sync_operation(settings_.dir / "fdatasync"); }).p50_ms);
    samples_.add("echo", closed_loop(1, settings_.length / 3, [&](int) { return echo_operation(echo_); }).p50_ms);
    auto stub = echo_.connect();
    const auto stream = [&](std::uint32_t count, std::uint32_t bytes, std::uint32_t period_us, const std::function<void(const Payload&)>& on) {
      grpc::ClientContext context;
      Script script;
      script.set_count(count);
      script.set_bytes(bytes);
      script.set_period_us(period_us);
      auto in = stub->Stream(&context, script);
      Payload p;
      while (in->Read(&p))
        on(p);
      check(in->Finish(), "a bare stream");
    };
    std::vector<double> hops;
    stream(samples_wanted, 64, 2'000, [&](const Payload& p) { hops.push_back(now_ms() - static_cast<double>(p.sent_ns()) / 1e6); });
    samples_.add("hop", median(hops));
    const auto began = steady::now();
    stream(replayed_items, item_bytes, 0, [](const Payload&) {});
    samples_.add("bulk", replayed_items * item_bytes / 1e3 / ms_since(began));
    samples_.add("pipe", pipe_delay());
  }

  static double pipe_delay() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw std::runtime_error("no pipe");
    const unique_fd in{ends[0]};
    unique_fd out{ends[1]};
    const auto writer = fork();
    if (writer == 0) {
      for (int i = 0; i < samples_wanted; ++i) {
        usleep(2'000);
        const auto now = now_ms();
        (void)!write(out.get(), &now, sizeof now);
      }
      _exit(0);
    }
    out.reset();
    std::vector<double> taken;
    double sent = 0;
    while (read(in.get(), &sent, sizeof sent) == sizeof sent)
      taken.push_back(now_ms() - sent);
    waitpid(writer, nullptr, 0);
    return median(taken);
  }

  void one() {
    auto& t = main();
    const auto id = t.start("nothing");
    t.wait_for_turns(id, 1);
    std::vector<double> prompts;
    std::uint64_t turns = 1;
    for (int i = 0; i < 40; ++i) {
      const auto said = now_ms();
      t.say(id, "nothing");
      t.wait_for_turns(id, ++turns);
      prompts.push_back(static_cast<double>(std::stoll(t.row(id).last_text())) / 1e6 - said);
    }
    samples_.add("prompt", median(prompts));
    t.say(id, "stream " + std::to_string(per_second) + " 6");
    beginners alone{1};
    const auto taken = delays(t, id, turns + 1, samples_wanted, alone);
    samples_.add("one p50", median(taken));
    samples_.add("one p99", percentile(taken, 0.99));
    t.wait_for_turns(id, ++turns);
  }

  void replay() {
    auto& t = main();
    const auto id = t.start("items " + std::to_string(replayed_items) + " " + std::to_string(item_bytes));
    t.wait_for_turns(id, 1);
    const auto began = steady::now();
    double bytes = 0;
    t.follow(id, "", false, [&](const v1::ConversationChunk& c) {
      bytes += static_cast<double>(c.item().body().size());
      return true;
    });
    samples_.add("replay", bytes / 1e3 / ms_since(began));
  }

  void memory() {
    // On a node of its own: what was allocated before would be used again.
    node fresh{node_.bin(), settings_.dir / ("memory-" + std::to_string(++memory_rounds_))};
    fresh.start();
    talk t{fresh, (settings_.dir / "work").string()};
    t.wait_for_turns(t.start("nothing"), 1);
    const auto keeper = static_cast<pid_t>(t.client().status().keeper_pid());
    auto before = anonymous_memory(fresh.pid());
    std::vector<std::string> ids;
    for (int i = 0; i < many; ++i)
      ids.push_back(t.start());
    samples_.add("suspended", (static_cast<double>(anonymous_memory(fresh.pid())) - static_cast<double>(before)) / many);
    before = anonymous_memory(fresh.pid()) + anonymous_memory(keeper);
    for (const auto& id : ids)
      t.say(id, "nothing");
    for (const auto& id : ids)
      t.wait_for_turns(id, 1);
    const auto after = anonymous_memory(fresh.pid()) + anonymous_memory(keeper);
    samples_.add("live", (static_cast<double>(after) - static_cast<double>(before)) / many);
    samples_.add("driver", real_driver());
  }

  /// With an agent that has not said anything yet.
  double real_driver() {
    talk t{real_, (settings_.dir / "work").string()};
    const auto id = t.start("nothing", {"/bin/sleep", "1000"});
    double bytes = 0;
    eventually(10s, [&] {
      for (const auto child : children_of(static_cast<pid_t>(t.client().status().keeper_pid())))
        if (!children_of(child).empty())
          bytes = static_cast<double>(anonymous_memory(child));
      return bytes > 0;
    });
    auto c = command(t.scope());
    c.mutable_stop_conversation()->set_conversation_id(id);
    t.client().execute(c);
    return bytes;
  }

  void stream_all(int seconds) {
    for (const auto& id : crowd_)
      main().say(id, "stream " + std::to_string(per_second) + " " + std::to_string(seconds));
  }

  void wait_for_all() {
    turns_ += 1;
    for (const auto& id : crowd_)
      main().wait_for_turns(id, turns_);
  }

  void crowd() {
    stream_all(10);
    const auto began = now_ms();
    beginners together{many};
    std::vector<std::future<std::vector<double>>> readers;
    for (const auto& id : crowd_)
      readers.push_back(std::async(std::launch::async, [this, id, &together] {
        talk own{node_, main().scope()};
        return delays(own, id, turns_ + 1, samples_wanted, together);
      }));
    eventually(10s, [&] { return together.missing <= 0; });
    samples_.add("begin", now_ms() - began);
    std::vector<double> all;
    for (auto& r : readers)
      for (auto ms : r.get())
        all.push_back(ms);
    if (all.empty())
      throw std::runtime_error("this machine is too slow for 100 followers: none had begun when the turns were over");
    samples_.add("many p50", median(all));
    samples_.add("many p99", percentile(all, 0.99));
    wait_for_all();
  }

  double lock_rate(int clients) {
    return closed_loop(clients, settings_.length,
                       [&](int i) {
                         return lock_operation(node_.socket(), main().scope(), sessions_[static_cast<std::size_t>(i)],
                                               main().scope() + "/file-" + std::to_string(i));
                       })
      .per_second;
  }

  /// Of the node, its keeper and the drivers, seconds so far.
  double work_so_far() {
    const auto keeper = static_cast<pid_t>(main().client().status().keeper_pid());
    auto sum = processor_time(node_.pid()) + processor_time(keeper);
    for (const auto driver : children_of(keeper))
      sum += processor_time(driver);
    return sum;
  }

  void locks(int clients) {
    const auto seconds = static_cast<int>(settings_.length / 1s) * 2 + 4;
    stream_all(seconds);
    std::this_thread::sleep_for(500ms);
    const auto before = work_so_far();
    const auto began = steady::now();
    std::this_thread::sleep_for(settings_.length);
    const auto percent = (work_so_far() - before) / (ms_since(began) / 1e3) * 100;
    samples_.add("beside " + std::to_string(clients), lock_rate(clients));
    wait_for_all();
    samples_.add("load", percent);
    // On as many processes as cores, as the drivers and the node are.
    std::vector<child> dummies;
    for (int i = 0; i < 2; ++i)
      dummies.emplace_back(std::vector<std::string>{(settings_.tools / "scripted-driver").string(), "--burn", std::to_string(percent / 2)});
    samples_.add("dummy " + std::to_string(clients), lock_rate(clients));
    for (auto& d : dummies)
      d.end(SIGKILL);
  }

  settings settings_;
  echo_server echo_;
  node node_, real_;
  std::unique_ptr<talk> talk_;
  std::vector<std::string> sessions_, crowd_;
  std::uint64_t turns_ = 1; // of each of the crowd
  int memory_rounds_ = 0;
};

} // namespace

std::unique_ptr<suite> make_chat_suite(const settings& s) { return std::make_unique<chat_suite>(s); }

} // namespace swarm::bench
