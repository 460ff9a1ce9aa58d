#include "gateway/mcp/guides.hpp"

namespace swarm::mcp {

std::string registered_text(const std::string& kept) {
  auto state = kept.empty() ? std::string{"You are registered."}
                            : "You were registered already, and this session stays as it was: " + kept +
                                ". If you need it otherwise, call deregister and then register.";
  return state +
         " Call bootstrap now: it gives you your unread messages, your peers and the task board in one answer. Before you "
         "edit a file that a peer may touch, take lock_file; when there is nothing to do, call wait_for_activity instead of asking again and again.";
}

std::string role_text(std::string_view role) {
  if (role == "planner")
    return "As planner you cut the work into tasks with request_task or request_task_batch, each with its files and what it depends on, and keep "
           "plan/latest up to date with kv_set. Watch the board with wait_for_activity, answer questions, and open a fix for what failed. More: "
           "references/planner.md of the swarm-mcp skill.";
  if (role == "implementer")
    return "As implementer you take work with claim_next_task, hold lock_file on what you edit, say how it goes with report_progress, and end with "
           "complete_task. More: references/implementer.md of the swarm-mcp skill.";
  if (role == "reviewer")
    return "As reviewer you claim tasks of type review, read the change without editing it, and put what has to be mended on the board as tasks of "
           "type fix. More: references/reviewer.md of the swarm-mcp skill.";
  if (role == "researcher")
    return "As researcher you claim tasks of type research, change no files, and leave what you found in findings/* with kv_set or kv_append. More: "
           "references/researcher.md of the swarm-mcp skill.";
  return {};
}

std::string setup_prompt() {
  return "Join the swarm of this repository through the swarm-mcp tools.\n"
         "1. Call register with the absolute path of your working directory as directory, and a label that says who you are, for example "
         "\"identity:work role:implementer\". If a session start hook has told you an instance id, pass it as adopt_instance_id.\n"
         "2. Call bootstrap and read it: unread messages first, then tasks that are assigned to you, then your peers.\n"
         "3. If the swarm-mcp skill is installed, read it for your role; otherwise ask for the prompt protocol.\n"
         "4. Say in one sentence what you will do next, and begin.";
}

std::string protocol_prompt() {
  return "How sessions of the swarm-mcp tools work together.\n"
         "- Find work with claim_next_task. `claimed` means that a task is yours but not begun; claim_task begins it. Read unread messages before.\n"
         "- Take lock_file for each file before you edit it, and keep off files that a peer has locked: ask the holder, or work on something else.\n"
         "- Report progress when a step is done or something blocks you. End every task, with complete_task or update_task; your locks for it go "
         "then.\n"
         "- Ask for a review as a task of type review with review_of_task_id. Tasks with approval_required wait for approve_task.\n"
         "- Put work for others on the board with request_task, or request_task_batch when tasks depend on each other; give an idempotency_key when "
         "you "
         "may ask twice.\n"
         "- With nothing left to do, call wait_for_activity. It returns as soon as there is mail, a task, a peer or a key to look at.\n"
         "- The swarm-mcp skill holds the details for planners, implementers, reviewers and researchers.";
}

} // namespace swarm::mcp
