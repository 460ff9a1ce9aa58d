// A run of a routine. Its steps become tasks, all together or none, and each is routed to a worker as `dispatch` does it. One more task waits
// for all of them and takes the summary.
//
// The tasks have idempotency keys that name the run, and a key of the scope's store names the last run with these parameters. So if several
// callers ask for the same routine, even at once, they share one run while any of its steps goes on.
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
/// The type of a step that names none.
inline constexpr const char* default_type = "implement";
using environment_list = std::vector<std::pair<std::string, std::string>>;

/// The run could not begin. what() says why, for people.
struct refused_run : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The caller's access to the node. Exceptions of these functions pass through.
struct ports {
  v1::Command command; // with scope, actor and caller, without a body
  v1::Query query;     // likewise
  std::function<v1::Reply(const v1::Command&, const environment_list&)> execute;
  std::function<v1::Answer(const v1::Query&)> ask;
  /// How to request a worker: the harness under its own name, and the environment for the worker.
  struct worker {
    std::string harness;
    environment_list environment;
  };
  std::function<worker(const std::string& harness)> worker_of;
  /// The path under which an absolute file is locked.
  std::function<std::string(const std::string&)> file;
};

struct wishes {
  std::string identity;       // the caller's identity token, or empty; each identity has runs of its own
  std::string harness;        // the caller's choice for every step; empty = what the step names
  std::string harness_else;   // for steps that name none, without a choice of the caller; empty = start nobody for those
  std::string parent_task_id; // an existing task that the run is part of; empty = none
  bool spawn = true;          // may start workers
  bool force_spawn = false;   // always start new workers
  bool fresh = false;         // begin a new run even while one goes on
  bool follows = false;       // the caller stays until the end and writes the summary
};

/// The harness that a run with these wishes asks for; empty when it starts nobody for the step.
std::string harness_for(const step&, const wishes&);
/// Throws refused_run for the harness of a step that is no agent; empty is nobody.
void require_agent(const std::string& harness);

class run {
public:
  run(const routine_file&, values, std::vector<planned_step>, std::string root, wishes);

  /// Makes or finds the tasks and routes the steps. Throws refused_run, before anything is made, when the caller may not start workers, an
  /// agent is not installed, or the node refuses the tasks. Steps that could not be routed are in problems() and in the report.
  void start(const ports&);

  /// A follower watches the task.* and spawn.* events after this revision.
  std::uint64_t revision() const noexcept { return revision_; }
  /// The id of the step an event is about, or empty.
  std::string step_of(const v1::Event&) const;
  /// Reads the step of an event again. If the step could not be routed before and is open, a follower routes it again.
  void note(const ports&, const v1::Event&);
  /// Reads every step that has not ended, and sets revision() to the revision of what it has read.
  void refresh(const ports&);
  /// Every step has ended.
  bool over() const;
  /// Every step is done.
  bool succeeded() const;
  /// For a caller that follows, when the run is over: completes the summary task with the outcome, unless somebody else has taken it. If the
  /// caller is a session, this also takes its messages about the steps.
  void conclude(const ports&);

  /// One line for each step that could not be routed, with the reason.
  std::vector<std::string> problems() const;
  /// The summary task of the run before this one, which nobody had taken and which start() has cancelled; empty when there was none.
  const std::string& dropped_summary() const noexcept { return dropped_summary_; }
  /// "3 done, 1 failed"
  std::string counts() const;
  /// The run as JSON; with `results` also the results of the steps.
  json report(bool results) const;

private:
  struct state {
    v1::Task task;
    bool existing = false;
    bool routed = false;
    /// One of the report's words: dispatched, spawning, spawn_in_flight, no_worker, assigned, told, waiting, ended or failed.
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
  /// Reads the task again; returns the revision of the answer.
  std::uint64_t look_at(const ports&, state&) const;
  void drop_summary(const ports&);
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
  std::string dropped_summary_;
  bool existing_ = false;
  std::uint64_t revision_ = 0;
  std::vector<state> states_;                             // of the steps, and last of the summary
  std::optional<std::set<std::string>> told_;             // tasks that this caller has sent a message about; read once
  std::vector<std::pair<std::string, std::string>> mail_; // about the steps: sender and content
};

/// The steps with the harness that a run with these wishes asks for. `agent_of` resolves an agent's name as ports::worker_of does. Throws refused_run
/// for a harness that is no agent, as start() does; needs no node.
std::vector<planned_step> with_harnesses(std::vector<planned_step>, const wishes&, const std::function<std::string(const std::string&)>& agent_of);
/// The steps that a run would make; needs no node.
json plan_json(const routine_file&, const values&, const std::vector<planned_step>&);
/// The content of a routine's file. `trusted`: it may run.
json routine_json(const routine_file&, bool trusted);
/// A routine as a row of the list of routines.
json list_row(const places&, const routine_file&);
/// A result in words: the summary of a structured result, otherwise the text itself.
std::string said_in(const std::string& result);

} // namespace swarm::routines
