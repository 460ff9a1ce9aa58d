// Conversations with agents that are not there, speak no protocol, say nothing, die or forget, with decisions that come twice or from the wrong ones,
// and with a log that is damaged: what is wrong is said where people look, nothing is lost, and the conversation goes on.
#include <doctest/doctest.h>

#include <csignal>
#include <fstream>

#include "tests/support/node_process.hpp"
#include "tests/support/scripted_agent.hpp"

using namespace swarm::testing;

namespace {

using words = std::vector<std::string>;

/// "kind state", or the kind alone.
std::string kind_of(const json& line) {
  const auto kind = line.at("kind").get<std::string>();
  return line.contains("state") ? kind + " " + line["state"].get<std::string>() : kind;
}

struct talk {
  test_node node;
  const std::string journal = node.work() + "/journal";
  std::string id;

  talk() {
    node.start();
    id = node.ctl_json({"chat", "new", "--harness", "claude", "--detach", "--", program("scripted_agent").string(), journal}).at("id");
  }
  std::string send(const std::string& prompt) const { return node.ctl_json({"chat", "send", id, prompt}).at("prompt"); }
  std::vector<json> items() const {
    const auto r = node.ctl({"chat", "read", id, "--json"});
    CHECK_MESSAGE(r.status == 0, r.err);
    std::vector<json> out;
    for (const auto& line : lines_of(r.out))
      out.push_back(json::parse(line));
    return out;
  }
  std::vector<json> items(const std::string& kind) const {
    auto out = items();
    std::erase_if(out, [&](const json& item) { return kind_of(item) != kind && item.at("kind") != kind; });
    return out;
  }
  bool comes(const std::string& kind, std::size_t times = 1) const {
    return eventually([&] { return items(kind).size() >= times; });
  }
  json row() const {
    for (auto& c : node.ctl_json({"chat", "list", "--all"}))
      if (c.at("id") == id)
        return c;
    return {};
  }
  json open_request(const std::string& other_than = {}) const {
    json found;
    REQUIRE(eventually([&] {
      for (auto& a : node.ctl_json({"approvals"}))
        if (a.at("id") != other_than)
          found = a;
      return !found.is_null();
    }));
    return found;
  }
  run_result decide(const json& a, const std::string& choice, const words& more = {}) const {
    words line{"decide", a.at("id"), choice, "--digest", a.at("digest")};
    line.insert(line.end(), more.begin(), more.end());
    return node.ctl(line);
  }
  /// That one more prompt is answered: whatever was wrong is over.
  void goes_on(const std::string& name) const {
    send(name + " 2 0 0");
    CHECK_MESSAGE(eventually([&] {
                    const auto texts = items("text");
                    return !texts.empty() && texts.back().at("text") == said_by(name, 2);
                  }),
                  node.ctl({"chat", "read", id}).out << row().dump());
    CHECK(eventually([&] { return row().at("state") == "idle"; }));
  }
  /// Each turn has one end, and nothing is open.
  void is_whole() const {
    CHECK(items("turn started").size() == items("turn ended").size() + items("turn failed").size());
    CHECK(node.ctl_json({"approvals"}).empty());
  }
};

} // namespace

TEST_CASE("a conversation whose program is not there says so and does not wait for it") {
  test_node node;
  node.start();
  const auto r = node.ctl({"chat", "new", "--harness", "claude", "hello"});
  CHECK(r.status == 1);
  CHECK_MESSAGE(r.err.find("not installed") != std::string::npos, r.err);
  const auto other = node.ctl({"chat", "new", "--harness", "claude", "hello", "--", "/no/such/program"});
  CHECK(other.status == 1);
  CHECK_MESSAGE(other.err.find("/no/such/program") != std::string::npos, other.err);
}

TEST_CASE("an agent that writes garbage and a line without end is reported, and its turn goes on") {
  talk t;
  t.send("x 2 0 0 garbage");
  REQUIRE(t.comes("turn ended"));
  CHECK(t.items("text").size() == 2);
  const auto notices = t.items("notice");
  CHECK(std::count_if(notices.begin(), notices.end(), [](const json& n) { return n.at("notice") == "unreadable"; }) >= 3);
  t.goes_on("after");
  t.is_whole();
}

TEST_CASE("an agent that says nothing of a prompt is interrupted, and the prompt is said to have come to nothing") {
  talk t;
  const auto lost = t.send("x 1 0 0 mute");
  REQUIRE(eventually([&] { return file_text(t.journal).find("prompt") != std::string::npos; }));
  t.node.ctl_json({"chat", "interrupt", t.id});
  REQUIRE(eventually([&] {
    for (const auto& p : t.node.ctl_json({"chat", "prompts", t.id}))
      if (p.at("id") == lost)
        return p.at("state") == "undeliverable" || p.at("state") == "unknown";
    return false;
  }));
  t.goes_on("after");
}

