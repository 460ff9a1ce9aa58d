#include "gateway/mcp/json_rpc.hpp"

#include "actors/domain/json_text.hpp"

namespace swarm::mcp::rpc {

namespace {

bool is_id(const json& id) { return id.is_string() || id.is_number_integer(); }

} // namespace

parsed_line parse(std::string_view line) {
  auto value = domain::parse_json_of_others(line);
  parsed_line out;
  if (!value) {
    out.answer = error_of(nullptr, error{parse_error, "The line is no JSON, or has more levels or members than are read"});
    return out;
  }
  if (!value->is_object()) {
    out.answer = error_of(nullptr, error{invalid_request, "A message is one JSON object on a line; batches are not taken"});
    return out;
  }
  auto id = value->contains("id") ? (*value)["id"] : json(nullptr);
  if (!value->contains("method") && (value->contains("result") || value->contains("error")))
    return out;
  if (!value->contains("method") || !(*value)["method"].is_string() || (value->contains("id") && !is_id(id))) {
    out.answer = error_of(is_id(id) ? id : json(nullptr), error{invalid_request, "A request needs a method, and an id that is a text or an integer"});
    return out;
  }
  message m;
  m.id = std::move(id);
  m.method = (*value)["method"].get<std::string>();
  if (value->contains("params"))
    m.params = std::move((*value)["params"]);
  if (!m.params.is_object()) {
    if (!m.is_notification())
      out.answer = error_of(m.id, error{invalid_params, "params must be an object"});
    return out;
  }
  out.received = std::move(m);
  return out;
}

json result_of(const json& id, json result) { return {{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}}; }

json error_of(const json& id, const error& e) {
  json body = {{"code", e.code}, {"message", e.what()}};
  if (!e.data.is_null())
    body["data"] = e.data;
  return {{"jsonrpc", "2.0"}, {"id", id}, {"error", std::move(body)}};
}

json notification(std::string_view method, json params) {
  json out = {{"jsonrpc", "2.0"}, {"method", method}};
  if (!params.is_null())
    out["params"] = std::move(params);
  return out;
}

std::string to_line(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

} // namespace swarm::mcp::rpc
