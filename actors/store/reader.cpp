#include "actors/store/reader.hpp"

#include <functional>
#include <utility>
#include <variant>

#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/domain/decide.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/parked.hpp"
#include "actors/runtime/tree.hpp"
#include "actors/store/backup.hpp"
#include "actors/store/schema.hpp"

namespace swarm {

namespace {

using self_pointer = reader_actor::stateful_pointer<reader_state>;

/// Ends the read transaction on every path, so that no snapshot holds the log back.
class read_transaction {
public:
  explicit read_transaction(sqlite::connection& db) : db_(db) { db_.repeat("BEGIN"); }
  ~read_transaction() {
    try {
      db_.repeat("ROLLBACK");
    } catch (const std::exception& e) {
      log::warn({"a read transaction did not end: ", e.what()});
    }
  }
  read_transaction(const read_transaction&) = delete;
  read_transaction& operator=(const read_transaction&) = delete;

private:
  sqlite::connection& db_;
};

v1::Answer answer(reader_state& st, const v1::Query& query, const domain::inputs& in) {
  read_transaction snapshot{*st.db};
  return domain::answer(query, *st.rows, in);
}

void add_names(std::set<std::string>& digests, const domain::rows_view& rows, const v1::Conversation& c) {
  domain::prompt_filter f{.scope = c.scope(), .conversation_id = c.id(), .limit = limits::prompts_page_rows};
  for (auto page = rows.rows<v1::Prompt>(f); !page.empty(); page = rows.rows<v1::Prompt>(f)) {
    for (const auto& p : page)
      for (const auto& a : p.attachments())
        digests.insert(a.digest());
    f.after_number = page.back().number();
  }
  for (const auto& a : rows.rows<v1::Approval>({.scope = c.scope(), .conversation_id = c.id()}))
    if (a.body_bytes() > 0)
      digests.insert(a.action_digest());
}

kept_conversations_ptr kept(const domain::rows_view& rows, const kept_question& q) {
  auto out = std::make_shared<std::map<std::string, kept_conversation>>();
  for (const auto& id : q.conversations)
    if (const auto row = rows.row<v1::Conversation>(domain::key(id)))
      (*out)[id].log_end = row->log_end();
  for (const auto& id : q.with_blobs)
    if (const auto row = rows.row<v1::Conversation>(domain::key(id)))
      add_names((*out)[id].blobs, rows, *row);
  return out;
}

/// A statement's own error is this caller's; a failed file ends the reader.
template <class T>
std::variant<T, caf::error> guarded(self_pointer self, const std::function<T()>& work) {
  try {
    return work();
  } catch (const sqlite::io_failure& e) {
    self->quit(fail(errc::store_failed, e.what()));
    return fail(errc::store_failed, e.what());
  } catch (const store_error& e) {
    return fail(e.code(), e.what());
  } catch (const std::exception& e) {
    return fail(errc::store_failed, e.what());
  }
}

/// Does the work when everything that was answered before now is in the database.
template <class T>
caf::result<T> up_to_date(self_pointer self, const reader_options& options, std::function<T()> work) {
  if (!options.barrier || options.barrier->open())
    return std::visit([](auto done) { return caf::result<T>{std::move(done)}; }, guarded<T>(self, work));
  auto promise = self->make_response_promise<T>();
  auto caller = std::make_shared<runtime::parked<T>>(promise);
  self
    ->request(options.writer, caf::infinite, catch_up_atom_v) // lint: edge deadline
    .then([self, caller, work](bool) { std::visit([&](auto done) { caller->answer(std::move(done)); }, guarded<T>(self, work)); },
          [caller](caf::error& e) { caller->answer(std::move(e)); });
  return promise;
}

void open(reader_state& st, const reader_options& options) {
  st.db = std::make_unique<sqlite::connection>(
    options.path, sqlite::open_options{.query_only = true, .create = false, .vfs = {}, .cache_kib = limits::reader_cache_bytes / limits::kib});
  require_schema(*st.db);
  st.rows = std::make_unique<sqlite_rows>(*st.db);
}

} // namespace

reader_actor::behavior_type reader(self_pointer self, reader_options options) {
  runtime::install_defaults(self);
  try {
    open(self->state, options);
  } catch (const store_error& e) {
    self->quit(fail(e.code(), e.what()));
    return reader_actor::behavior_type::make_empty_behavior();
  } catch (const sqlite::error& e) {
    self->quit(fail(errc::store_failed, e.what()));
    return reader_actor::behavior_type::make_empty_behavior();
  }
  return {
    [self, options](const query_ptr& query) {
      return up_to_date<answer_ptr>(self, options, [self, options, query] {
        domain::inputs in;
        in.now_ms = options.clock->unix_ms();
        in.node_id = options.node_id;
        in.user_identity = options.user_identity;
        in.grace_until_ms = options.grace_until_ms;
        return std::make_shared<const v1::Answer>(answer(self->state, *query, in));
      });
    },
    [self, options](backup_atom, const std::string& path) {
      return up_to_date<std::uint64_t>(self, options, [self, path] { return backup_to(*self->state.db, path); });
    },
    [self, options](check_atom, bool full) {
      return up_to_date<std::string>(self, options, [self, full] { return check_integrity(*self->state.db, full); });
    },
    [self, options](places_atom, const std::string& scope) {
      return up_to_date<lock_places_ptr>(self, options, [self, scope] {
        read_transaction snapshot{*self->state.db};
        return std::make_shared<const std::vector<v1::LockWaiter>>(
          self->state.rows->rows<v1::LockWaiter>({.scope = scope, .limit = limits::sweep_rows_max}));
      });
    },
    [self, options](const kept_question_ptr& q) {
      return up_to_date<kept_conversations_ptr>(self, options, [self, q] {
        read_transaction snapshot{*self->state.db};
        return kept(*self->state.rows, *q);
      });
    },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up")}; },
  };
}

} // namespace swarm
