#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <future>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include <sys/socket.h>
#include <unistd.h>

#include "actors/base/crypto.hpp"
#include "swarm/v1/pty.grpc.pb.h"
#include "tools/bench.d/remote.hpp"
#include "tools/bench.d/suite.hpp"

namespace swarm::bench {

namespace {

using namespace std::chrono_literals;

const std::string scope = "bench";
constexpr int in_a_row = 20;    // bare calls, pairs at the home, pairs from the member: as many of one before the next
constexpr int keystrokes = 200; // per round, idle and beside the flood
constexpr int messages = 1'000; // per round and node
constexpr int agents = 8;       // they are for
constexpr std::size_t flood_bytes = 32 * 1024 * 1024;
constexpr std::size_t warm_up_bytes = 1024 * 1024; // of the flood beside which keys are typed
const std::string ready = "[ready]";
const std::string line = std::string(79, 'x') + "\n"; // a terminal makes its end two characters

/// What the flood's program writes is `lines`, and a terminal adds a character to each.
constexpr std::size_t flood_arrives = flood_bytes / 80 * 81;

/// Says that it is there, and begins when a line is typed.
std::string flood_of(const std::filesystem::path& lines) {
  return "stty -echo; printf '" + ready + "'; read -r go; exec cat '" + lines.string() + "'";
}

/// A program on a terminal of the node; its end is the end of this.
class terminal {
public:
  terminal(const node& n, const std::string& shell_command) : client_(n.socket()), stub_(v1::Ptys::NewStub(client_.channel())) {
    v1::CreatePtyRequest request;
    request.mutable_id()->set_client(to_hex(random_bytes(16)));
    request.mutable_id()->set_seq(1);
    request.set_scope(n.dir().string());
    for (const auto& word : {std::string{"/bin/sh"}, std::string{"-c"}, shell_command})
      request.add_argv(word);
    request.set_directory("/");
    grpc::ClientContext context;
    v1::PtyInfo made;
    check(stub_->Create(&context, request, &made), "Create");
    id_ = made.id();
  }
  ~terminal() {
    v1::KillPtyRequest request;
    request.set_pty_id(id_);
    request.set_signal(SIGKILL);
    grpc::ClientContext context;
    v1::PtyInfo gone;
    stub_->Kill(&context, request, &gone); // one that has ended by itself needs none
  }
  terminal(const terminal&) = delete;
  terminal& operator=(const terminal&) = delete;
  const std::string& id() const { return id_; }

private:
  node_client client_;
  std::unique_ptr<v1::Ptys::Stub> stub_;
  std::string id_;
};

/// Somebody at the node who looks at a terminal, wherever it is, and types.
class attachment {
public:
  attachment(const node& n, const terminal& t) : client_(n.socket()), stub_(v1::Ptys::NewStub(client_.channel())), stream_(stub_->Attach(&context_)) {
    v1::AttachFrame hello;
    hello.set_pty_id(t.id());
    write(hello);
    std::string seen;
    while (seen.find(ready) == seen.npos)
      seen += read().data();
  }
  ~attachment() {
    cancel();
    stream_->Finish();
  }
  attachment(const attachment&) = delete;
  attachment& operator=(const attachment&) = delete;

  void type(const std::string& keys) {
    v1::AttachFrame frame;
    frame.set_input(keys);
    write(frame);
  }
  /// False: the stream is over.
  bool next(v1::PtyChunk& chunk) { return stream_->Read(&chunk); }
  v1::PtyChunk read() {
    v1::PtyChunk chunk;
    if (!next(chunk))
      throw std::runtime_error("the stream of a terminal ended");
    return chunk;
  }
  void cancel() { context_.TryCancel(); }

private:
  void write(const v1::AttachFrame& frame) {
    if (!stream_->Write(frame))
      throw std::runtime_error("the stream of a terminal takes nothing");
  }

  node_client client_;
  std::unique_ptr<v1::Ptys::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AttachFrame, v1::PtyChunk>> stream_;
};

double mib_per_second(std::size_t bytes, double ms) { return static_cast<double>(bytes) / (1024 * 1024) / (ms / 1000); }

class hosts_suite final : public suite {
public:
  explicit hosts_suite(const settings& s) : settings_(s), echo_(s.tools, s.dir), ssh_(s.dir), nodes_(s.bin, s.dir), lines_(s.dir / "lines") {
    std::ofstream out{lines_};
    for (std::size_t written = 0; written < flood_bytes; written += line.size())
      out << line;
    if (!out.flush())
      throw std::runtime_error("cannot write " + lines_.string());
  }

