// The shape of the file: numbered migrations, forward only.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "actors/base/errc.hpp"
#include "actors/store/sqlite.hpp"

namespace swarm {

/// The store cannot be used at all: errc::newer_schema or errc::store_failed, with a text for people.
class store_error : public std::runtime_error {
public:
  store_error(errc code, const std::string& what) : std::runtime_error(what), code_(code) {}
  errc code() const noexcept { return code_; }

private:
  errc code_;
};

/// Entry n-1 takes a file from user_version n-1 to n. Published entries are never edited.
std::span<const char* const> migrations();

/// What this program writes: the number of migrations.
std::uint32_t schema_version();

/// user_version of the file as it is.
std::uint32_t stored_schema_version(sqlite::connection&);

/// Brings the file to the last of `steps`, each in a transaction of its own. Throws store_error(newer_schema) when the file is
/// ahead of them, and touches nothing then.
void migrate(sqlite::connection&, std::span<const char* const> steps = migrations());

/// For connections that only read: throws store_error(newer_schema) when the file is ahead, store_failed when it is behind.
void require_schema(sqlite::connection&);

/// Small facts about the node that owns the file.
std::string fact(sqlite::connection&, const std::string& name);
void set_fact(sqlite::connection&, const std::string& name, const std::string& value);

} // namespace swarm
