// The rules that fields state about themselves (options.proto), over every field that comes from outside.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <set>

#include <google/protobuf/descriptor.h>

#include "actors/base/limits.hpp"
#include "actors/domain/decide.hpp"
#include "swarm/v1/coordination.pb.h"
#include "swarm/v1/options.pb.h"
#include "swarm/v1/pty.pb.h"

using namespace swarm;
using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

/// Every field that a caller can set, each once.
void walk(const Descriptor& message, std::set<const Descriptor*>& seen, const std::function<void(const FieldDescriptor&)>& look) {
  if (!seen.insert(&message).second)
    return;
  for (int i = 0; i < message.field_count(); ++i) {
    look(*message.field(i));
    if (const auto* inner = message.field(i)->message_type())
      walk(*inner, seen, look);
  }
}

void each_field(const std::function<void(const FieldDescriptor&)>& look) {
  std::set<const Descriptor*> seen;
  for (const auto* message : {v1::Command::descriptor(), v1::Query::descriptor(), v1::ExecuteRequest::descriptor(), v1::WatchRequest::descriptor(),
                              v1::WaitRequest::descriptor(), v1::AttachRequest::descriptor(), v1::AttachFrame::descriptor(),
                              v1::ListPtysRequest::descriptor(), v1::SendPtyRequest::descriptor()})
    walk(*message, seen, look);
}

/// A message with this one text, bytes or list set, checked as one from outside.
std::string refusal_of(const FieldDescriptor& field, std::size_t size) {
  std::unique_ptr<Message> m{google::protobuf::MessageFactory::generated_factory()->GetPrototype(field.containing_type())->New()};
  const auto* reflection = m->GetReflection();
  if (field.is_repeated() && field.cpp_type() == FieldDescriptor::CPPTYPE_STRING)
    reflection->AddString(m.get(), &field, std::string(size, 'a'));
  else
    reflection->SetString(m.get(), &field, std::string(size, 'a'));
  auto refusal = domain::check_bounds(*m);
  return refusal ? refusal->text() : std::string{};
}

std::size_t longest(const FieldDescriptor& field) {
  std::size_t low = 0, high = 4 * 1024 * 1024; // the first that is refused lies in (low, high]
  while (high - low > 1) {
    auto middle = low + (high - low) / 2;
    (refusal_of(field, middle).empty() ? low : high) = middle;
  }
  return low;
}

/// Every field of what a node is asked and answers, and of the rows.
void each_field_of_the_contract(const std::function<void(const FieldDescriptor&)>& look) {
  std::set<const Descriptor*> seen;
  for (const auto* message : {v1::Command::descriptor(), v1::Query::descriptor(), v1::Session::descriptor(), v1::Refusal::descriptor(),
                              v1::WatchRequest::descriptor(), v1::PtyInfo::descriptor()})
    for (int i = 0; i < message->file()->message_type_count(); ++i)
      walk(*message->file()->message_type(i), seen, look);
}

bool has(const FieldDescriptor& f, const auto& option) { return f.options().HasExtension(option); }

} // namespace

TEST_CASE("an option stands only on fields that it can be about") {
  each_field([](const FieldDescriptor& f) {
    CAPTURE(f.full_name());
    if (has(f, v1::text))
      CHECK(f.type() == FieldDescriptor::TYPE_STRING);
    if (has(f, v1::bytes))
      CHECK(f.type() == FieldDescriptor::TYPE_BYTES);
    if (has(f, v1::count))
      CHECK(f.is_repeated());
    if (has(f, v1::span)) {
      CHECK(f.type() == FieldDescriptor::TYPE_INT64);
      CHECK(f.name().ends_with("_ms"));
    }
    if (has(f, v1::required)) {
      CHECK(!f.is_repeated());
      CHECK((f.type() == FieldDescriptor::TYPE_STRING || f.type() == FieldDescriptor::TYPE_UINT64));
    }
    if (has(f, v1::about_the_node))
      CHECK(f.containing_type() == v1::Query::descriptor());
  });
}

TEST_CASE("every text and all bytes from outside have the limit of their rule, and only free texts hold NUL") {
  const std::set<std::string> free{"TITLE", "DESCRIPTION", "MESSAGE", "NOTE", "RESULT", "VALUE", "PAGE_TOKEN", "ACTION"};
  std::map<std::string, std::size_t> limits_of; // by the name of the rule
  each_field([&](const FieldDescriptor& f) {
    CAPTURE(f.full_name());
    if (f.type() != FieldDescriptor::TYPE_STRING && f.type() != FieldDescriptor::TYPE_BYTES)
      return;
    const bool is_text = f.type() == FieldDescriptor::TYPE_STRING;
    auto rule = is_text ? v1::Rule::Text_Name(f.options().GetExtension(v1::text)) : v1::Rule::Bytes_Name(f.options().GetExtension(v1::bytes));
    if (f.name() == "token_hash")
      return; // exactly 32 bytes
    auto [known, is_new] = limits_of.emplace(rule, 0);
    if (is_new)
      known->second = longest(f);
    CHECK(refusal_of(f, known->second).empty());
    CHECK(refusal_of(f, known->second + 1) == f.name() + " is longer than " + std::to_string(known->second) + " bytes");
    if (is_text && !f.is_repeated()) {
      std::unique_ptr<Message> m{google::protobuf::MessageFactory::generated_factory()->GetPrototype(f.containing_type())->New()};
      m->GetReflection()->SetString(m.get(), &f, std::string(1, '\0'));
      CHECK(domain::check_bounds(*m).has_value() == !free.contains(rule));
    }
  });
  CHECK(limits_of.at("ID") == limits::id_bytes_max);
  CHECK(limits_of.at("PATH") == limits::path_bytes_max());
  CHECK(limits_of.at("MESSAGE") == limits::message_bytes_max());
  CHECK(limits_of.at("DIGEST") == 32);
  CHECK(limits_of.at("TERMINAL_INPUT") == limits::pty_input_bytes_max);
  // No value of the enums is forgotten: each has a field, and a limit of its own or that of ids.
  CHECK(limits_of.size() == static_cast<std::size_t>(v1::Rule::Text_descriptor()->value_count() + v1::Rule::Bytes_descriptor()->value_count()));
}

