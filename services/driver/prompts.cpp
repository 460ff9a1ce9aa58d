#include "services/driver/prompts.hpp"

#include <utility>

#include "actors/base/crypto.hpp"

namespace swarm::driver {

namespace {

/// Bytes are no text of the prompt, even without a word about what they are.
std::string media_type_of(const internal::PromptPart& part) {
  return part.media_type().empty() ? std::string{"application/octet-stream"} : part.media_type();
}

} // namespace

const prompt_table::outcome* prompt_table::find(const std::string& id) const {
  const auto found = known_.find(id);
  return found == known_.end() ? nullptr : &found->second;
}

std::optional<std::string> prompt_table::drop_unfinished() {
  too_much_.clear();
  auto old = std::exchange(unfinished_, std::nullopt);
  return old ? std::optional{std::move(old->id)} : std::nullopt;
}

prompt_table::taken prompt_table::take(const internal::PromptPart& part) {
  if (const auto* before = find(part.id())) {
    if (!part.last())
      return {};
    taken out;
    out.repeated = before;
    return out;
  }
  if (!unfinished_ || unfinished_->id != part.id()) {
    drop_unfinished();
    unfinished_ = prompt{.id = part.id(), .steer = part.steer()};
    if (!is_uuid(part.id()))
      too_much_ = "The id of the prompt is no UUID";
    else if (known_.size() >= limits::driver_prompts_known_max)
      too_much_ = "The driver has had too many prompts; stop the conversation and resume it";
  }
  auto& p = *unfinished_;
  const auto& bytes = part.has_media() ? part.media() : part.text();
  const bool begins = part.begins() || p.parts.empty();
  p.bytes += bytes.size();
  if (p.bytes > limits::driver_prompt_bytes_max)
    too_much_ = "The prompt is larger than 20 MiB";
  else if (begins && p.parts.size() == limits::driver_prompt_parts_max)
    too_much_ = "The prompt has more than 64 texts and files";
  if (!too_much_.empty())
    p.parts.clear();
  else if (begins)
    p.parts.push_back({bytes, part.has_media() ? media_type_of(part) : std::string{}, part.has_media() ? part.name() : std::string{}});
  else
    p.parts.back().text += bytes;
  if (!part.last())
    return {};
  taken out;
  if (too_much_.empty())
    out.whole = std::move(p);
  else
    out.refused = too_much_;
  drop_unfinished();
  return out;
}

} // namespace swarm::driver
