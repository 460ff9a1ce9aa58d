// Finds the task, terminal, approval or conversation that a word on the command line names.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/invocation.hpp"
#include "cli/recent.hpp"
#include "swarm/v1/pty.pb.h"

namespace swarm::cli {

/// Names the newest thing of its kind that was made from this terminal in the scope; where it made none, the newest one in the scope. It is refused
/// when the thing is not there any more.
inline constexpr std::string_view last_word = "@last";

// For help texts: what may name a thing.
inline constexpr const char* task_words = "the task: its id, the first characters of it, or @last";
inline constexpr const char* terminal_words = "the terminal: its id, its name, the first characters of its id, or @last";
inline constexpr const char* conversation_words = "the conversation: its id, the first characters of it, or @last";
inline constexpr const char* approval_words = "the approval: its id, the first characters of it, or @last";

/// The id of the task that `who` names. A full id is returned unchecked: the node checks it. Throws `failure` (refused) when `who` names no task, or
/// several.
std::string task_named(const invocation&, const std::string& who);
/// task_named() for each word of comma-separated lists.
std::vector<std::string> tasks_named(const invocation&, const std::vector<std::string>& words);
/// task_named(), or empty for an empty word.
std::string optional_task(const invocation&, const std::string& who);
/// Of the approvals of these scopes; a scope that cannot be asked does not hide the others. `@last` is of this scope.
std::string approval_named(const invocation&, const std::string& who, const std::vector<std::string>& scopes);
/// The conversation: a full id is looked for in every scope that the caller may ask, its beginning in this one.
v1::Conversation conversation_named(const invocation&, const std::string& who);
/// The conversations that act, or acted, as sessions of the scope, by session. Empty when the caller may not see them.
std::map<std::string, v1::Conversation> conversations_by_session(const invocation&, const std::string& scope);
/// "swarmctl chat read ID", with as much of the id as is needed here.
std::string how_to_read(const invocation&, const std::string& scope, const std::string& conversation_id);

/// Where the beginning of an id is looked up. A verb that types into a terminal or ends it must not hit another repository's by chance.
enum class reach : std::uint8_t { this_scope, all_scopes };
/// The terminal that `who` names: by its full id; else by its name in this scope, a running one first; else by the beginning of its id. A word that
/// is one terminal's name and the beginning of another one's id, of whatever scope, names none.
v1::PtyInfo terminal_named(const invocation&, const std::string& who, reach);
/// The choice itself, among `all`. Throws `failure` (refused) when none, or more than one, fits; `not_asked` tells of hosts that may have the one.
const v1::PtyInfo* choose_terminal(const std::vector<v1::PtyInfo>& all, const std::string& who, const std::string& scope, reach,
                                   const std::function<std::string()>& not_asked = nullptr);
/// Throws `failure` (refused) when `what` is on a node of the cluster whose link is down.
void require_linked(const invocation&, const std::string& node_id, const std::string& what);
/// Every terminal of the scope, or of all scopes, oldest first.
std::vector<v1::PtyInfo> all_terminals(const invocation&, bool all_scopes);

/// Those that wait for a decision, the oldest first, as far as `viewer` sees them; empty = the caller. Long bodies may be left out.
std::vector<v1::Approval> open_approvals(const invocation&, const std::string& scope, const std::string& viewer = {});

/// Records that this terminal made the thing, for `@last`.
void remember_made(const invocation&, kind_of_thing, const std::string& scope, const std::string& id);

} // namespace swarm::cli