TEST_CASE("what is named like a path has the rule of paths") {
  const std::set<std::string> paths{"path", "directory", "root", "file_root", "files", "files_changed", "scope"};
  each_field([&](const FieldDescriptor& f) {
    if (f.type() != FieldDescriptor::TYPE_STRING || !paths.contains(f.name()) || f.full_name() == "swarm.v1.AgentStart.root")
      return; // the last is a process
    CAPTURE(f.full_name());
    CHECK(f.options().GetExtension(v1::text) == v1::Rule::PATH);
  });
}

TEST_CASE("a path is one inside the scope, which hosts that share it see differently, or there is a reason why not") {
  const std::set<std::string> paths{"path", "file", "files", "files_changed", "directory", "root", "file_root", "checkout", "subject"};
  const std::string of_host = "a place of the caller's host, from which the node finds out what lies inside the scope";
  const std::string of_program = "where a program of this host works";
  const std::string any_subject = "an id, a key or a path: services/call/path_view.cpp knows when it is a path";
  const std::string question = "what somebody asks about; the node does not read it";
  std::map<std::string, std::string> others{{"Caller.directory", of_host},
                                            {"RegisterSession.directory", of_host},
                                            {"RegisterSession.root", of_host},
                                            {"RegisterSession.file_root", of_host},
                                            {"RegisterSession.checkout", of_host},
                                            {"Session.checkout", of_host},
                                            {"CreatePtyRequest.directory", of_program},
                                            {"PtyInfo.directory", of_program},
                                            {"AgentStart.root", "a process of its host"},
                                            {"Event.subject", any_subject},
                                            {"Refusal.subject", any_subject},
                                            {"WrittenPath.name", of_program},
                                            {"WrittenPath.real", of_program},
                                            {"RequestApproval.subject", question},
                                            {"Approval.subject", question}};
  each_field_of_the_contract([&](const FieldDescriptor& f) {
    CAPTURE(f.full_name());
    const bool in_scope = f.options().GetExtension(v1::in_scope);
    if (in_scope)
      CHECK(f.type() == FieldDescriptor::TYPE_STRING);
    const bool is_path = paths.contains(f.name()) || f.options().GetExtension(v1::text) == v1::Rule::PATH;
    if (f.type() == FieldDescriptor::TYPE_STRING && is_path && f.name() != "scope")
      CHECK(in_scope == (others.erase(f.containing_type()->name() + "." + f.name()) == 0));
  });
  for (const auto& [name, reason] : others)
    FAIL_CHECK(name << " is no field any more: " << reason);
}

TEST_CASE("a command that lacks a required field is refused with the field's name") {
  const auto& commands = *v1::Command::descriptor()->FindOneofByName("body");
  int required = 0;
  for (int i = 0; i < commands.field_count(); ++i) {
    const auto& body = *commands.field(i);
    v1::Command cmd;
    cmd.set_scope("/r");
    auto* m = cmd.GetReflection()->MutableMessage(&cmd, &body);
    for (int n = 0; n < body.message_type()->field_count(); ++n) {
      const auto& f = *body.message_type()->field(n);
      if (!has(f, v1::required))
        continue;
      CAPTURE(f.full_name());
      ++required;
      CHECK(domain::validate(cmd)->text() == f.name() + " is missing");
      m->GetReflection()->SetString(m, &f, "x");
    }
  }
  CHECK(required >= 24);
  v1::Command guarded;
  guarded.set_scope("/r");
  guarded.mutable_set_kv()->set_key("k");
  guarded.mutable_set_kv()->mutable_guard()->set_path("/r/a");
  CHECK(domain::validate(guarded)->text() == "guard.fence is missing");
}

TEST_CASE("only queries about the node go without a scope") {
  std::set<std::string> about_the_node;
  const auto& queries = *v1::Query::descriptor()->FindOneofByName("body");
  for (int i = 0; i < queries.field_count(); ++i) {
    v1::Query q;
    q.GetReflection()->MutableMessage(&q, queries.field(i));
    if (domain::about_the_node(q))
      about_the_node.insert(queries.field(i)->name());
    else
      CHECK(domain::validate(q)->text() == "scope is missing");
  }
  CHECK(about_the_node == std::set<std::string>{"list_scopes", "resolve_token", "get_totals"});
}
