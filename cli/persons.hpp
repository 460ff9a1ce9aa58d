// What is a person's to do also where no node can say who asks.
#pragma once

#include <functional>
#include <string>

#include <CLI/App.hpp>

#include "cli/invocation.hpp"

namespace swarm::cli {

/// Why this process is no person's, as far as its own eyes, the node of this user and that node's keeper can tell: a sentence without its end. Empty
/// when nothing says so. A login counts where a node tells of it.
std::string why_no_person(const invocation&);

/// Throws `failure` when the parsed command is for people to run where no node can say who asks, and the caller is no person.
void refuse_who_is_no_person(const invocation&, const CLI::App& command);

/// For what the operator alone may ask of the node, before anybody is asked anything. Who is somebody else is refused by `call`, which the node
/// counts and which must do no harm: whoever has become the operator meanwhile has agreed to nothing.
void refuse_who_is_not_operator(const invocation&, const std::function<void()>& call);

} // namespace swarm::cli