  void round() override {
    commands(1, "");
    commands(in_a_row, " in a row");
    samples_.add("flood over ssh", flood_over_ssh());
    flood_over_link();
    samples_.add("key", key_echo());
    samples_.add("key beside flood", key_echo_beside_flood());
    samples_.add("messages at home", deliver(nodes_.home));
    samples_.add("messages to member", deliver(nodes_.member));
  }

  std::vector<row> rows() const override {
    auto m = [&](const std::string& name) { return samples_.median_of(name); };
    std::vector<row> out;
    out.push_back({"hosts: bare round trip over TCP, TLS both sides, p50", m("bare"), "ms", "", 0, {}, true});
    out.push_back({"hosts: lock+unlock, member's client, p50", m("pair from member"), "ms", "the same at the home", m("pair at home"), {}});
    out.push_back({"hosts: lock+unlock, member's client, p50",
                   m("pair from member"),
                   "ms",
                   "1.2 of the home's + 2 bare trips",
                   1.2 * m("pair at home") + 2 * m("bare"),
                   {goal::ratio_at_most, 1}});
    out.push_back({"hosts: the same, 20 of each in a row",
                   m("pair from member in a row"),
                   "ms",
                   "1.2 of the home's + 2 bare trips",
                   1.2 * m("pair at home in a row") + 2 * m("bare in a row"),
                   {}});
    out.push_back({"hosts: flood of a member's terminal, at the home",
                   m("flood"),
                   "MiB/s",
                   "ssh -t, the same program",
                   m("flood over ssh"),
                   {goal::ratio_at_least, 0.8}});
    out.push_back({"hosts: of that flood, arrived", m("flood arrived"), "MiB", "written", static_cast<double>(flood_arrives) / (1024 * 1024), {}});
    out.push_back({"hosts: key to its echo beside a flood, p50", m("key beside flood"), "ms", "without a flood", m("key"), {goal::ratio_at_most, 3}});
    out.push_back(
      {"hosts: 1 000 messages to 8 agents of a member", m("messages to member"), "msgs/s", "to agents at the home", m("messages at home"), {}});
    return out;
  }

private:
  /// By turns: disk and machine are slower in one moment than in the next. One by one each finds threads that sleep, as a command of a person
  /// or an agent does; in a row the threads of the shorter operations do not fall asleep, where the machine waits a little before it lets them.
  void commands(int row, const std::string& what) {
    const std::vector<std::pair<std::string, operation>> all = {
      {"bare", bare_operation()}, {"pair at home", lock_operation(nodes_.home)}, {"pair from member", lock_operation(nodes_.member)}};
    std::map<std::string, std::vector<double>> taken;
    for (auto began = steady::now(); steady::now() - began < 3 * settings_.length;)
      for (const auto& [name, op] : all)
        for (int i = 0; i < row; ++i) {
          auto start = steady::now();
          op();
          taken[name].push_back(ms_since(start));
        }
    for (const auto& [name, values] : taken)
      samples_.add(name + what, median(values));
  }

  operation bare_operation() const {
    auto stub = std::shared_ptr{echo_.connect()};
    return [stub] {
      grpc::ClientContext context;
      Payload in, out;
      in.set_data(std::string(160, 'x')); // about a lock command
      check(stub->Say(&context, in, &out), "echo");
      return true;
    };
  }

  /// One pair after the other, by a session of that node.
  operation lock_operation(const node& n) const {
    auto c = std::make_shared<node_client>(n.socket());
    auto session = register_session(*c, scope);
    return [c, session] {
      auto take = command(scope, session), give = take;
      take.mutable_acquire_lock()->set_path("/bench/hosts.cpp");
      c->execute(take);
      give.mutable_release_lock()->set_path("/bench/hosts.cpp");
      c->execute(give);
      return true;
    };
  }

  double flood_over_ssh() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("no socket pair");
    unique_fd mine{ends[0]}, theirs{ends[1]};
    child process{ssh_.on_terminal(flood_of(lines_)), {}, -1, theirs.get()};
    theirs.reset();
    std::string buffer(64 * 1024, '\0');
    auto read_some = [&] { return static_cast<std::size_t>(std::max<ssize_t>(::read(mine.get(), buffer.data(), buffer.size()), 0)); };
    for (std::string seen; seen.find(ready) == seen.npos;) {
      auto n = read_some();
      if (n == 0)
        throw std::runtime_error("ssh ended: " + seen);
      seen.append(buffer, 0, n);
    }
    auto began = steady::now();
    if (::write(mine.get(), "\n", 1) != 1)
      throw std::runtime_error("ssh takes no input");
    std::size_t arrived = 0;
    while (auto n = read_some())
      arrived += n;
    auto taken = ms_since(began);
    if (arrived < flood_arrives)
      throw std::runtime_error("ssh brought " + std::to_string(arrived) + " bytes only");
    return mib_per_second(flood_arrives, taken);
  }

