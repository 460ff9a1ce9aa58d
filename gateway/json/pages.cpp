#include "gateway/json/pages.hpp"

#include <google/protobuf/descriptor.h>

namespace swarm::mcp {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// The field of the oneof `body` that is set; null for a message without one.
const FieldDescriptor* body_of(const Message& m) {
  const auto* body = m.GetDescriptor()->FindOneofByName("body");
  return body ? m.GetReflection()->GetOneofFieldDescriptor(m, body) : nullptr;
}

} // namespace

v1::Page* page_of(Message& m) {
  const auto* body = body_of(m);
  auto& list = body ? *m.GetReflection()->MutableMessage(&m, body) : m;
  const auto* page = list.GetDescriptor()->FindFieldByName("page");
  return page ? static_cast<v1::Page*>(list.GetReflection()->MutableMessage(&list, page)) : nullptr;
}

const Message& list_in(const Message& m) {
  const auto* body = body_of(m);
  return body ? m.GetReflection()->GetMessage(m, body) : m;
}

const FieldDescriptor* rows_field(const Message& list, const google::protobuf::Descriptor* row) {
  for (int i = 0; i < list.GetDescriptor()->field_count(); ++i)
    if (const auto* field = list.GetDescriptor()->field(i); field->is_repeated() && field->message_type() == row)
      return field;
  return nullptr;
}

} // namespace swarm::mcp
