// The table of commands: one spec for each body of v1::Command, in the order of command.proto. It says which rule decides the command, who may
// send it and what it is about.
#pragma once

#include <span>

#include "actors/domain/rights.hpp"
#include "actors/domain/transaction.hpp"

namespace swarm::domain {

/// Whether it makes the store grow. Then it is refused below the low-disk mark. Releases, expiries and completions never are.
enum class effect_on_store { grows, does_not_grow };

/// What it is about: whose row decides where it may come from, and which actor of the scope it goes through.
enum class subject { nothing, task, session, worker, conversation };

struct topic {
  subject kind = subject::nothing;
  /// The id of what it is about; null when it is about nothing.
  const std::string& (*id)(const v1::Command&) = nullptr;
  /// Why a session may not send it about another session than itself; null when it may.
  const char* own_only = nullptr;
};

/// A field without a default: a spec that leaves it out does not compile.
template <class T>
class stated {
public:
  constexpr stated(T value) : value_(value) {}
  constexpr operator T() const { return value_; }
  constexpr const T& get() const { return value_; }

private:
  T value_;
};

struct command_spec {
  v1::Command::BodyCase body;
  v1::Reply (*run)(transaction&, const v1::Command&);
  /// Who may send it: its row of the table of rights.
  stated<right> from;
  stated<effect_on_store> store;
  /// The command is valid without a row of the acting session: it creates that row, ends it, or comes from the node.
  bool unregistered = false;
  topic about = {};
  /// Another node may send it about what lives there.
  bool from_other_nodes = false;
  /// Nobody asks for it from another host: no rule of `[accept]` opens it.
  bool here_only = false;
};

/// Every spec, in the order of command.proto.
std::span<const command_spec> commands() noexcept;
/// Null when the body is not set or unknown to this version. Such a command is refused, whatever its sender.
const command_spec* spec_of(const v1::Command&) noexcept;

} // namespace swarm::domain
