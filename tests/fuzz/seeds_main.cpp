// Writes the first inputs of every target below a directory: one well-formed example of each kind, from which libFuzzer goes on.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "swarm/v1/pty.pb.h"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

/// A message with every field set to something that a rule book can make use of.
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
  explicit corpus(std::filesystem::path dir) : dir_(std::move(dir)) { std::filesystem::create_directories(dir_); }
  void add(const std::string& name, const std::string& bytes) { std::ofstream(dir_ / name, std::ios::binary) << bytes; }

private:
  std::filesystem::path dir_;
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
  c.add(r.GetDescriptor()->name(), which + fuzz::piece_of(r.SerializeAsString()) + r.SerializeAsString());
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: fuzz_seeds DIRECTORY\n";
    return 2;
  }
  std::filesystem::path root{argv[1]};
  corpus commands{root / "command"}, queries{root / "query"}, rows{root / "rows"}, kv{root / "kv"}, frames{root / "frames"}, text{root / "text"},
    files{root / "files"};
  std::string all;
  each_body<v1::Command>([&](const std::string& name, v1::Command& m) {
    for (auto kind : {v1::Principal::OPERATOR, v1::Principal::NODE}) {
      m.set_actor(kind == v1::Principal::OPERATOR ? "1" : "");
      auto one = static_cast<char>(kind) + fuzz::piece_of(m.SerializeAsString());
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
      kv.add(std::to_string(before.size()) + "-" + std::to_string(json.size()), fuzz::piece_of(before) + fuzz::piece_of(json));
  auto frame = [](const std::string& m) { return std::string{static_cast<char>(m.size()), 0, 0, 0} + m; };
  frames.add("two", std::string{"\x05"} + frame("\x0a\x02\x08\x01") + frame(""));
  frames.add("too-long", std::string{"\xff"} + frame("") + "\xff\xff\xff\xff");
  frames.add("cut", std::string{"\x01"} + "\x09");
  for (const auto& t :
       {"/repo/../x", "a//b/./c", "..", "a scope", "\x1b[31mred\x1b[0m", "\xc2\x9b caf\xc3\xa9", "00ffAB", "SWARM_TOKEN", "3f2a-11_x"})
    text.add(to_hex(sha256(t)).substr(0, 8), std::string{"\x08"} + fuzz::piece_of("/repo/dir") + t);
  auto file = [](char which, const std::string& id, const std::string& bytes) { return std::string(1, which) + fuzz::piece_of(id) + bytes; };
  v1::PtyInfo info;
  fill(info);
  info.set_id("p");
  files.add("limits", file(0, "", "[limits]\nlock_waiters_max = 64 # a comment\nsession_reclaim = 120_000\n"));
  files.add("limits-range", file(0, "", "[limits]\nlock_waiters_max = 0\n"));
  files.add("limits-contradiction", file(0, "", "[limits]\nsession_heartbeat = 80000\nsession_stale = 4000\n"));
  files.add("limits-kinds", file(0, "", "limits = {kill_grace = \"5 s\", b = [1.5, true, 1979-05-27]}\n[other]\n"));
  files.add("record", file(1, "p", info.SerializeAsString()));
  files.add("record-cut", file(1, "p", info.SerializeAsString().substr(0, 9)));
  files.add("identity", file(2, "", "{\"id\": \"3f2a-11\", \"name\": \"host\"}\n"));
  files.add("identity-kinds", file(2, "", "{\"id\": \"3f2a-11\", \"name\": 5, \"x\": [{}]}"));
  return 0;
}
