// Lists that come a page at a time, read to their end.
#pragma once

#include <utility>
#include <vector>

#include <google/protobuf/message.h>
#include <google/protobuf/reflection.h>

#include "swarm/v1/query.pb.h"

namespace swarm::mcp {

/// The page of a question for a list, or of a list: the field `page`, of the message itself or of the body that is set. Null when there is none.
v1::Page* page_of(google::protobuf::Message&);
/// The rows of a list, which is the message itself or the body that is set: its repeated field of that type. Null when there is none.
const google::protobuf::FieldDescriptor* rows_field(const google::protobuf::Message& list, const google::protobuf::Descriptor* row);
const google::protobuf::Message& list_in(const google::protobuf::Message&);

/// Asks page after page until the list ends. `ask(request)` gives an answer, `take(answer)` each of them. An answer without a page, such as a
/// refusal, is the last.
template <class Request, class Ask, class Take>
void each_page(Request request, Ask ask, Take take) {
  for (;;) {
    auto answer = ask(std::as_const(request));
    const auto* page = page_of(answer);
    const auto token = page ? page->token() : std::string{};
    take(std::as_const(answer));
    if (token.empty())
      return;
    page_of(request)->set_token(token);
  }
}

/// The rows of all pages. `ask` must throw for a refusal.
template <class Row, class Request, class Ask>
std::vector<Row> rows_of_pages(Request request, Ask ask) {
  std::vector<Row> out;
  each_page(std::move(request), std::move(ask), [&](const google::protobuf::Message& answer) {
    const auto& list = list_in(answer);
    if (const auto* field = rows_field(list, Row::descriptor()))
      for (const auto& row : list.GetReflection()->template GetRepeatedFieldRef<Row>(list, field))
        out.push_back(row);
  });
  return out;
}

} // namespace swarm::mcp
