// What a file is called in a scope that hosts share: relative to its checkout, or absolute outside of all. A file that could be locked under two
// names would have two holders, so these refuse the second one.
#pragma once

#include <optional>
#include <string>

#include "actors/domain/rules.hpp"

namespace swarm::domain {

/// The path is absolute, so it means a file of the host that the call came from, and the session lives on another one.
std::optional<v1::Reply> means_other_host(const transaction&, const v1::Session& me, const std::string& path);
/// The path is absolute, so it lies in no checkout of the host that the call came from, but it lies in one of another host: there the same file has
/// another name, under which somebody may hold it. What lies where the session works is a file of its own host.
std::optional<v1::Reply> lies_in_checkout_elsewhere(const transaction&, const v1::Session& me, const std::string& path);
/// The path is absolute, and what it covers lies in a checkout of the host that the call came from, or covers one: there files are called otherwise.
std::optional<v1::Reply> has_name_in_checkout_here(const transaction&, const std::string& path);
/// With this session its host begins to call what lies in the checkout by relative names, and sessions of that host hold locks there, or wait for
/// some, by absolute ones.
std::optional<v1::Reply> would_rename_locks(const transaction&, const v1::Session& registers, const std::string& checkout);

} // namespace swarm::domain
