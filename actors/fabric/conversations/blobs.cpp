#include "actors/fabric/conversations/blobs.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/tree.hpp"
#include "actors/store/conversation/copy.hpp"

namespace fs = std::filesystem;

namespace swarm {

namespace {

using self_ptr = conversation_blobs_actor::stateful_pointer<conversation_blobs_state>;
using place = conversation_blobs_state::place;

std::uint64_t counted(std::uint64_t bytes) { return std::max(bytes, limits::conversation_blob_counted_min); }

std::uint64_t counted(const place& p) {
  return std::accumulate(p.sizes.begin(), p.sizes.end(), std::uint64_t{0}, [](auto sum, const auto& b) { return sum + counted(b.second); });
}

caf::error failure_of(const disk_failure& f) {
  if (f.code == std::errc::no_such_file_or_directory)
    return fail(errc::not_found, f.text);
  if (f.code == std::errc::file_too_large)
    return fail(errc::invalid, f.text);
  return fail(f.is_full() ? errc::low_disk : errc::store_failed, f.text);
}

caf::error no_such(const std::string& id) { return fail(errc::not_found, concat({"no conversation ", escape_control(id, false)})); }

bool is_there(self_ptr self, const std::string& id) { return is_plain_name(id) && !self->state.forgotten.has(id); }

bool is_low_on_disk(self_ptr self) {
  if (const auto& free_bytes = self->state.links.free_disk_bytes)
    return free_bytes() < limits::disk_low_bytes();
  std::error_code unknown;
  const auto space = fs::space(self->state.node->facts.dir.root, unknown);
  return !unknown && space.available < limits::disk_low_bytes();
}

/// Opens it, which removes what uploads of an earlier run have left.
or_failure<place*> place_of(self_ptr self, const std::string& id) {
  auto& st = self->state;
  if (auto i = st.places.find(id); i != st.places.end())
    return &i->second;
  auto opened = blobs::open(system_disk(), blobs_directory(*st.node, id));
  if (!opened)
    return opened.failure();
  auto there = opened->list();
  if (!there)
    return there.failure();
  if (st.places.size() >= limits::conversation_blob_places_max)
    std::erase_if(st.places, [](const auto& p) { return p.second.uploads == 0; });
  place fresh{.all = *opened, .sizes = {}};
  for (auto& b : *there)
    fresh.sizes.emplace(std::move(b.what.sha256), b.what.bytes);
  return &st.places.emplace(id, std::move(fresh)).first->second;
}

/// Why so many bytes more have no room; nothing = they have.
std::optional<caf::error> no_room(const place& p, std::uint64_t bytes) {
  if (counted(p) + p.coming + counted(bytes) <= limits::conversation_blobs_bytes_max())
    return std::nullopt;
  return fail(errc::overloaded, "the attachments of this conversation have no room; what no prompt names goes after a day");
}

/// Notes that this blob is whole. An upload of the same bytes that is taken back later does not remove it.
void have(self_ptr self, const std::string& id, const blob& b) {
  auto& st = self->state;
  if (auto i = st.places.find(id); i != st.places.end())
    i->second.sizes[b.sha256] = b.bytes;
  std::erase_if(st.newest, [&](const auto& m) { return m.conversation == id && m.sha256 == b.sha256; });
}

caf::result<blob_kept_ptr> keep(self_ptr self, const blob_keeping& k) {
  if (!is_there(self, k.conversation_id))
    return no_such(k.conversation_id);
  if (is_low_on_disk(self))
    return fail(errc::low_disk);
  auto where = place_of(self, k.conversation_id);
  if (!where)
    return failure_of(where.failure());
  const bool stands = (*where)->sizes.count(to_hex(sha256(k.bytes))) > 0;
  if (auto full = no_room(**where, k.bytes.size()); full && !stands)
    return *full;
  auto writer = (*where)->all.write(limits::conversation_blob_bytes_max());
  if (!writer)
    return failure_of(writer.failure());
  if (auto failed = writer->add(k.bytes))
    return failure_of(*failed);
  auto made = writer->finish();
  if (!made)
    return failure_of(made.failure());
  have(self, k.conversation_id, *made);
  return std::make_shared<const blob_kept>(blob_kept{from_hex(made->sha256), made->bytes});
}

// -- in parts -------------------------------------------------------------------------------

void drop_upload(self_ptr self, const std::string& id) {
  auto& st = self->state;
  auto gone = st.uploads.extract(id);
  if (gone.empty())
    return;
  if (auto p = st.places.find(gone.mapped().conversation); p != st.places.end()) {
    p->second.coming -= gone.mapped().bytes;
    --p->second.uploads;
  }
}

std::optional<caf::error> begin_upload(self_ptr self, const blob_upload& u) {
  auto& st = self->state;
  if (!is_there(self, u.conversation_id))
    return no_such(u.conversation_id);
  if (st.uploads.size() >= limits::conversation_uploads_max)
    return fail(errc::overloaded, "too many attachments are on their way at once; try again");
  if (is_low_on_disk(self))
    return fail(errc::low_disk);
  auto where = place_of(self, u.conversation_id);
  if (!where)
    return failure_of(where.failure());
  auto writer = (*where)->all.write(limits::conversation_blob_bytes_max());
  if (!writer)
    return failure_of(writer.failure());
  ++(*where)->uploads;
  st.uploads.emplace(u.upload, conversation_blobs_state::upload{u.conversation_id, *std::move(writer)});
  return std::nullopt;
}

caf::result<blob_kept_ptr> end_upload(self_ptr self, const std::string& id) {
  auto& st = self->state;
  auto& up = st.uploads.at(id);
  const auto conversation = up.conversation;
  auto made = up.writer.finish();
  drop_upload(self, id);
  if (!made)
    return failure_of(made.failure());
  const auto p = st.places.find(conversation);
  const bool is_new = p != st.places.end() && p->second.sizes.count(made->sha256) == 0;
  have(self, conversation, *made);
  if (is_new)
    st.newest.push_back({id, conversation, made->sha256});
  if (st.newest.size() > limits::conversation_blobs_answered_max)
    st.newest.pop_front();
  return std::make_shared<const blob_kept>(blob_kept{from_hex(made->sha256), made->bytes});
}

caf::result<blob_kept_ptr> take_part(self_ptr self, const blob_upload& u) {
  auto& st = self->state;
  if (u.first)
    if (auto refused = begin_upload(self, u))
      return *refused;
  if (st.uploads.count(u.upload) == 0)
    return is_there(self, u.conversation_id) ? fail(errc::unavailable, "what came before is lost; send it again") : no_such(u.conversation_id);
  auto& up = st.uploads.at(u.upload);
  auto& where = st.places.at(up.conversation);
  auto refuse = [&](caf::error why) -> caf::result<blob_kept_ptr> {
    drop_upload(self, u.upload);
    return why;
  };
  if (auto full = no_room(where, u.data.size()))
    return refuse(*std::move(full));
  if (auto failed = up.writer.add(u.data))
    return refuse(failure_of(*failed));
  up.bytes += u.data.size();
  where.coming += u.data.size();
  return u.last ? end_upload(self, u.upload) : caf::result<blob_kept_ptr>{std::make_shared<const blob_kept>()};
}

/// Its caller has gone before it heard of the end.
void abort_upload(self_ptr self, const std::string& id) {
  auto& st = self->state;
  drop_upload(self, id);
  const auto made = std::find_if(st.newest.begin(), st.newest.end(), [&](const auto& m) { return m.upload == id; });
  if (made == st.newest.end())
    return;
  const auto gone = *made;
  st.newest.erase(made);
  take_blob(self, gone.conversation, gone.sha256);
}

// -- reading --------------------------------------------------------------------------------

caf::result<blob_page_ptr> read(self_ptr self, const blob_reading& r) {
  if (!is_there(self, r.conversation_id))
    return no_such(r.conversation_id);
  const auto all = blobs::at(system_disk(), blobs_directory(*self->state.node, r.conversation_id));
  const auto name = to_hex(r.digest);
  const auto total = r.offset == 0 ? all.check(name) : all.size(name);
  if (!total)
    return failure_of(total.failure());
  auto data = all.read(name, r.offset, std::min<std::uint64_t>(r.max_bytes, limits::conversation_frame_bytes_max));
  if (!data)
    return failure_of(data.failure());
  return std::make_shared<const blob_page>(blob_page{*std::move(data), *total});
}

} // namespace

fs::path blobs_directory(const node_environment& node, const std::string& id) { return conversations_of(node.facts.dir) / id / "blobs"; }

void take_blob(self_ptr self, const std::string& id, const std::string& sha256) {
  auto& st = self->state;
  if (auto failed = blobs::at(system_disk(), blobs_directory(*st.node, id)).remove(sha256))
    return log::warn({"conversation ", id, ": ", failed->text});
  if (auto p = st.places.find(id); p != st.places.end())
    p->second.sizes.erase(sha256);
}

void forget_conversation(self_ptr self, const std::string& id) {
  auto& st = self->state;
  if (!is_plain_name(id))
    return;
  st.forgotten.add(id);
  std::vector<std::string> broken_off;
  for (const auto& [upload, about] : st.uploads)
    if (about.conversation == id)
      broken_off.push_back(upload);
  for (const auto& upload : broken_off)
    drop_upload(self, upload);
  st.places.erase(id);
  self->request(st.links.logs, limits::call_deadline_default(), forget_atom_v, id)
    .then(
      [self, id] {
        const auto all = conversations_of(self->state.node->facts.dir);
        std::error_code ec;
        if (fs::remove_all(all / id, ec) > 0 && !ec)
          ec = system_disk().sync_directory(all);
        if (ec)
          log::warn({"conversation ", id, " is deleted, but its files are not yet: ", ec.message()});
      },
      [id](caf::error&) {
        log::warn({"conversation ", id, " is deleted, but its log cannot be closed; its files go with the next round"});
      });
}

conversation_blobs_actor::behavior_type conversation_blobs(self_ptr self, node_environment_ptr node, blobs_links links) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.node = std::move(node);
  st.links = std::move(links);
  self->send(self, tick_atom_v);
  return {
    [self](const blob_keeping_ptr& k) { return keep(self, *k); },
    [self](const blob_upload_ptr& u) { return take_part(self, *u); },
    [self](abort_atom, const std::string& upload) { abort_upload(self, upload); },
    [self](const blob_reading_ptr& r) { return read(self, *r); },
    [self](forget_atom, const std::string& id) { forget_conversation(self, id); },
    [self](tick_atom) {
      begin_round(self);
      self->delayed_send(self, limits::conversation_round_every, tick_atom_v);
    },
    [self](tree_atom) {
      const auto& s = self->state;
      return std::vector{runtime::self_row(self, "up", concat({s.uploads.size(), " uploads"}))};
    },
  };
}

} // namespace swarm
