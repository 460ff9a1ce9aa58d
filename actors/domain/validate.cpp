#include <google/protobuf/descriptor.h>

#include "actors/base/limits.hpp"
#include "actors/domain/decide.hpp"
#include "actors/domain/refusal.hpp"
#include "swarm/v1/options.pb.h"

namespace swarm::domain {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct text_rule {
  std::size_t bytes_max;
  bool is_free; // may hold any character; everything else may become part of a key and must not hold NUL
};

text_rule rule_of(v1::Rule::Text text) {
  using namespace limits;
  switch (text) {
    case v1::Rule::PATH: return {path_bytes_max(), false};
    case v1::Rule::LABEL: return {label_bytes_max(), false};
    case v1::Rule::TITLE: return {title_bytes_max(), true};
    case v1::Rule::DESCRIPTION: return {description_bytes_max(), true};
    case v1::Rule::MESSAGE: return {message_bytes_max(), true};
    case v1::Rule::NOTE: return {note_bytes_max(), true};
    case v1::Rule::RESULT: return {result_bytes_max(), true};
    case v1::Rule::IDEMPOTENCY_KEY: return {idempotency_key_bytes_max(), false};
    case v1::Rule::KEY: return {kv_key_bytes_max(), false};
    case v1::Rule::VALUE: return {kv_value_bytes_max(), true};
    case v1::Rule::ARGUMENT: return {argv_bytes_max(), false};
    case v1::Rule::PLACEMENT: return {placement_text_bytes_max, false};
    case v1::Rule::CHOICE: return {approval_choice_bytes_max, false};
    case v1::Rule::PAGE_TOKEN: return {page_token_bytes_max, true};
    case v1::Rule::ACTION: return {approval_action_bytes_max, true};
    case v1::Rule::PATTERN: return {conversation_pattern_bytes_max, false};
    default: return {id_bytes_max, false};
  }
}

std::size_t bytes_max(v1::Rule::Bytes bytes) {
  switch (bytes) {
    case v1::Rule::OUTPUT_TAIL: return limits::output_tail_bytes_max();
    case v1::Rule::TERMINAL_INPUT: return limits::pty_input_bytes_max;
    default: return 32;
  }
}

struct count_rule {
  std::size_t max;
  std::size_t bytes_max; // of all elements together, 0 = only each one's
};

count_rule rule_of(v1::Rule::Count count) {
  using namespace limits;
  switch (count) {
    case v1::Rule::FILES: return {task_files_max(), 0};
    case v1::Rule::DEPENDENCIES: return {task_dependencies_max(), 0};
    case v1::Rule::TASKS: return {batch_tasks_max(), 0};
    case v1::Rule::ARGUMENTS: return {argv_count_max(), argv_bytes_max()};
    case v1::Rule::CHOICES: return {approval_choices_max, 0};
    case v1::Rule::GRANTS: return {grants_max, 0};
    case v1::Rule::PATTERNS: return {conversation_patterns_max, 0};
    case v1::Rule::WRITES: return {approval_writes_max, 0};
    default: return {list_elements_max, 0};
  }
}

std::optional<limits::milliseconds> longest(v1::Rule::Span span) {
  switch (span) {
    case v1::Rule::LEASE: return limits::lease_max();
    case v1::Rule::LOCK_TTL: return limits::lock_ttl_max();
    case v1::Rule::LOCK_WAIT: return limits::lock_wait_max();
    case v1::Rule::KEY_TTL: return limits::kv_ttl_max();
    case v1::Rule::GRANT: return limits::grant_time_max;
    case v1::Rule::BYPASS: return limits::conversation_bypass_max;
    default: return std::nullopt;
  }
}

v1::Refusal invalid(std::string text) { return refusal(v1::Refusal::INVALID, std::move(text)); }

using verdict = std::optional<v1::Refusal>;

verdict check_text(const FieldDescriptor& field, const std::string& text) {
  auto rule = rule_of(field.options().GetExtension(v1::text));
  if (text.size() > rule.bytes_max)
    return invalid(field.name() + " is longer than " + std::to_string(rule.bytes_max) + " bytes");
  if (!rule.is_free && text.find('\0') != std::string::npos)
    return invalid(field.name() + " must not contain a NUL character");
  return std::nullopt;
}

verdict check_bytes(const FieldDescriptor& field, const std::string& bytes) {
  auto max = bytes_max(field.options().GetExtension(v1::bytes));
  if (bytes.size() > max)
    return invalid(field.name() + " is longer than " + std::to_string(max) + " bytes");
  if (field.name() == "token_hash" && !bytes.empty() && bytes.size() != 32)
    return invalid("token_hash must be a SHA-256 of 32 bytes");
  return std::nullopt;
}

verdict check_count(const FieldDescriptor& field, int count, std::size_t bytes) {
  auto rule = rule_of(field.options().GetExtension(v1::count));
  if (static_cast<std::size_t>(count) > rule.max)
    return invalid(field.name() + " has more than " + std::to_string(rule.max) + " elements");
  if (rule.bytes_max != 0 && bytes > rule.bytes_max)
    return invalid(field.name() + " is longer than " + std::to_string(rule.bytes_max) + " bytes together");
  return std::nullopt;
}

verdict check_fields(const Message& m);

verdict check_repeated(const Message& m, const FieldDescriptor& field) {
  const auto* reflection = m.GetReflection();
  auto n = reflection->FieldSize(m, &field);
  std::size_t bytes = 0;
  for (int i = 0; i < n; ++i) {
    verdict bad;
    if (field.type() == FieldDescriptor::TYPE_STRING) {
      std::string scratch;
      const auto& text = reflection->GetRepeatedStringReference(m, &field, i, &scratch);
      bytes += text.size();
      bad = check_text(field, text);
    } else if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
      bad = check_fields(reflection->GetRepeatedMessage(m, &field, i));
    }
    if (bad)
      return bad;
  }
  return check_count(field, n, bytes);
}

