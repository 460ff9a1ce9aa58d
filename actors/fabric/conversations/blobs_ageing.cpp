// What goes by itself: blobs that nobody names, files of conversations that have no row, logs that are too old.
#include <algorithm>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "actors/fabric/conversations/blobs.hpp"
#include "actors/store/conversation/copy.hpp"

namespace fs = std::filesystem;

namespace swarm {

namespace {

using self_ptr = conversation_blobs_actor::stateful_pointer<conversation_blobs_state>;

std::int64_t now_ms(self_ptr self) { return self->state.node->clock->unix_ms(); }

/// Of uploads in an earlier run of the node; none is under way where no place is open.
void take_unfinished(self_ptr self, const std::string& id) {
  if (self->state.places.count(id) > 0)
    return;
  if (auto failed = blobs::remove_unfinished(system_disk(), blobs_directory(*self->state.node, id)))
    log::warn({"conversation ", id, ": ", failed->text});
}

/// Blobs that are older than conversation_blob_unnamed: they stay only when a row names them.
std::vector<std::string> old_blobs(self_ptr self, const std::string& id) {
  auto all = blobs::at(system_disk(), blobs_directory(*self->state.node, id)).list();
  if (!all) {
    log::warn({"conversation ", id, ": ", all.failure().text});
    return {};
  }
  std::vector<std::string> out;
  for (auto& b : *all)
    if (b.written_ms < now_ms(self) - limits::conversation_blob_unnamed().count())
      out.push_back(std::move(b.what.sha256));
  return out;
}

/// Its oldest file has not been written for longer than anything is kept.
bool has_old_log(self_ptr self, const std::string& id) {
  const auto directory = conversations_of(self->state.node->facts.dir) / id;
  auto names = system_disk().list(directory);
  if (!names)
    return false;
  std::erase_if(*names, [](const auto& n) { return !n.ends_with(".log"); });
  const auto oldest = std::min_element(names->begin(), names->end());
  if (oldest == names->end())
    return false;
  auto file = system_disk().open(directory / *oldest, disk::how::read);
  const auto changed = file ? (*file)->changed_ms() : disk_result<std::int64_t>{file.failure()};
  return changed && *changed < now_ms(self) - limits::conversation_log_retention().count();
}

/// What has no row here may have it in the store of another node.
bool knows_all_rows(const node_environment& node) { return !node.cluster || node.cluster->shared_home().empty(); }

void take_unnamed(self_ptr self, const std::string& id, const std::set<std::string>& named) {
  // Once more: one that was written again since the rows were read may have a name by now.
  for (const auto& sha256 : old_blobs(self, id))
    if (named.count(from_hex(sha256)) == 0)
      take_blob(self, id, sha256);
}

void look_at_some(self_ptr self);

void take_what_is_over(self_ptr self, const kept_question& asked, const std::map<std::string, kept_conversation>& known) {
  for (const auto& id : asked.conversations)
    if (const auto row = known.find(id); row == known.end()) {
      if (knows_all_rows(*self->state.node))
        forget_conversation(self, id);
    } else if (has_old_log(self, id)) {
      auto old = std::make_shared<log_ageing>();
      old->log = {id, row->second.log_end};
      self->send(self->state.links.logs, log_ageing_ptr{old});
    }
  for (const auto& id : asked.with_blobs)
    if (const auto row = known.find(id); row != known.end())
      take_unnamed(self, id, row->second.blobs);
}

void look_at_some(self_ptr self) {
  auto& st = self->state;
  auto q = std::make_shared<kept_question>();
  while (!st.to_look_at.empty() && q->conversations.size() < limits::conversation_round_rows) {
    q->conversations.push_back(std::move(st.to_look_at.back()));
    st.to_look_at.pop_back();
  }
  if (q->conversations.empty())
    return;
  for (const auto& id : q->conversations) {
    take_unfinished(self, id);
    if (!old_blobs(self, id).empty())
      q->with_blobs.push_back(id);
  }
  self->request(st.links.reader, limits::call_deadline_default(), kept_question_ptr{q})
    .then(
      [self, q](const kept_conversations_ptr& known) {
        take_what_is_over(self, *q, *known);
        look_at_some(self);
      },
      [self](caf::error& e) {
        self->state.to_look_at.clear();
        log::warn({"old files of conversations were not looked for: ", to_string(e)});
      });
}

} // namespace

void begin_round(self_ptr self) {
  auto& st = self->state;
  if (!st.to_look_at.empty())
    return;
  std::error_code ec;
  for (fs::directory_iterator i{conversations_of(st.node->facts.dir), ec}, last; !ec && i != last; i.increment(ec)) {
    std::error_code unknown;
    if (auto id = i->path().filename().string(); is_plain_name(id) && i->symlink_status(unknown).type() == fs::file_type::directory)
      st.to_look_at.push_back(std::move(id));
  }
  look_at_some(self);
}

} // namespace swarm
