#include "actors/store/reply_memory.hpp"

#include <algorithm>
#include <iterator>

#include <sqlite3.h>

#include "actors/base/limits.hpp"
#include "actors/domain/rows.hpp"
#include "actors/store/columns.hpp"

namespace swarm {

namespace {

constexpr std::int64_t sweep_pause_ms = 1'000;

std::uint64_t changes(sqlite::connection& db) { return static_cast<std::uint64_t>(sqlite3_changes64(db.handle())); }

} // namespace

reply_memory::reply_memory(sqlite::connection& db) : db_(db) {
  auto row = db_.prepared("SELECT principal, count(*) FROM replies GROUP BY principal").use();
  while (row.step())
    kept_.emplace(row.view_at(0), static_cast<std::uint64_t>(row.integer_at(1)));
}

reply_memory::client_state& reply_memory::client_of(const request_key& id) {
  auto name = domain::key(id.principal, id.client);
  if (auto known = clients_.find(name); known != clients_.end())
    return known->second;
  if (clients_.size() >= limits::reply_clients_known_max()) {
    write();
    clients_.clear();
  }
  client_state state;
  state.who = id;
  {
    auto row = db_.prepared("SELECT below FROM watermarks WHERE principal=?1 AND client=?2").use();
    row.text(id.principal).text(id.client);
    if (row.step())
      state.watermark = static_cast<std::uint64_t>(row.integer_at(0));
  }
  auto row = db_.prepared("SELECT max(seq) FROM replies WHERE principal=?1 AND client=?2").use();
  row.text(id.principal).text(id.client);
  if (row.step())
    state.highest = state.highest_written = static_cast<std::uint64_t>(row.integer_at(0));
  return clients_.emplace(std::move(name), std::move(state)).first->second;
}

std::optional<reply_memory::remembered> reply_memory::find(const request_key& id) {
  auto& client = client_of(id);
  if (id.seq > client.highest)
    return std::nullopt;
  auto parsed = [](std::string digest, std::string_view bytes) {
    remembered found{std::move(digest), {}};
    if (!found.reply.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      throw sqlite::error{SQLITE_MISMATCH, "a remembered reply is damaged"};
    return found;
  };
  if (auto fresh = client.unwritten.find(id.seq); fresh != client.unwritten.end())
    return parsed(fresh->second.digest, fresh->second.bytes);
  auto row = db_.prepared("SELECT digest, reply FROM replies WHERE principal=?1 AND client=?2 AND seq=?3").use();
  row.text(id.principal).text(id.client).integer(to_column(id.seq));
  if (!row.step())
    return std::nullopt;
  return parsed(std::string{row.view_at(0)}, row.view_at(1));
}

std::uint64_t reply_memory::watermark(const request_key& id) { return client_of(id).watermark; }

void reply_memory::remember(const request_key& id, const std::string& digest, const v1::Reply& reply, std::int64_t now_ms) {
  auto& client = client_of(id);
  client.unwritten.insert_or_assign(id.seq, new_reply{digest, reply.SerializeAsString(), reply.has_lock_waiting(), now_ms});
  client.highest = std::max(client.highest, id.seq);
  arrivals_.emplace_back(&client, id.seq);
  if (++kept_[id.principal] > limits::replies_per_principal_max())
    evict(id.principal, now_ms);
}

void reply_memory::resolve(const v1::ResolvedWait& wait) {
  request_key id{domain::principal_key(wait.principal()), wait.request().client(), wait.request().seq()};
  auto bytes = wait.reply().SerializeAsString();
  auto& client = client_of(id);
  if (auto fresh = client.unwritten.find(id.seq); fresh != client.unwritten.end()) {
    fresh->second.bytes = std::move(bytes);
    fresh->second.pending = false;
    return;
  }
  db_.prepared("UPDATE replies SET reply=?4, pending=0 WHERE principal=?1 AND client=?2 AND seq=?3")
    .use()
    .text(id.principal)
    .text(id.client)
    .integer(to_column(id.seq))
    .bytes(bytes)
    .run();
}

void reply_memory::insert(const client_state& client, std::uint64_t seq, const new_reply& reply) {
  db_.prepared("INSERT INTO replies(principal, client, seq, digest, reply, pending, at_ms) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)")
    .use()
    .text(client.who.principal)
    .text(client.who.client)
    .integer(to_column(seq))
    .bytes(reply.digest)
    .bytes(reply.bytes)
    .integer(reply.pending)
    .integer(reply.at_ms)
    .run();
}

void reply_memory::write() {
  for (const auto& [client, seq] : arrivals_) {
    auto fresh = client->unwritten.find(seq);
    if (fresh == client->unwritten.end())
      continue;
    insert(*client, seq, fresh->second);
    client->highest_written = std::max(client->highest_written, seq);
    client->unwritten.erase(fresh);
  }
  arrivals_.clear();
  for (auto* client : risen_) {
    db_
      .prepared("INSERT INTO watermarks(principal, client, below, at_ms) VALUES(?1, ?2, ?3, ?4) "
                "ON CONFLICT(principal, client) DO UPDATE SET below=max(below, excluded.below), at_ms=excluded.at_ms")
      .use()
      .text(client->who.principal)
      .text(client->who.client)
      .integer(to_column(client->watermark))
      .integer(*client->watermark_changed_ms)
      .run();
    client->watermark_changed_ms.reset();
  }
  risen_.clear();
}

void reply_memory::acknowledge(const request_key& id, std::uint64_t below, std::uint64_t watermark, std::int64_t now_ms) {
  // A request cannot acknowledge itself: its own reply may still be lost on the way.
  below = std::min(below, id.seq);
  if (below >= watermark + ack_stride)
    forget_below(id.principal, id.client, below, now_ms);
}

void reply_memory::sweep(std::int64_t now_ms) {
  // A clock that was set back must not stop it.
  if (now_ms < next_sweep_ms_ && next_sweep_ms_ - now_ms <= sweep_pause_ms)
    return;
  next_sweep_ms_ = now_ms + sweep_pause_ms;
  auto too_old = now_ms - limits::reply_retention().count();
  std::map<std::pair<std::string, std::string>, std::uint64_t> below;
  {
    // n counts up with time, so the walk ends at the first young row.
    auto row = db_.prepared("SELECT principal, client, seq, at_ms FROM replies ORDER BY n LIMIT ?1").use();
    row.integer(sweep_rows);
    while (row.step() && row.integer_at(3) < too_old) {
      auto& highest = below[{std::string{row.view_at(0)}, std::string{row.view_at(1)}}];
      highest = std::max(highest, static_cast<std::uint64_t>(row.integer_at(2)) + 1);
    }
  }
  for (const auto& [client, seq] : below)
    forget_below(client.first, client.second, seq, now_ms);
  if (!below.empty())
    next_sweep_ms_ = 0;
  write(); // the watermarks go into the transaction that forgets the replies
  db_
    .prepared("DELETE FROM watermarks WHERE (principal, client) IN (SELECT principal, client FROM watermarks WHERE at_ms<?1 ORDER BY at_ms LIMIT ?2)")
    .use()
    .integer(too_old)
    .integer(sweep_rows)
    .run();
  if (changes(db_) > 0) {
    next_sweep_ms_ = 0;
    clients_.clear();
  }
}

// A client that waits in line for a lock keeps all of its ids: if it asks again for its place, the answer must not be that it is too late.
// Several at once: finding the oldest means looking at all of the principal's ids, which this spreads over as many commands.
void reply_memory::evict(const std::string& principal, std::int64_t now_ms) {
  write();
  std::map<std::string, std::uint64_t> below;
  {
    auto row = db_
                 .prepared("SELECT n, client, seq FROM replies r WHERE principal=?1 AND NOT EXISTS (SELECT 1 FROM replies p "
                           "WHERE p.principal=r.principal AND p.client=r.client AND p.pending=1) ORDER BY n LIMIT ?2")
                 .use();
    row.text(principal).integer(evicted_at_once);
    while (row.step()) {
      auto& highest = below[std::string{row.view_at(1)}];
      highest = std::max(highest, static_cast<std::uint64_t>(row.integer_at(2)) + 1);
    }
  }
  for (const auto& [client, seq] : below)
    forget_below(principal, client, seq, now_ms);
}

void reply_memory::forget_below(const std::string& principal, const std::string& client, std::uint64_t below, std::int64_t now_ms) {
  auto& known = client_of({principal, client, below});
  auto kept = known.unwritten.lower_bound(below);
  auto gone = static_cast<std::uint64_t>(std::distance(known.unwritten.begin(), kept));
  known.unwritten.erase(known.unwritten.begin(), kept);
  if (known.highest_written != 0) {
    db_.prepared("DELETE FROM replies WHERE principal=?1 AND client=?2 AND seq<?3")
      .use()
      .text(principal)
      .text(client)
      .integer(to_column(below))
      .run();
    gone += changes(db_);
    if (known.highest_written < below)
      known.highest_written = 0;
  }
  forgot(principal, gone);
  known.watermark = std::max(known.watermark, below);
  if (!std::exchange(known.watermark_changed_ms, now_ms))
    risen_.push_back(&known);
}

void reply_memory::forgot(const std::string& principal, std::uint64_t rows) {
  auto kept = kept_.find(principal);
  if (kept == kept_.end())
    return;
  kept->second -= std::min(kept->second, rows);
  if (kept->second == 0)
    kept_.erase(kept);
}

} // namespace swarm