/// Lengths and counts of everything that is set, whatever the message.
verdict check_fields(const Message& m) {
  const auto* reflection = m.GetReflection();
  std::vector<const FieldDescriptor*> set;
  reflection->ListFields(m, &set);
  for (const auto* field : set) {
    verdict bad;
    std::string scratch;
    if (field->is_repeated())
      bad = check_repeated(m, *field);
    else if (field->type() == FieldDescriptor::TYPE_STRING)
      bad = check_text(*field, reflection->GetStringReference(m, field, &scratch));
    else if (field->type() == FieldDescriptor::TYPE_BYTES)
      bad = check_bytes(*field, reflection->GetStringReference(m, field, &scratch));
    else if (field->type() == FieldDescriptor::TYPE_MESSAGE)
      bad = check_fields(reflection->GetMessage(m, field));
    if (bad)
      return bad;
  }
  return std::nullopt;
}

verdict need(bool given, const std::string& field) { return given ? std::nullopt : verdict(invalid(field + " is missing")); }

bool is_given(const Message& m, const FieldDescriptor& field) {
  const auto* reflection = m.GetReflection();
  std::string scratch;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: return !reflection->GetStringReference(m, &field, &scratch).empty();
    case FieldDescriptor::CPPTYPE_UINT64: return reflection->GetUInt64(m, &field) != 0;
    default: return true;
  }
}

verdict check_span(const Message& m, const FieldDescriptor& field) {
  auto max = longest(field.options().GetExtension(v1::span));
  if (!max)
    return std::nullopt;
  auto value = m.GetReflection()->GetInt64(m, &field);
  if (value >= 0 && value <= max->count())
    return std::nullopt;
  return invalid(field.name() + " must be between 0 and " + std::to_string(max->count()) + " ms");
}

/// Required fields and durations of a command's body and of the messages in it. `within` names the field that holds the message, with a dot.
verdict check_body(const Message& m, const std::string& within) {
  const auto* reflection = m.GetReflection();
  for (int i = 0; i < m.GetDescriptor()->field_count(); ++i) {
    const auto& field = *m.GetDescriptor()->field(i);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && field.is_repeated()) {
      for (int n = 0; n < reflection->FieldSize(m, &field); ++n)
        if (auto bad = check_body(reflection->GetRepeatedMessage(m, &field, n), ""))
          return bad;
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (reflection->HasField(m, &field))
        if (auto bad = check_body(reflection->GetMessage(m, &field), within + field.name() + '.'))
          return bad;
    } else if (field.options().GetExtension(v1::required) && !is_given(m, field)) {
      return need(false, within + field.name());
    } else if (auto bad = check_span(m, field)) {
      return bad;
    }
  }
  return std::nullopt;
}

verdict check_register(const v1::RegisterSession& r) {
  if (r.pid() < 0)
    return invalid("pid must not be negative");
  if (r.directory().empty() || r.directory().front() != '/')
    return invalid("directory must be an absolute path");
  return std::nullopt;
}

/// What no option of a field can say.
verdict check_further(const v1::Command& cmd) {
  if (cmd.has_register_session())
    return check_register(cmd.register_session());
  if (cmd.has_consume_messages() && cmd.consume_messages().limit() > limits::consumed_messages_max)
    return invalid("limit must be between 1 and " + std::to_string(limits::consumed_messages_max));
  if (cmd.has_create_tasks() && cmd.create_tasks().tasks().empty())
    return invalid("tasks is empty");
  return std::nullopt;
}

} // namespace

bool about_the_node(const v1::Query& query) {
  const auto* body = v1::Query::descriptor()->FindFieldByNumber(query.body_case());
  return body && body->options().GetExtension(v1::about_the_node);
}

std::optional<v1::Refusal> check_bounds(const Message& message) { return check_fields(message); }

std::optional<v1::Refusal> validate(const v1::Command& cmd) {
  if (auto bad = need(!cmd.scope().empty(), "scope"))
    return bad;
  if (auto bad = check_fields(cmd))
    return bad;
  const auto* body = v1::Command::descriptor()->FindFieldByNumber(cmd.body_case());
  if (!body)
    return invalid("The command is empty or not known to this version");
  if (auto bad = check_further(cmd))
    return bad;
  return check_body(cmd.GetReflection()->GetMessage(cmd, body), "");
}

std::optional<v1::Refusal> validate(const v1::Query& query) {
  if (query.body_case() == v1::Query::BODY_NOT_SET)
    return invalid("The query is empty or not known to this version");
  if (auto bad = need(about_the_node(query) || !query.scope().empty(), "scope"))
    return bad;
  return check_fields(query);
}

} // namespace swarm::domain
