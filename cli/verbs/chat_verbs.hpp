// What the commands of `swarmctl chat` share.
#pragma once

#include <string>
#include <vector>

#include "cli/verb.hpp"

namespace swarm::cli {

/// A command of `chat` whose first word is a conversation.
CLI::App* of_conversation(CLI::App&, const char* name, const char* help, std::string& who);
/// To the conversation's scope.
v1::Command command_for(const invocation&, const v1::Conversation&);
/// A command may have to start the agent, which inherits what a worker does.
environment_list environment_for(const invocation&, const v1::Conversation&);

/// What an agent may do unasked, and which model and mode it has: options of `chat new` and `chat set`.
struct agent_settings {
  std::string permissions, time, model, mode;
  std::vector<std::string> allow;
};
void add_options(CLI::App&, agent_settings&);
/// --permissions; unspecified when it was not given. Throws `failure` (usage).
v1::Conversation::Permissions permissions_of(const std::string& word);
/// --for in milliseconds, 0 when it was not given. Throws `failure` (usage).
std::int64_t time_of(const agent_settings&);
extern const char* const permissions_words;

void build_chat_send(CLI::App&, invocation&);
void build_chat_prompts(CLI::App&, invocation&);
void build_chat_set(CLI::App&, invocation&);

} // namespace swarm::cli
