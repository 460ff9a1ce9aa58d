// The MCP server: lines from a client, and answers from a node, both of any content. Input: a byte that chooses how the node answers, then
// lines. A request is answered at most once, with
// one line of JSON, and none is lost.
#include <future>

#include "gateway/mcp/server.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/fake_mcp_host.hpp"

using namespace swarm;
using namespace swarm::mcp;

namespace {

constexpr const char* last_id = "the last one";

v1::Reply reply_of(int way) {
  v1::Reply out;
  if (way == 1) {
    out.mutable_refusal()->set_code(v1::Refusal::CONFLICT);
    out.mutable_refusal()->set_text("\xff not this\n");
  } else if (way == 2) {
    out.mutable_refusal()->set_code(v1::Refusal::NOT_REGISTERED);
  } else if (way == 3) {
    call_failed gone{code::refused, "gone"};
    gone.unknown_token = true;
    throw gone;
  }
  out.mutable_lock()->mutable_lock()->set_path("/repo/\xc3");
  return out;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  auto way = in.byte() % 4;
  test::fake_mcp_host process;
  process.decide = [way](const v1::Command&) { return reply_of(way); };
  process.answer = [way](const v1::Query&) {
    v1::Answer out;
    if (way == 1)
      out.mutable_refusal()->set_code(v1::Refusal::NOT_FOUND);
    return out;
  };
  process.activity.emplace().add_changes("kv_updates");
  tool_table tools;
  add_tools(tools);
  std::size_t lines = 1, answers = 0;
  std::promise<void> last_answered;
  {
    server mcp{process, tools, [&](const std::string& line) {
                 SWARM_HOLDS(line.find('\n') == std::string::npos);
                 auto said = json::parse(line, nullptr, false);
                 SWARM_HOLDS(said.is_object() && said.value("jsonrpc", "") == "2.0");
                 answers += said.contains("id") ? 1 : 0;
                 if (said.contains("id") && said["id"] == last_id)
                   last_answered.set_value();
               }};
    auto rest = in.rest();
    for (std::size_t at = 0; at < rest.size(); ++lines) {
      auto end = std::min(rest.find('\n', at), rest.size());
      if (auto line = std::string_view{rest}.substr(at, end - at); line.find(last_id) == line.npos)
        mcp.receive(line);
      at = end + 1;
    }
    mcp.receive(rpc::to_line({{"jsonrpc", "2.0"}, {"id", last_id}, {"method", "resources/read"}, {"params", {{"uri", "swarm://inbox"}}}}));
    last_answered.get_future().wait();
  }
  SWARM_HOLDS(answers <= lines);
  return 0;
}
