#include "tests/fuzz/seeds.hpp"

#include "actors/base/limits.hpp"
#include "actors/store/conversation/cursor.hpp"
#include "swarm/internal/commit_log.pb.h"
#include "swarm/v1/coordination.pb.h"
#include "swarm/v1/federation.pb.h"
#include "swarm/v1/pty.pb.h"
#include "tests/fuzz/fuzz.hpp"

namespace swarm::fuzz {

namespace {

/// A message with every field set to something that a rule can make use of.
void fill(google::protobuf::Message& m, int depth = 0) {
  const auto* d = m.GetDescriptor();
  const auto* r = m.GetReflection();
  using field = google::protobuf::FieldDescriptor;
  for (int i = 0; i < d->field_count(); ++i) {
    const auto* f = d->field(i);
    if (f->containing_oneof() || (f->cpp_type() == field::CPPTYPE_MESSAGE && depth > 3))
      continue;
    const bool many = f->is_repeated();
    switch (f->cpp_type()) {
      case field::CPPTYPE_STRING: {
        auto v = f->name().find("id") != std::string::npos ? "1" : f->name() == "path" ? "/repo/x" : f->name() == "directory" ? "/repo" : "text";
        many ? r->AddString(&m, f, v) : r->SetString(&m, f, v);
        break;
      }
      case field::CPPTYPE_INT32: many ? r->AddInt32(&m, f, 1) : r->SetInt32(&m, f, 1); break;
      case field::CPPTYPE_INT64: many ? r->AddInt64(&m, f, 1000) : r->SetInt64(&m, f, 1000); break;
      case field::CPPTYPE_UINT32: many ? r->AddUInt32(&m, f, 1) : r->SetUInt32(&m, f, 1); break;
      case field::CPPTYPE_UINT64: many ? r->AddUInt64(&m, f, 1) : r->SetUInt64(&m, f, 1); break;
      case field::CPPTYPE_BOOL: many ? r->AddBool(&m, f, true) : r->SetBool(&m, f, true); break;
      case field::CPPTYPE_ENUM: many ? r->AddEnumValue(&m, f, 1) : r->SetEnumValue(&m, f, 1); break;
      case field::CPPTYPE_MESSAGE: fill(many ? *r->AddMessage(&m, f) : *r->MutableMessage(&m, f), depth + 1); break;
      default: break;
    }
  }
}

class corpus {
public:
  explicit corpus(std::vector<seed>& out) : out_(out) {}
  void add(const std::string& name, const std::string& bytes) { out_.push_back({name, bytes}); }

private:
  std::vector<seed>& out_;
};

/// Every body of a command or query, empty and filled.
template <class Message, class Add>
void each_body(Add add) {
  const auto* bodies = Message::descriptor()->FindOneofByName("body");
  for (int i = 0; i < bodies->field_count(); ++i)
    for (bool filled : {false, true}) {
      Message m;
      m.set_scope("s");
      auto* body = m.GetReflection()->MutableMessage(&m, bodies->field(i));
      if (filled)
        fill(*body);
      add(bodies->field(i)->name() + (filled ? "-filled" : ""), m);
    }
}

template <class Row>
void row(corpus& c, char which) {
  Row r;
  fill(r);
  c.add(r.GetDescriptor()->name(), which + piece_of(r.SerializeAsString()) + r.SerializeAsString());
}

/// Little endian.
std::string number(std::uint64_t n, unsigned bytes) {
  std::string out;
  for (unsigned i = 0; i < bytes; ++i)
    out += static_cast<char>(n >> (8 * i));
  return out;
}

std::string nul_after(std::string text) { return std::move(text) + '\0'; }

void add_commit_log(corpus c) {
  internal::CommitRecord record;
  fill(record);
  auto append = [](const std::string& payload) { return number(0, 1) + piece_of(payload); };
  auto start = number(2, 1), open = number(3, 1), all = number(4, 2);
  auto three = start + append("one") + append(record.SerializeAsString()) + append("");
  c.add("again", three + open + append("more") + open + number(4, 1) + number(2, 1));
  c.add("generations", three + start + append("one") + open + start + open + append("two") + all);
  for (unsigned at : {0u, 20u, 30u, 45u, 50u, 70u})
    c.add("flip-" + std::to_string(at), three + number(5, 1) + number(at, 2) + number(1, 1) + append("after"));
  c.add("cut", three + number(6, 1) + number(90, 2) + append("after") + open);
  c.add("moved", three + number(7, 1) + number(51, 2) + number(0, 2) + number(100, 2) + append("after"));
  c.add("strange", three + number(7, 1) + number(0, 6) + piece_of(std::string(16, 'g') + number(1, 8) + number(~0ull, 8) + "sum") + open);
}

void add_conversation(corpus c) {
  auto append = [](const std::string& body) { return number(0, 1) + number(2, 1) + piece_of(body); };
  auto sync = number(2, 2), open = number(3, 1);
  auto resume = [](unsigned which) { return number(4, 1) + number(which, 1) + number(50, 1); };
  auto fail = [](unsigned how) { return number(5, 1) + number(how, 1); };
  auto strike = [](unsigned file, unsigned how, unsigned at) { return number(6, 1) + number(file, 1) + number(how, 1) + number(at, 2); };
  std::string many;
  for (unsigned i = 0; i < 30; ++i)
    many += append(std::string(i * 13 % 200, 'x'));
  c.add("plain", append("one") + sync + append("two") + open + resume(1) + append("three") + resume(0));
  c.add("files", many + sync + open + resume(3) + resume(28) + append("more") + open + resume(30));
  c.add("full", append("one") + fail(2) + append("two") + sync + fail(0) + append("2") + sync + open + resume(1));
  c.add("fails", append("one") + fail(1) + sync + sync + append("two") + fail(1) + append("three") + append("four") + open + resume(2));
  for (unsigned at : {0u, 20u, 41u, 45u, 50u, 76u, 90u, 120u}) {
    c.add("flip-" + std::to_string(at),
          append("one") + append("two") + sync + append("three") + strike(0, 1, at) + number(1, 1) + append("after") + open);
    c.add("cut-" + std::to_string(at), append("one") + append("two") + append("three") + strike(0, 0, at) + append("after") + resume(1) + resume(3));
  }
  c.add("older", many + strike(1, 1, 100) + number(1, 1) + resume(5) + resume(2) + append("after") + open);
  c.add("moved", many + strike(2, 2, 40) + number(90, 1) + number(160, 2) + open + append("after"));
  c.add("strange", append("one") + number(7, 1) + number(39, 8) + piece_of("swrmcnv1") + append("two") + open);
  c.add("far", append("one") + number(7, 1) + number(1ull << 60, 8) + piece_of("") + append("two") + open);
  c.add("cursor", many + number(8, 1) + number(1, 1) + number(40, 8) + number(0, 4) + number(8, 1) + number(7, 1) + number(~0ull, 8) + number(0, 4));
}

void add_cursor(corpus c) {
  c.add("text", number(0, 1) + to_text({.epoch = 0x0123456789abcdef, .at = {1000, 77}, .open_bytes = 12, .open_mark = 99}));
  c.add("zeros", number(0, 1) + std::string(44, 'A'));
  c.add("padded", number(0, 1) + to_text({}) + "=");
  auto fields = [](std::uint64_t wide, std::uint64_t narrow) {
    return number(wide, 8) + number(wide / 3, 8) + number(narrow, 4) + number(narrow / 3, 4) + number(narrow / 5, 4);
  };
  for (unsigned at : {0u, 1u, 20u, 43u})
    c.add("fields-" + std::to_string(at), number(2, 1) + number(at, 1) + number('A' + at, 1) + fields(0x0123456789abcdef, 0xfedcba98));
  c.add("largest", number(2, 1) + number(7, 1) + number(0xff, 1) + std::string(28, '\xff'));
  std::string letters = "a\xc3\x9f\xe2\x82\xac\xf0\x9f\x98\x80", much;
  while (much.size() < 5'000)
    much += letters;
  c.add("item", number(1, 1) + number(1, 1) + number(0, 1) + piece_of(letters) + number(3, 1) + piece_of(letters));
  c.add("much", number(1, 1) + number(1, 1) + number(0, 1) + piece_of(much) + number(9, 1) + piece_of(much));
  c.add("holes", number(1, 1) + number(0, 1) + number(0, 1) + piece_of(letters) + number(3, 1) + piece_of(letters) + number(200, 1) + piece_of(""));
}

void add_profile(corpus c) {
  for (const auto* text : {"export A=1\nB=\"$A ${A}\"\n# c\nC='${NONE:-$GIVEN}'\n", "A=$\nB=${\nC=$ {A}\nD=${:-x}\nexport\n=1\n1A=2\n",
                           "A=0123456789\nA=$A$A$A$A\nA=$A$A$A$A\nA=$A$A$A$A\nA=$A$A$A$A\nA=$A$A$A$A\n", "\tA = \"x\r\n \v B='\"'\r\nHOME=$HOME/x\n"})
    c.add(to_hex(sha256(text)).substr(0, 8), piece_of("from outside") + text);
}

void add_ring(corpus c) {
  constexpr std::uint64_t most = ~0ull, size = limits::ring_bytes_min;
  auto reads = number(1, 1) + number(0, 8) + number(1000, 8);
  auto patch = [](unsigned at, const std::string& bytes) { return number(at, 1) + piece_of(bytes); };
  constexpr unsigned magic = 0, version = 8, capacity = 16, reserved = 24, end = 32;
  c.add("plain", reads + number(0, 1));
  c.add("unsealed", number(0, 1) + reads.substr(1) + number(0, 1));
  c.add("magic", reads + number(1, 1) + patch(magic, "x"));
  c.add("version", reads + number(1, 1) + patch(version, number(2, 4)));
  c.add("capacity", reads + number(1, 1) + patch(capacity, number(most, 8)));
  c.add("end", reads + number(1, 1) + patch(end, number(most, 8)));
  c.add("both", reads + number(2, 1) + patch(end, number(most, 8)) + patch(reserved, number(most, 8)));
  c.add("reserved", reads + number(1, 1) + patch(reserved, number(3 * size, 8)));
  c.add("size", reads + number(0, 1) + number(0, 1) + number(1, 1) + number(4096 + 2 * size, 8));
}

void add_terminals(corpus c) {
  auto append = [](unsigned n) { return number(0, 1) + number(n, 2); };
  auto read = [](unsigned back, unsigned max) { return number(4, 1) + number(back, 2) + number(max, 2); };
  auto skip = number(1, 1) + number(500, 2), back = number(2, 1) + number(800, 2), reopen = number(3, 1);
  auto damage = [](const std::string& name, const std::string& bytes) { return number(5, 1) + piece_of(name) + number(1, 1) + piece_of(bytes); };
  c.add("twice", append(1000) + back + append(900) + read(300, 5000) + reopen + read(1000, 10));
  c.add("hole", append(1000) + skip + append(10) + reopen + read(300, 100) + read(600, 1000));
  std::string much;
  for (int i = 0; i < 10; ++i)
    much += append(65'535);
  c.add("segments", much + reopen + read(65'535, 65'535));
  for (const auto* name : {"ffffffffffffffff.seg", "1.seg", "000000000000000z.seg", "00000000000000ff.seg", "info"})
    c.add(std::string{"strange-"} + name, append(1000) + damage(name, "bytes") + read(1000, 2000) + append(10));
  c.add("empty", append(1000) + damage("0000000000000400.seg", "") + append(10) + read(1010, 2000));
  c.add("cut", append(1000) + number(6, 1) + number(0, 1) + number(77, 2) + read(1000, 2000) + append(10));
  c.add("far", number(8, 1) + number(~0ull - 3, 8) + append(10) + append(2));
  v1::PtyInfo info;
  fill(info);
  info.set_id("p");
  c.add("record", std::string(32, '\x03') + info.SerializeAsString());
  c.add("record-cut", std::string(32, '\x03') + info.SerializeAsString().substr(0, 9));
}

void add_processes(corpus c) {
  for (const auto* stat : {"7 (sh) S 1 7 7 34816 7 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1003520 196 18446744073709551615\n",
                           "7 (a) b) (c\n) Z 0 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9", "7 (sh) S 1 7",
                           "7 (sh) SS 1 7 7 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1", "7 (sh) S 99999999999 7 7 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 -1"})
    c.add(to_hex(sha256(stat)).substr(0, 8), number(0, 1) + stat);
  auto block = nul_after("PATH=/bin") + nul_after("SWARM_SPAWN_ID=a=b") + nul_after("") + nul_after("SWARM_SPAWN_ID=c") + "CUT";
  for (const auto* name : {"SWARM_SPAWN_ID", "SWARM", "", "CUT", "PATH"})
    c.add(std::string{"environ-"} + name, number(1, 1) + piece_of(name) + block);
  // pid, parent, session, start, not dead, marker, main or not
  auto process = [](unsigned pid, unsigned parent, unsigned session, unsigned start, unsigned marker, bool main) {
    return number(pid, 1) + number(parent, 1) + number(session, 1) + number(start, 1) + number(1, 1) + number(marker, 1) + number(main ? 0 : 1, 1);
  };
  auto tree = process(2, 1, 2, 10, 1, true) + process(3, 2, 2, 11, 1, false) + process(4, 1, 4, 12, 2, true) + process(5, 1, 2, 13, 1, false);
  c.add("trees", number(2, 1) + number(4, 1) + tree + number(0, 2));
  c.add("cycle", number(2, 1) + number(6, 1) + tree + process(6, 7, 2, 20, 0, false) + process(7, 6, 2, 20, 0, false) + number(0, 2));
  c.add("recycled", number(2, 1) + number(6, 1) + tree + process(6, 7, 6, 20, 0, false) + process(7, 1, 7, 30, 0, false) + number(0, 2));
}

template <class Request>
void request(corpus& c, unsigned which) {
  Request r;
  fill(r);
  for (unsigned more : {0u, 100u, 5'000u})
    c.add(r.GetDescriptor()->name() + "-" + std::to_string(more), number(which, 1) + number(more, 3) + r.SerializeAsString());
}

void add_requests(corpus c) {
  request<v1::WatchRequest>(c, 0), request<v1::WaitRequest>(c, 1), request<v1::AttachRequest>(c, 2), request<v1::CreatePtyRequest>(c, 3);
  request<v1::ListPtysRequest>(c, 4), request<v1::ReadPtyRequest>(c, 5), request<v1::SendPtyRequest>(c, 6), request<v1::ResizePtyRequest>(c, 7);
  request<v1::KillPtyRequest>(c, 8), request<v1::AttachFrame>(c, 9), request<v1::ForgetPtyRequest>(c, 10);
}

void add_mcp(corpus c) {
  auto line = [](int id, const char* method, const char* params) {
    return "{\"jsonrpc\":\"2.0\",\"id\":" + std::to_string(id) + ",\"method\":\"" + method + "\",\"params\":" + params + "}\n";
  };
  auto hello =
    line(1, "initialize", R"({"protocolVersion":"2025-06-18"})") + line(2, "tools/call", R"({"name":"register","arguments":{"directory":"/repo"}})");
  c.add("lists", std::string{'\0'} + hello + line(3, "tools/list", "{}") + line(4, "prompts/get", R"({"name":"setup"})") +
                   line(5, "resources/read", R"({"uri":"swarm://lock?file=a"})") + "[]\n{}\nnull\n{\"id\":1}\n");
  constexpr const char* calls[] = {
    R"({"name":"lock_file","arguments":{"file":"a.c","exclusive":true}})",
    R"({"name":"kv_append","arguments":{"key":"k","value":"[1]"}})",
    R"({"name":"request_task_batch","arguments":{"tasks":[{"type":"fix","title":"t","depends_on":["$1"]}]}})",
    R"({"name":"complete_task","arguments":{"task_id":"1","summary":"s","tests":[{"status":"passed"}],"tracker_update":{"a":1}}})",
    R"({"name":"report_progress","arguments":{"task_id":"1","summary":"s","blocked_reason":null,"expected_next_update_at":1.0}})",
    R"({"name":"dispatch","arguments":{"title":"t","placement":{"layout":{"kind":"grid","rows":2,"cols":2}},"completion_wait_seconds":0.5}})",
    R"({"name":"wait_for_activity","arguments":{"timeout_seconds":1},"_meta":{"progressToken":1}})",
    R"({"name":"bootstrap","arguments":{"mark_read":false,"adopt_instance_id":"x","terminal_limit":3}})",
    R"({"name":"peek_peer","arguments":{"recipient":"x","lines":301}})",
  };
  for (int way = 0; way < 4; ++way) {
    auto all = std::string{static_cast<char>(way)} + hello;
    for (int i = 0; const auto* call : calls)
      all += line(10 + i++, "tools/call", call);
    c.add("calls-" + std::to_string(way), all + R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":16}})" + "\n");
  }
  constexpr const char* meta =
    R"({"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["swarm://inbox"]}})";
  c.add("stateless", std::string{'\0'} + line(1, "server/discover", meta) + line(2, "subscriptions/listen", meta) + line(3, "tools/list", meta));
}

void add_link(corpus c) {
  std::string any;
  for (unsigned i = 0; i < 1'500; ++i) // of two ends: every step there is
    any += static_cast<char>(i * i * 31 + i * 17 + i / 7);
  for (auto window : {0u, 90u, 255u})
    c.add("two-" + std::to_string(window), number(0, 1) + number(window, 1) + any);
  // One end: connect, write, be greeted; then messages, acknowledgements, time.
  auto dialled = number(1, 1) + number(0, 1) + number(9, 1);
  auto greeted = dialled + number(1, 1) + number(65, 1) + number(0, 1) + number(1, 1) + number(9, 1);
  auto heard = number(3, 1) + number(0, 1) + number(60, 1) + number(2, 1) + number(0, 1) + number(20, 1);
  auto sent = number(5, 1) + number(50, 1) + number(9, 1);
  auto wait = number(7, 1) + number(200, 1) + number(50, 1) + number(9, 1);
  c.add("talk", greeted + heard + heard + sent + number(6, 1) + number(255, 1) + sent + heard + wait + wait);
  c.add("again",
        greeted + heard + sent + number(0, 1) + number(9, 1) + number(1, 1) + number(1, 1) + number(0, 1) + number(1, 1) + number(9, 1) + sent);
  c.add("silence", greeted + wait + number(7, 1) + number(255, 1) + number(255, 1) + wait + wait);
  c.add("refused", dialled + number(1, 1) + number(2, 1) + number(0, 2) + number(9, 1) + number(9, 1));
  v1::LinkFrame frame;
  fill(frame);
  const auto* bodies = v1::LinkFrame::descriptor()->FindOneofByName("body");
  for (int i = 0; i < bodies->field_count(); ++i) {
    fill(*frame.GetReflection()->MutableMessage(&frame, bodies->field(i)));
    auto one = number(2, 1) + piece_of(frame.SerializeAsString());
    c.add(bodies->field(i)->name(), dialled + one + number(9, 1) + number(0, 1) + greeted.substr(3) + one + one + number(9, 1));
  }
}

} // namespace

seeds all_seeds() {
  seeds out;
  corpus commands{out["command"]}, queries{out["query"]}, rows{out["rows"]}, kv{out["kv"]}, frames{out["frames"]}, text{out["text"]},
    files{out["files"]};
  std::string all;
  each_body<v1::Command>([&](const std::string& name, v1::Command& m) {
    for (auto kind : {v1::Principal::OPERATOR, v1::Principal::NODE}) {
      m.set_actor(kind == v1::Principal::OPERATOR ? "1" : "");
      auto one = static_cast<char>(kind) + piece_of(m.SerializeAsString());
      commands.add(name + "-" + std::to_string(kind), one);
      all += one;
    }
  });
  commands.add("all", all);
  each_body<v1::Query>([&](const std::string& name, v1::Query& m) {
    for (int kind : {0x81, 0x85, 0xc1}) {
      queries.add(name + "-" + std::to_string(kind), static_cast<char>(kind) + m.SerializeAsString());
      m.set_viewer("1");
    }
  });
  row<v1::Session>(rows, 0), row<v1::Credential>(rows, 1), row<v1::Task>(rows, 2), row<v1::Lock>(rows, 3), row<v1::LockWaiter>(rows, 4);
  row<v1::Message>(rows, 5), row<v1::KvEntry>(rows, 6), row<v1::Spawn>(rows, 7), row<v1::Subscription>(rows, 8), row<v1::Approval>(rows, 9);
  row<v1::ScopeState>(rows, 10);
  auto deep = std::string(255, '[') + std::string(255, ']');
  for (const auto& before : {std::string{}, std::string{"[1]"}, std::string{"text"}, deep})
    for (const auto& json : {std::string{"{\"a\":[1,2.5e3,null]}"}, std::string{"\"\\u00e9\\ud83d\\ude00\""}, deep, std::string{"tru"}})
      kv.add(std::to_string(before.size()) + "-" + std::to_string(json.size()), piece_of(before) + piece_of(json));
  auto frame = [](const std::string& m) { return std::string{static_cast<char>(m.size()), 0, 0, 0} + m; };
  frames.add("two", std::string{"\x05"} + frame("\x0a\x02\x08\x01") + frame(""));
  frames.add("too-long", std::string{"\xff"} + frame("") + "\xff\xff\xff\xff");
  frames.add("cut", std::string{"\x01"} + "\x09");
  for (const auto& t :
       {"/repo/../x", "a//b/./c", "..", "a scope", "\x1b[31mred\x1b[0m", "\xc2\x9b caf\xc3\xa9", "00ffAB", "SWARM_TOKEN", "3f2a-11_x"})
    text.add(to_hex(sha256(t)).substr(0, 8), std::string{"\x08"} + piece_of("/repo/dir") + t);
  files.add("limits", std::string{'\0'} + "[limits]\nlock_waiters_max = 64 # a comment\nsession_reclaim = 120_000\n");
  files.add("limits-range", std::string{'\0'} + "[limits]\nlock_waiters_max = 0\n");
  files.add("limits-contradiction", std::string{'\0'} + "[limits]\nsession_heartbeat = 80000\nsession_stale = 4000\n");
  files.add("limits-kinds", std::string{'\0'} + "limits = {kill_grace = \"5 s\", b = [1.5, true, 1979-05-27]}\n[other]\n");
  files.add("whole", std::string{'\0'} + "[labels]\na = \"b\"\n[accept.spawn]\nharnesses = [\"exec\"]\n[identity]\nboundary = true\n"
                                         "[terminal]\ndetach_key = \"^a\"\n[agents.claude]\nenvironment = {K = \"secret:a\", L = \"path:/x\"}\n");
  files.add("identity", "\x01{\"id\": \"3f2a-11\", \"name\": \"host\"}\n");
  files.add("identity-kinds", "\x01{\"id\": \"3f2a-11\", \"name\": 5, \"x\": [{}]}");
  add_commit_log(corpus{out["commit_log"]});
  add_conversation(corpus{out["conversation"]});
  add_cursor(corpus{out["cursor"]});
  add_profile(corpus{out["profile"]});
  add_ring(corpus{out["ring"]});
  add_terminals(corpus{out["terminals"]});
  add_processes(corpus{out["processes"]});
  add_requests(corpus{out["requests"]});
  add_mcp(corpus{out["mcp"]});
  add_link(corpus{out["link"]});
  add_agent_seeds(out);
  add_security_seeds(out);
  return out;
}

} // namespace swarm::fuzz