  /// What is announced as lost has not arrived.
  void flood_over_link() {
    terminal far{nodes_.member, flood_of(lines_)};
    attachment near{nodes_.home, far};
    auto began = steady::now();
    near.type("\n");
    std::size_t arrived = 0;
    for (v1::PtyChunk chunk; !chunk.ended();) {
      chunk = near.read();
      arrived += chunk.data().size();
    }
    auto taken = ms_since(began);
    samples_.add("flood", mib_per_second(arrived, taken));
    samples_.add("flood arrived", static_cast<double>(arrived) / (1024 * 1024));
  }

  double key_echo() {
    terminal far{nodes_.member, "stty raw -echo; printf '" + ready + "'; exec cat"};
    attachment near{nodes_.home, far};
    std::vector<double> taken;
    for (int i = 0; i < keystrokes; ++i) {
      auto began = steady::now();
      near.type("k");
      while (near.read().data().empty()) {
      }
      taken.push_back(ms_since(began));
    }
    return median(taken);
  }

  /// Somebody else at the home follows another terminal of the member, whose program writes as fast as it can.
  double key_echo_beside_flood() {
    // It ends by itself should nobody be left to end it.
    terminal flood{nodes_.member, "printf '" + ready + "'; exec timeout 300 yes " + line.substr(0, line.size() - 1)};
    attachment reader{nodes_.home, flood};
    std::atomic<std::size_t> arrived = 0;
    auto reading = std::async(std::launch::async, [&] {
      for (v1::PtyChunk chunk; reader.next(chunk);)
        arrived += chunk.data().size();
    });
    if (!eventually(60s, [&] { return arrived >= warm_up_bytes; }))
      throw std::runtime_error("the flood does not begin");
    auto before = arrived.load();
    auto taken = key_echo();
    auto flowed = arrived != before;
    reader.cancel();
    reading.get();
    if (!flowed)
      throw std::runtime_error("the flood stood still while keys were typed");
    return taken;
  }

  /// From before the first is sent at the home until agents at the node have the last, by WaitForActivity; each message once.
  double deliver(const node& to) {
    node_client sender{nodes_.home.socket()};
    const auto from = register_session(sender, scope);
    std::vector<std::unique_ptr<node_client>> clients;
    std::vector<std::string> sessions;
    for (int i = 0; i < agents; ++i) {
      clients.push_back(std::make_unique<node_client>(to.socket()));
      sessions.push_back(register_session(*clients.back(), scope));
    }
    std::vector<std::future<void>> receiving;
    for (int i = 0; i < agents; ++i)
      receiving.push_back(
        std::async(std::launch::async, [&, i] { receive(*clients[static_cast<std::size_t>(i)], sessions[static_cast<std::size_t>(i)], i); }));
    auto began = steady::now();
    int sent = 0;
    pipeline(
      sender,
      [&](v1::Command& c) {
        if (sent == messages)
          return false;
        c = command(scope, from);
        c.mutable_send_message()->set_recipient(sessions[static_cast<std::size_t>(sent % agents)]);
        c.mutable_send_message()->set_content(std::to_string(sent++));
        return true;
      },
      [](const v1::Reply&) {});
    for (auto& r : receiving)
      r.get();
    return messages / (ms_since(began) / 1000);
  }

  /// All that are for this agent, and nothing else.
  static void receive(node_client& c, const std::string& session, int agent) {
    std::set<int> expected;
    for (int i = agent; i < messages; i += agents)
      expected.insert(i);
    v1::WaitRequest request;
    request.set_scope(scope);
    request.set_session_id(session);
    request.set_timeout_ms(30'000);
    while (!expected.empty()) {
      grpc::ClientContext context;
      v1::Activity answer;
      check(c.stub().WaitForActivity(&context, request, &answer), "WaitForActivity");
      if (answer.timed_out() || answer.has_refusal())
        throw std::runtime_error("messages did not arrive: " + std::to_string(expected.size()) + " " + answer.refusal().text());
      for (const auto& m : answer.messages())
        if (expected.erase(std::stoi(m.content())) != 1)
          throw std::runtime_error("a message arrived twice, or at somebody else's");
      request.set_since(answer.revision());
    }
  }

  settings settings_;
  tls_echo_server echo_;
  ssh_server ssh_;
  two_nodes nodes_;
  std::filesystem::path lines_;
};

} // namespace

std::unique_ptr<suite> make_hosts_suite(const settings& s) { return std::make_unique<hosts_suite>(s); }

} // namespace swarm::bench
