// Which task, terminal or approval a word of the command line means.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/invocation.hpp"
#include "cli/recent.hpp"
#include "swarm/v1/pty.pb.h"

namespace swarm::cli {

/// The newest thing of its kind that this terminal made in the scope, else the newest one of the scope.
inline constexpr std::string_view last_word = "@last";

// The words that stand for a thing, for help texts.
inline constexpr const char* task_words = "the task: its id, the first characters of it, or @last";
inline constexpr const char* terminal_words = "the terminal: its id, its name, the first characters of its id, or @last";
inline constexpr const char* approval_words = "the approval: its id, the first characters of it, or @last";

/// Id of the task that is meant. A full id is the node's to judge. Throws `failure` (refused) when there is none or more than one.
std::string task_named(const invocation&, const std::string& who);
/// The same of each word between the commas.
std::vector<std::string> tasks_named(const invocation&, const std::vector<std::string>& words);
/// The same of a word that may be missing; then empty.
std::string optional_task(const invocation&, const std::string& who);
std::string approval_named(const invocation&, const std::string& who);

/// How far the beginning of an id reaches. Whatever types into a terminal or ends it must not hit another repository's by chance.
enum class reach : std::uint8_t { this_scope, all_scopes };
/// Exact id; then the exact name in this scope, running before ended; then the beginning of an id.
v1::PtyInfo terminal_named(const invocation&, const std::string& who, reach);
/// The rule itself. Throws `failure` (refused).
const v1::PtyInfo* choose_terminal(const std::vector<v1::PtyInfo>& all, const std::string& who, const std::string& scope, reach);
/// Every terminal of the scope, or of all scopes, in the order of their making.
std::vector<v1::PtyInfo> all_terminals(const invocation&, bool all_scopes);

/// This terminal made it.
void remember_made(const invocation&, kind_of_thing, const std::string& scope, const std::string& id);

} // namespace swarm::cli
