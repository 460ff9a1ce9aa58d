// The session an MCP server process speaks for: at most one at a time (as in swarm-mcp).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gateway/mcp/node.hpp"

namespace swarm::mcp {

/// Who is bound, and the token that proves it.
struct binding {
  v1::Session session;
  std::string token;
  /// Revision of the scope when it was bound: what comes after it is news. 0 = not known.
  std::uint64_t since = 0;
  /// The session lives and dies with this process.
  bool ours = false;
  /// What the node has left out of what was asked for; empty = nothing.
  std::string note;
};
using binding_ptr = std::shared_ptr<const binding>;

/// What `register` asks for; empty texts are not given.
struct registration {
  std::string directory;
  std::string label;
  std::string scope;
  std::string file_root;
  std::string adopt;
  bool of_agent = false; // the session that a hook of this agent has registered
};

/// Not thread-safe but for bound() and cancel(): calls that change who is bound are made one after the other.
class member {
public:
  explicit member(const host&);
  ~member();

  const host& process() const noexcept { return host_; }
  /// Null when nobody is.
  binding_ptr bound() const;
  /// Of the bound session, else of the process.
  mcp::connection& connection() noexcept { return *connection_; }
  /// Ends the call in progress on it, or the next one.
  void cancel();
  /// A fresh connection: a cancellation that came too late is forgotten.
  void renew();
  /// Called with the new state after each change.
  void on_change(std::function<void(const binding_ptr&)> f) { changed_ = std::move(f); }

  /// Binds by the environment's instance id, or to the session that a hook of this agent has registered; true when somebody is bound then.
  /// Never to another one: whoever it was made for would lose it, with its locks.
  bool ensure();
  /// Binds; takes over the session that a hook of this agent has registered in the scope. Throws std::runtime_error with the text of what
  /// stands against it.
  void enroll(registration);
  /// Binds to that row; false when it cannot be adopted. Missing parts come from the environment.
  bool adopt(registration);
  /// The session is gone, by itself or by somebody else.
  void forget();
  /// Ends the session and forgets it.
  void deregister();
  /// At the end of the process: a session of ours leaves, any other stays.
  void leave();

private:
  v1::Command registering(const registration&) const;
  void bind(v1::Reply registered, std::string token);
  void end_session(const binding&);
  v1::Reply send(v1::Command&, std::string& token);
  std::vector<v1::Session> leased_by_hooks(const std::string& scope);
  const v1::Session* of_this_agent(const std::vector<v1::Session>&) const;
  bool take_over(const registration&);
  bool adopt_leased();
  void set(binding_ptr);
  void connect(const std::string& token, host::start = host::start::if_needed);

  const host& host_;
  mutable std::mutex mutex_; // guards the pointers
  std::shared_ptr<mcp::connection> connection_;
  binding_ptr bound_;
  std::function<void(const binding_ptr&)> changed_;
};

} // namespace swarm::mcp