TEST_CASE("a prompt whose outcome nobody knows is shown as unknown, and is not given to the next agent") {
  talk t;
  const auto lost = t.send("x 1 0 0 mute");
  REQUIRE(eventually([&] { return file_text(t.journal).find("prompt") != std::string::npos; }));
  t.node.kill_keeper();
  t.goes_on("after");
  const auto all = t.node.ctl_json({"chat", "prompts", t.id});
  const auto row = std::find_if(all.begin(), all.end(), [&](const json& p) { return p.at("id") == lost; });
  REQUIRE(row != all.end());
  CHECK(row->at("state") == "unknown");
  CHECK_FALSE(row->at("reason").get<std::string>().empty());
  const auto journal = file_text(t.journal);
  CHECK(journal.find(lost) == journal.rfind(lost));
  const auto again = t.node.ctl_json({"chat", "resend", t.id}).at("prompt").get<std::string>();
  CHECK(again != lost);
  CHECK(eventually([&] { return file_text(t.journal).find(again) != std::string::npos; }));
}

TEST_CASE("an agent that dies before it has introduced itself is started again for the prompt, three times at most") {
  talk t;
  std::ofstream{t.journal + ".stillborn"} << "12";
  t.goes_on("first");
  CHECK(t.items("notice").size() == 2);
  CHECK(t.items("notice undelivered").empty());
  t.node.ctl_json({"chat", "stop", t.id});
  REQUIRE(eventually([&] { return t.row().at("state") == "ended"; }));
  REQUIRE(eventually([&] { return t.node.ctl({"chat", "resume", t.id}).status == 0; }));
  std::ofstream{t.journal + ".stillborn"} << std::string(100, 'x');
  const auto lost = t.send("second 1 0 0");
  REQUIRE(eventually([&] {
    const auto all = t.node.ctl_json({"chat", "prompts", t.id});
    return std::any_of(all.begin(), all.end(), [&](const json& p) { return p.at("id") == lost && p.at("state") == "undeliverable"; });
  }));
  std::filesystem::remove(t.journal + ".stillborn");
  t.goes_on("third");
  t.is_whole();
}

TEST_CASE("an agent that asks again under an id that it has used is asked about again") {
  talk t;
  t.send("x 2 2 0 repeats");
  const auto first = t.open_request();
  CHECK(t.decide(first, "deny").status == 0);
  const auto second = t.open_request(first.at("id"));
  CHECK(t.decide(second, "allow").status == 0);
  REQUIRE(t.comes("turn ended"));
  const auto results = t.items("tool done");
  REQUIRE(results.size() == 2);
  CHECK(results[0].at("output") == "deny");
  CHECK(results[1].at("output") == "allow");
  t.is_whole();
}

TEST_CASE("an agent that dies before it has its answer takes its request along") {
  talk t;
  t.send("x 1 1 0 exits");
  REQUIRE(t.comes("turn failed"));
  CHECK(t.items("permission asked").size() == 1);
  CHECK(t.items("permission withdrawn").size() == 1);
  t.goes_on("after");
  t.is_whole();
}

TEST_CASE("an agent that names another session than its own changes nothing for others") {
  talk t;
  const auto other = t.node.session("role:other");
  auto row_of_other = [&] {
    for (auto& s : t.node.ctl_json({"instances"}))
      if (s.at("id") == other) {
        s.erase("heartbeat");
        return s;
      }
    return json{};
  };
  t.goes_on("first");
  const auto before = row_of_other();
  const auto own = t.row().at("instance_id");
  t.send("x 2 0 0 stranger");
  REQUIRE(t.comes("turn ended", 2));
  CHECK(row_of_other() == before);
  CHECK(own != other);
  CHECK(t.row().at("instance_id") == own);
  CHECK(t.row().at("native_session") == "99999999-0000-4000-8000-000000000000");
  t.goes_on("after");
  t.is_whole();
}

TEST_CASE("an agent that has forgotten its session is started anew, says so, and gets the prompt") {
  talk t;
  t.goes_on("first");
  const auto session = t.row().at("native_session");
  t.node.ctl_json({"chat", "stop", t.id});
  REQUIRE(eventually([&] { return t.row().at("state") == "ended"; }));
  std::ofstream{t.journal + ".forgotten"};
  REQUIRE(eventually([&] { return t.node.ctl({"chat", "resume", t.id}).status == 0; }));
  t.goes_on("second");
  CHECK(t.row().at("native_session") != session);
  const auto notices = t.items("notice");
  CHECK(std::count_if(notices.begin(), notices.end(), [](const json& n) { return n.at("notice") == "forgotten"; }) == 1);
  t.is_whole();
}

TEST_CASE("a decision counts once, with the digest of what was shown, and from a person") {
  talk t;
  t.send("x 1 1 0");
  const auto a = t.open_request();
  auto wrong = a;
  wrong["digest"] = std::string(64, '0');
  CHECK(t.decide(wrong, "allow").status == 1);
  CHECK(t.decide(a, "perhaps").status == 1);
  CHECK(t.decide(a, "allow", {"--input", "[1]"}).status != 0);
  CHECK(t.open_request().at("id") == a.at("id"));
  CHECK(t.decide(a, "deny").status == 0);
  const auto late = t.decide(a, "allow");
  CHECK(late.status == 1);
  CHECK_MESSAGE(late.err.find("deny") != std::string::npos, late.err);
  REQUIRE(t.comes("turn ended"));
  CHECK(t.items("tool done").front().at("output") == "deny");
  t.is_whole();
}

