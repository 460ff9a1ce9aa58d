// The output of Claude Code, driven by a program: lines of any content, cut anywhere, and answers to what they ask. Input: a byte for the size of the
// pieces, one for the answer, a piece that is the edited input, then the output.
#include <algorithm>
#include <map>

#include "actors/agents/claude_stream.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/text.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;
using namespace swarm::agents;

namespace {

constexpr std::size_t frame_bytes_max = 60 * limits::kib; // of driver.proto
constexpr std::size_t line_max = 8 * limits::kib;         // so that chance makes lines above it
constexpr std::string_view introduction = R"({"type":"control_response","response":{"subtype":"success","request_id":"swarm-1",)"
                                          R"("response":{"hooks_applied":true,"hook_on_failure_supported":true}}})"
                                          "\n";

/// What has to hold of all that a stream says.
class listener {
public:
  void hear(const claude_output& output) {
    for (const auto& f : output.said)
      hear(f);
    for (std::size_t at = 0; at < output.to_agent.size();) {
      auto end = output.to_agent.find('\n', at);
      SWARM_HOLDS(end != std::string::npos);
      is_line(output.to_agent.substr(at, end - at + 1));
      at = end + 1;
    }
  }
  static void is_line(const std::string& line) {
    SWARM_HOLDS(!line.empty() && line.find('\n') == line.size() - 1);
    SWARM_HOLDS(json_view::of(line).is_object());
  }

  std::map<std::string, std::string> open; // what is asked, by id
  bool in_turn = false;

private:
  void hear(const internal::FromDriver& f) {
    SWARM_HOLDS(f.ByteSizeLong() <= frame_bytes_max);
    SWARM_HOLDS(f.seq() == 0 && f.at_ms() == 0);
    std::string bytes;
    SWARM_HOLDS(f.SerializeToString(&bytes) && internal::FromDriver().ParseFromString(bytes)); // texts are UTF-8
    if (f.has_request()) {
      body_ += f.request().body();
      if (f.request().last())
        SWARM_HOLDS(open.emplace(f.request().id(), std::exchange(body_, {})).second && f.request().id().size() <= 128);
    }
    if (f.has_withdrawn())
      SWARM_HOLDS(open.erase(f.withdrawn().request_id()) == 1);
    if (f.has_turn_started())
      SWARM_HOLDS(!std::exchange(in_turn, true));
    if (f.has_turn_ended())
      SWARM_HOLDS(std::exchange(in_turn, false));
    if (f.has_item())
      part(f.item());
    else
      SWARM_HOLDS(item_.empty());
  }
  /// The parts of an item follow each other.
  void part(const internal::ItemPart& p) {
    SWARM_HOLDS(item_.empty() || item_ == p.id());
    SWARM_HOLDS(p.kind() != internal::ITEM_KIND_UNSPECIFIED && !p.id().empty() && p.id().size() <= 256);
    item_ = p.last() ? std::string{} : p.id();
  }

  std::string item_; // that is not whole yet
  std::string body_; // of a request that is not whole yet
};

std::string all_of(const claude_output& o) {
  std::string out = o.to_agent;
  for (const auto& f : o.said)
    out += f.SerializeAsString();
  return out;
}

/// Each request and hook takes one answer.
void answer_all(claude_stream& stream, listener& heard, std::uint8_t way, const std::string& edited) {
  const char* const options[] = {"allow", "deny", "always", ""};
  for (const auto& id : stream.open_requests()) {
    internal::Answer answer;
    answer.set_request_id(id);
    answer.set_option(options[way % 4]);
    SWARM_HOLDS(!stream.answer(answer)); // to nothing that was asked
    answer.set_digest(sha256(heard.open[id]));
    answer.set_edited_input(way % 8 < 4 ? "" : edited);
    (*answer.mutable_answers())["Which?"] = edited;
    if (auto line = stream.answer(answer)) {
      listener::is_line(*line);
      SWARM_HOLDS(heard.open.erase(id) == 1);
      SWARM_HOLDS(!stream.answer(answer));
    }
    answer.set_option("deny");
    if (auto line = stream.answer(answer)) {
      listener::is_line(*line);
      heard.open.erase(id);
    }
    SWARM_HOLDS(!stream.answer(answer));
  }
  SWARM_HOLDS(stream.open_requests().empty() && heard.open.empty());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  const std::size_t step = in.byte() + std::size_t{1};
  const auto way = in.byte();
  const auto edited = in.piece();
  const auto output = in.rest();

  claude_stream whole{0, line_max}, cut{0, line_max};
  listener heard;
  for (auto* stream : {&whole, &cut}) {
    listener::is_line(stream->initialize());
    SWARM_HOLDS(!stream->prompt("p", {}));
    stream->read(introduction);
    SWARM_HOLDS(stream->prompt("p", {}));
  }
  auto at_once = whole.read(output);
  heard.hear(at_once);
  claude_output pieces;
  for (std::size_t at = 0; at < output.size(); at += step) {
    auto some = cut.read(std::string_view{output}.substr(at, step));
    std::move(some.said.begin(), some.said.end(), std::back_inserter(pieces.said));
    pieces.to_agent += some.to_agent;
  }
  SWARM_HOLDS(all_of(at_once) == all_of(pieces));

  auto requests = whole.open_requests();
  SWARM_HOLDS(requests.size() == heard.open.size() && requests.size() <= limits::agent_requests_open_max);
  SWARM_HOLDS(std::all_of(requests.begin(), requests.end(), [&](const auto& id) { return heard.open.contains(id); }));
  if (way < 128)
    answer_all(whole, heard, way, edited);
  else
    heard.hear(whole.interrupt());
  heard.hear(whole.end());
  SWARM_HOLDS(!heard.in_turn && heard.open.empty() && whole.open_requests().empty());
  return 0;
}
