// A run of a routine: its steps as tasks, made together or not at all, each routed to a worker as `dispatch` does it, and one more task that
// waits for all of them and takes the summary.
//
// The steps have idempotency keys of the run, and a key of the scope's store says which run is the last one with these parameters. So the
// same routine asked for twice, by whomever and also at once, is one run while any of its steps goes on.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "gateway/routine/places.hpp"
#include "swarm/v1/coordination.pb.h"

namespace swarm::routines {

namespace v1 = ::swarm::v1;
using json = nlohmann::ordered_json;
/// Of a step that names none.
inline constexpr const char* default_type = "implement";
using environment_list = std::vector<std::pair<std::string, std::string>>;

/// The run could not begin; what() is for people.
struct refused_run : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The caller's way to the node, and who it is. What the functions throw passes through.
struct ports {
  v1::Command command; // scope, actor and caller, no body
  v1::Query query;     // the same
  std::function<v1::Reply(const v1::Command&, const environment_list&)> execute;
  std::function<v1::Answer(const v1::Query&)> ask;
  /// How a worker with that harness is asked for: its own name and the environment for its start.
  struct worker {
    std::string harness;
    environment_list environment;
  };
  std::function<worker(const std::string& harness)> worker_of;
  /// The path under which an absolute file is locked.
  std::function<std::string(const std::string&)> file;
};

struct wishes {
  std::string identity;       // token of the caller, or empty: each has runs of its own
  std::string harness;        // of the steps that name none; empty = start nobody for those
  std::string parent_task_id; // an existing task all of it is part of; empty = none
  bool spawn = true;          // may start workers
  bool force_spawn = false;   // do not look for live ones
  bool fresh = false;         // a new run also while one goes on
  bool follows = false;       // the caller stays to the end, and writes the summary
};

class run {
public:
  run(const routine_file&, values, std::vector<planned_step>, std::string root, wishes);

  /// Makes or finds the tasks and routes the steps. Throws refused_run before anything is made: no right to start workers, an agent that
  /// is not installed, tasks the node does not take. That a single step could not be routed is told by problems() and the report.
  void start(const ports&);

  /// The events to look at are task.* and spawn.* after this revision.
  std::uint64_t revision() const noexcept { return revision_; }
  /// The id of the step an event is about, or empty.
  std::string step_of(const v1::Event&) const;
  /// After an event of step_of(): looks at the step again. If it could not be routed, and is open, the follower tries it once more.
  void note(const ports&, const v1::Event&);
  /// Looks at every step that has not ended; revision() is then that of the look.
  void refresh(const ports&);
  /// Every step has ended.
  bool over() const;
  /// Every step is done.
  bool succeeded() const;
  /// Once it is over and the caller follows: ends the summary task with the outcome, unless somebody else has taken it, and takes the mail
  /// that the caller, if it is a session, got about the steps.
  void conclude(const ports&);

  /// What kept steps from being routed, a line for each; empty when nothing did.
  std::vector<std::string> problems() const;
  /// "3 done, 1 failed"
  std::string counts() const;
  /// The run as JSON; `results`: also what the steps have given.
  json report(bool results) const;

private:
  struct state {
    v1::Task task;
    bool existing = false;
    bool routed = false;
    /// As the report says it: dispatched, spawning, spawn_in_flight, no_worker, assigned, told, waiting, ended or failed.
    std::string routing;
    std::string recipient;
    std::string error;

    bool open() const { return task.status() == v1::OPEN && task.assignee().empty(); }
    bool waits() const { return task.status() == v1::BLOCKED || task.status() == v1::APPROVAL_REQUIRED; }
  };

  std::string store_key() const;
  v1::TaskSpec spec_of(const ports&, const step&, const std::string& id) const;
  v1::Command batch(const ports&, const std::string& id) const;
  bool make(const ports&, const std::string& id);
  void find_or_begin(const ports&);
  void check_rights(const ports&) const;
  v1::Command dispatch_of(const ports&, std::size_t, const std::string& harness) const;
  bool was_told(const ports&, const std::string& task_id);
  void route(const ports&, std::size_t);
  std::string harness_of(std::size_t) const;
  /// The revision of what was seen.
  std::uint64_t look_at(const ports&, state&) const;
  void drop_summary(const ports&) const;
  void end_summary(const ports&);
  void take_mail(const ports&);
  void write_summary(const ports&, const std::string& session) const;
  std::string outcome() const;
  std::size_t steps() const noexcept { return plan_.size(); }
  const step& step_at(std::size_t i) const { return i < plan_.size() ? plan_[i].what : summary_; }

  std::string name_;
  std::string full_name_;
  std::string digest_;
  values values_;
  std::vector<planned_step> plan_;
  step summary_;
  std::string root_;
  wishes wishes_;
  std::string id_;
  bool existing_ = false;
  std::uint64_t revision_ = 0;
  std::vector<state> states_;                             // of the steps, then of the summary
  std::optional<std::set<std::string>> told_;             // tasks somebody was told of before
  std::vector<std::pair<std::string, std::string>> mail_; // about the steps: sender and content
};

/// What a run would make, without a node.
json plan_json(const routine_file&, const values&, const std::vector<planned_step>&);
/// What a file says; `trusted`: it may run.
json routine_json(const routine_file&, bool trusted);
/// A row of a list.
json list_row(const places&, const routine_file&);
/// What a result says in words: the summary of a structured one, else the text itself.
std::string said_in(const std::string& result);

} // namespace swarm::routines