TEST_CASE("keeper and node that die together leave no turn and no request without an end") {
  talk t;
  t.send("x 1 1 0");
  t.open_request();
  t.send("waits 2 0 0");
  t.node.kill_node();
  t.node.kill_keeper();
  t.node.start();
  REQUIRE(t.comes("turn ended"));
  CHECK(t.items("permission withdrawn").size() == 1);
  for (const auto& failed : t.items("turn failed"))
    CHECK(failed.at("at").get<std::int64_t>() > 0);
  t.goes_on("after");
  t.is_whole();
}

TEST_CASE("a damaged log has a gap where it is damaged and nowhere else, and the conversation goes on") {
  talk t;
  for (const auto* name : {"first", "second"})
    t.goes_on(name);
  t.node.kill_node();
  std::string log;
  for (const auto& file : fs::recursive_directory_iterator{t.node.dir().root / "conversations"})
    if (file.path().extension() == ".log")
      log = file.path().string();
  REQUIRE_FALSE(log.empty());
  auto bytes = file_text(log);
  bool is_whole_but_for_a_frame = true; // and a frame has at most one of the six texts
  SUBCASE("a bit of it") { bytes[bytes.size() / 2] ^= 1; }
  SUBCASE("its end") { bytes.resize(bytes.size() - 1); }
  SUBCASE("half of it") {
    bytes.resize(bytes.size() / 2);
    is_whole_but_for_a_frame = false;
  }
  std::ofstream{log, std::ios::binary | std::ios::trunc} << bytes;
  t.node.start();
  t.goes_on("after");
  CHECK(t.items("gap").size() == 1);
  const auto texts = t.items("text");
  CHECK(texts.front().at("text") == said_by("first", 1));
  CHECK(texts.back().at("text") == said_by("after", 2));
  if (is_whole_but_for_a_frame)
    CHECK(texts.size() >= 5);
}

TEST_CASE("a store that is restored on another node has its conversations lost, and says which node has them") {
  talk t;
  t.send("x 1 1 0");
  t.open_request();
  const auto copy = t.node.work() + "/copy.db";
  t.node.ctl_json({"backup", copy});
  test_node other;
  REQUIRE(other.ctl({"restore", copy}).status == 0);
  other.start();
  const auto there = [&](words line) {
    line.insert(line.end(), {"--scope", t.node.work()});
    return other.ctl(line);
  };
  json row;
  REQUIRE(eventually([&] {
    const auto all = json::parse(there({"chat", "list", "--json"}).out);
    row = all.empty() ? json{} : all.front();
    return row.is_object() && row.at("state") == "lost";
  }));
  const auto node_id = t.row().at("node_id").get<std::string>();
  CHECK(row.at("reason").get<std::string>().find(node_id) != std::string::npos);
  CHECK(json::parse(there({"approvals", "--json"}).out).empty());
  for (const auto& line : {words{"chat", "send", t.id, "more"}, words{"chat", "resume", t.id}, words{"chat", "read", t.id}}) {
    const auto r = there(line);
    CHECK(r.status == 1);
    CHECK_MESSAGE(r.err.find(node_id) != std::string::npos, r.err);
  }
  CHECK(there({"chat", "delete", t.id}).status == 0);
  CHECK(t.row().at("state") == "blocked"); // where it lives nothing has changed
}

TEST_CASE("where logs cannot be kept at all a conversation says so to whoever prompts it, and goes on when they can") {
  talk t;
  t.goes_on("first");
  t.node.kill_node();
  const auto logs = t.node.dir().root / "conversations", away = t.node.dir().root / "away";
  fs::rename(logs, away);
  std::ofstream{logs} << "no directory";
  t.node.start();
  t.send("second 1 0 0");
  REQUIRE(eventually([&] { return t.row().at("reason").dump().find("its log cannot be used") != std::string::npos; }));
  const auto told = t.node.ctl({"chat", "send", t.id, "third 1 0 0"});
  CHECK(told.status == 0);
  CHECK_MESSAGE(told.err.find("its log cannot be used") != std::string::npos, told.err);
  fs::remove(logs);
  fs::rename(away, logs);
  CHECK(eventually([&] { return t.row().at("state") == "idle" && t.row().at("queued") == 0 && t.row().at("reason").is_null(); }));
  t.goes_on("fourth");
}

TEST_CASE("a log that cannot be opened is set aside, a gap says so, and the conversation goes on") {
  talk t;
  t.goes_on("first");
  t.node.kill_node();
  std::vector<fs::path> logs;
  for (const auto& file : fs::recursive_directory_iterator{t.node.dir().root / "conversations"})
    if (file.path().extension() == ".log")
      logs.push_back(file.path());
  REQUIRE_FALSE(logs.empty());
  for (const auto& log : logs) {
    fs::remove(log);
    fs::create_directory(log);
  }
  t.node.start();
  t.goes_on("after");
  CHECK(t.items("gap").size() == 1);
}
