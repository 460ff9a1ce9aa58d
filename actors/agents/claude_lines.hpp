// What a program that drives Claude Code (--input-format stream-json) writes to it: one line of JSON each, with its line break.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "actors/agents/json_view.hpp"

namespace swarm::agents::claude_lines {

/// A part of a prompt.
struct prompt_part {
  std::string text;            // without a media type: UTF-8; else the bytes of an image or file
  std::string media_type = {}; // image/png
  std::string name = {};       // of a file
};

/// The names by which hooks of ours come back, see initialize().
inline constexpr std::string_view before_tool = "before";
inline constexpr std::string_view after_tool = "after";

/// The first line. The program asks before and after each tool that writes, and does not run it when nobody answers.
std::string initialize(std::string_view request);
/// Why the program cannot be given a part; empty when it can. Its service refuses each further turn of a session that has an image it cannot read.
std::string why_not_taken(const prompt_part&);
/// The program reports by the id what becomes of the prompt, and does not run a second one with the same id.
std::string prompt(std::string_view id, std::span<const prompt_part> parts);
/// `input` is the tool's JSON; `permissions` a JSON array of rules to keep, or empty.
std::string allow(std::string_view request, std::string_view input, std::string_view permissions = {});
/// `reason` is for the agent. With `ends_turn` it may not try something else.
std::string deny(std::string_view request, std::string_view reason, bool ends_turn);
/// Of the prompts that wait, the answer names those that are dropped.
std::string interrupt(std::string_view request, bool drops_prompts);
std::string set_model(std::string_view request, std::string_view model);
std::string set_mode(std::string_view request, std::string_view mode);
/// The tool of a hook goes on, or asks a person where it would.
std::string pass_hook(std::string_view request);
std::string deny_hook(std::string_view request, std::string_view reason);
/// To a request that a driver does not know: the program would wait for ever.
std::string unsupported(std::string_view request);

/// The input of a question with what was chosen: `answers` is JSON, the texts of its parts to the answers.
std::string with_answers(const json_view& input, std::string_view answers);
/// Whether the agent's suggestions come to a rule that allows this command and nothing else.
bool may_keep_rule(const json_view& suggestions, std::string_view tool, std::string_view command);
/// That rule, for the session, in a JSON array.
std::string rule_of(std::string_view command);

} // namespace swarm::agents::claude_lines
