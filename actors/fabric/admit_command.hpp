// The one admission of a command: what every way into a node checks, fills in and decides before the front sees it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/store/interfaces.hpp"

namespace swarm {

/// What differs between the ways in. The principal is whom that way has identified, never what the command says.
struct way_in {
  v1::Principal principal;
  std::string node_id; // where a session that registers lives
  std::string node_name = {};
  /// The agent program below which the caller runs, as the node has found it; unset = below none.
  std::optional<v1::AgentStart> agent = {};
  /// That node has filled in what only it knows: where its checkouts lie, below which agent its callers run, and that an order is its own.
  bool of_other_node = false;
  /// Turns the caller's paths into those of the store; empty = they are.
  std::function<void(v1::Command&)> to_store = {};
  /// Chooses where the worker runs that the command may ask for; why it cannot.
  std::function<std::optional<v1::Refusal>(v1::Command&)> place = {};
};

/// `what` for the front, unless `wrong` says which outer bound is broken (errc::invalid). `refusal`: the answer to give instead of asking the front.
struct admitted_command {
  std::shared_ptr<const execution> what;
  std::optional<v1::Refusal> refusal;
  std::string wrong;
};

/// For `to_store` at the scope's home: what is stored of a worker's variables tells nobody who can read it which short secret was meant, and is the
/// same for the same variables from every host. `key`: the home's, 32 bytes.
void hide_variables(v1::Command&, const std::string& key);

admitted_command admit_command(const v1::RequestId&, const v1::Command&, const way_in&);

} // namespace swarm
