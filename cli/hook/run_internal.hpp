// The handling of one event, shared by run.cpp, run_session.cpp, run_tool.cpp and run_locks.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/hook/locks.hpp"
#include "cli/hook/run.hpp"
#include "cli/hook/session.hpp"
#include "cli/hook/store.hpp"

namespace swarm::cli {

/// The note on locks that hooks take. It tells them from locks that an agent takes itself.
inline constexpr const char* hook_note = "actively editing";
inline constexpr const char* cannot_be_read = "swarm lock check failed: the hook could not read what the tool is to do.";

/// One process handles one event, so each member is filled at most once.
class hook_run {
public:
  hook_run(const invocation& cli, const agents::agent& agent, hook_event event, const hook_options& options, const std::string& input);
  void run();
  /// Prints an empty answer if none was printed.
  void answer_nothing() { say(json::object()); }

private:
  // -- run.cpp: turns, and what all events share -----------------------------------------------
  std::string event_text(const char* key) const;
  std::string place_of_event() const;
  /// Changes what is remembered, unless `change` returns false; returns whether it was written.
  bool remember(const std::function<bool(hook_memory&)>& change);
  void turn(v1::AgentReport::State);
  void end_calls();
  void show_mail();
  std::optional<v1::AgentReport::State> notified_state() const;
  void report(v1::AgentReport::State);
  void set_deadline() const;
  v1::Command command() const;
  v1::Query query() const { return query_in({me_.scope, {}}); }
  /// A scope, and the directory from which its paths are seen; empty = the session's own.
  struct place_of_locks {
    std::string scope;
    std::string directory;
  };
  v1::Query query_in(const place_of_locks&) const;
  v1::Caller caller_in(const std::string& directory) const;
  v1::Reply decide(const v1::Command& c) const {
    set_deadline();
    return cli_.decide(c);
  }
  v1::Answer ask(const v1::Query& q) const {
    set_deadline();
    return cli_.node().coordination.ask(q);
  }
  /// Throws `failure` for a refusal.
  v1::Answer ask_or_throw(const v1::Query&) const;
  /// Prints the answer to the event. An agent reads one answer only, so later ones are dropped.
  void say(const json& answer) {
    if (!std::exchange(answered_, true))
      cli_.io().print_compact(answer);
  }
  void deny(const std::string& reason) { say(hook_denial(agent_, reason)); }
  void note(const std::string& text) const { cli_.io().error("swarmctl hook: " + text); }

  // -- run_session.cpp -------------------------------------------------------------------------
  void session_start();
  void session_end();
  hook_memory known_session() const;
  hook_memory session_of_environment() const;
  hook_memory session_by_label() const;
  v1::Session find_or_register(const hook_identity&, const std::string& scope, const std::string& directory);
  void enter(const hook_identity&, const std::string& scope, const std::string& directory);
  bool enter_again();
  void speak_for(const v1::Session&, bool registered);
  std::string scope_for(const hook_identity&, const std::string& directory) const;
  v1::Session worker_session() const;
  std::optional<v1::Session> session_of_caller() const;
  std::vector<v1::Session> sessions() const;
  std::optional<v1::Session> session_of_tool_server(const std::vector<v1::Session>&, const std::string& me) const;
  void look_for_tool_server();
  bool is_me(const std::string& session);
  void greet(const hook_identity&, const hook_memory&, bool aloud);

  // -- run_tool.cpp ----------------------------------------------------------------------------
  shell::place place_of_tool() const;
  void pre_tool_use();
  void post_tool_use();
  bool denied_as_too_many();
  void watch(const std::vector<v1::LockView>& held);
  std::vector<watched_file> changed_files(const std::vector<watched_file>&, std::int64_t since_ms) const;
  void tell_about(const std::vector<watched_file>&);

  // -- run_locks.cpp ---------------------------------------------------------------------------
  enum class verdict { none, warned, denied };
  std::vector<v1::LockView> locks(const place_of_locks&) const;
  std::vector<place_of_locks> further_places() const;
  bool denied_by(const std::vector<v1::LockView>&, const path_matcher&, const place_of_locks&);
  bool denied_in_other_repositories();
  std::string file_of(const v1::LockView&, const place_of_locks&);
  verdict judge(const v1::LockView&, const path_matcher&, const shell::written_path&, const place_of_locks&);
  std::string holder_text(const v1::LockView&, const char* what) const;
  bool take_locks(const path_matcher&);
  bool take_lock(const std::string& path, const std::string& task, const path_matcher&);
  std::string current_task() const;
  unique_fd turn_at_locks();
  v1::Command acquisition(const std::string& path, const std::string& task) const;
  void note_fence(const std::string& path, std::uint64_t fence);
  void retake_locks(const std::string& task);
  /// During a turn at the locks.
  void end_use(const std::vector<std::string>& paths);
  void give_back(const std::vector<std::string>& paths);
  void give_back_all();
  bool release(const std::string& path, std::uint64_t fence);

  const invocation& cli_;
  const agents::agent& agent_;
  hook_event event_;
  hook_options options_;
  json input_;
  std::string place_;         // the directory the event is about
  std::string agent_session_; // the session's id in the agent's own words
  std::filesystem::path state_directory_;
  hook_store store_;
  bool worker_;
  bool below_driven_;        // the agent of a conversation, or something that it has started
  std::int64_t deadline_ms_; // on the boot clock
  hook_memory me_;
  tool_use use_;
  std::vector<std::string> taken_; // paths that this tool call has locked
  std::vector<std::string> warnings_;
  std::map<std::string, v1::Session> holders_; // a cache for file_of(), by session id
  bool looked_ = false;                        // look_for_tool_server() has run
  bool entered_ = false;                       // enter_again() has run
  bool answered_ = false;
};

} // namespace swarm::cli
