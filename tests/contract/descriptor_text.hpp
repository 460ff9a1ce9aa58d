// The public contract as text: one line per message, field, enum value and rpc. A line that disappears is a broken promise.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class FileDescriptor;
}

namespace swarm::contract {

/// Sorted lines. Their order carries no meaning, so files may be rearranged freely.
using lines = std::set<std::string>;

/// Adds the lines of one file:
///   message swarm.v1.Done
///   field swarm.v1.Task.title 4 string single
///   field swarm.v1.Reply.session 11 swarm.v1.SessionReply single oneof=body
///   value swarm.v1.TaskStatus.OPEN 1
///   rpc swarm.v1.Coordination.Watch swarm.v1.WatchRequest -> stream swarm.v1.WatchReply
void describe(const google::protobuf::FileDescriptor& file, lines& out);

/// Everything in a set that protoc wrote (--include_imports --descriptor_set_out). Throws std::runtime_error when it cannot be
/// read or holds nothing.
lines describe_set(const std::string& path);

/// Lines of a checked-in file; blank lines and those starting with # do not count.
lines parse(std::string_view text);

/// Lines of `baseline` that `current` no longer has: removed, renumbered, retyped or relabelled things.
std::vector<std::string> broken(const lines& baseline, const lines& current);

/// Lines that only `current` has.
std::vector<std::string> added(const lines& baseline, const lines& current);

} // namespace swarm::contract
