#include "actors/store/apply.hpp"

#include <algorithm>
#include <type_traits>

#include <sqlite3.h>

#include "actors/store/columns.hpp"

namespace swarm {

namespace {

template <class Row>
std::string upsert_sql() {
  std::string names = "key", values = "?1", updates;
  auto n = 1;
  auto add = [&](const char* name) {
    names += std::string{", "} + name;
    values += ", ?" + std::to_string(++n);
    updates += std::string{updates.empty() ? "" : ", "} + name + "=excluded." + name;
  };
  for (const auto* name : columns<Row>::names)
    add(name);
  add("body");
  return std::string{"INSERT INTO "} + columns<Row>::table + "(" + names + ") VALUES(" + values + ") ON CONFLICT(key) DO UPDATE SET " + updates;
}

template <class Row>
void put(sqlite::connection& db, const Row& row) {
  static const auto sql = upsert_sql<Row>();
  auto key = domain::table<Row>::key(row);
  auto body = row.SerializeAsString();
  auto write = db.prepared(sql).use();
  write.bytes(key);
  columns<Row>::bind(write, row);
  write.bytes(body);
  write.run();
}

void drop_dependencies(sqlite::connection& db, std::string_view task) {
  db.prepared("DELETE FROM task_dependencies WHERE task=?1").use().bytes(task).run();
}

/// The side table follows the row. Dependencies are fixed when a task is made, so the usual update changes nothing here.
void put_dependencies(sqlite::connection& db, const v1::Task& row) {
  auto key = domain::table<v1::Task>::key(row);
  drop_dependencies(db, key);
  for (const auto& dependency : row.depends_on())
    db.prepared("INSERT OR IGNORE INTO task_dependencies(dependency, task) VALUES(?1, ?2)").use().text(dependency).bytes(key).run();
}

void erase(sqlite::connection& db, const v1::Erased& erased) {
  const char* name = nullptr;
  domain::all_rows::each([&]<class Row>() {
    if (domain::table<Row>::erased == erased.table())
      name = columns<Row>::table;
  });
  if (!name || erased.table() == v1::Erased::TABLE_UNSPECIFIED)
    throw sqlite::error{SQLITE_MISMATCH, "a batch erases from an unknown table: " + std::to_string(erased.table())};
  db.prepared(std::string{"DELETE FROM "} + name + " WHERE key=?1").use().bytes(erased.key()).run();
  if (erased.table() == v1::Erased::TASKS)
    drop_dependencies(db, erased.key());
}

void put(sqlite::connection& db, const v1::RowPatch& patch) {
  auto known = patch.has_erased();
  domain::all_rows::each([&]<class Row>() {
    const auto* row = domain::table<Row>::in(patch);
    if (!row)
      return;
    known = true;
    put(db, *row);
    if constexpr (std::is_same_v<Row, v1::Task>)
      put_dependencies(db, *row);
  });
  if (!known)
    throw sqlite::error{SQLITE_MISMATCH, "a batch holds a patch of an unknown kind"};
}

void append(sqlite::connection& db, const v1::Event& event) {
  auto body = event.SerializeAsString();
  db.prepared("INSERT INTO events(scope, revision, at_ms, type, subject, body) VALUES(?1, ?2, ?3, ?4, ?5, ?6)")
    .use()
    .text(event.scope())
    .integer(to_column(event.revision()))
    .integer(event.at_ms())
    .text(event.type())
    .text(event.subject())
    .bytes(body)
    .run();
}

} // namespace

template <class Row>
void write_row(sqlite::connection& db, const std::string& key, const Row& row, const std::optional<Row>& before) {
  if (!before) {
    put(db, row);
    if constexpr (std::is_same_v<Row, v1::Task>)
      put_dependencies(db, row);
    return;
  }
  column_values now, then;
  columns<Row>::bind(now, row);
  columns<Row>::bind(then, *before);
  auto sql = std::string{"UPDATE "} + columns<Row>::table + " SET ";
  auto n = 0;
  for (std::size_t i = 0; i < now.values.size(); ++i)
    if (now.values[i] != then.values[i])
      sql.append(columns<Row>::names[i]).append("=?").append(std::to_string(++n)).append(", ");
  sql.append("body=?").append(std::to_string(n + 1)).append(" WHERE key=?").append(std::to_string(n + 2));
  auto body = row.SerializeAsString();
  auto write = db.prepared(sql).use();
  for (std::size_t i = 0; i < now.values.size(); ++i)
    if (now.values[i] != then.values[i])
      write.bind(now.values[i]);
  write.bytes(body).bytes(key).run();
  if constexpr (std::is_same_v<Row, v1::Task>)
    if (!std::equal(row.depends_on().begin(), row.depends_on().end(), before->depends_on().begin(), before->depends_on().end()))
      put_dependencies(db, row);
}

template <class Row>
void erase_row(sqlite::connection& db, const std::string& key) {
  db.prepared(std::string{"DELETE FROM "} + columns<Row>::table + " WHERE key=?1").use().bytes(key).run();
  if constexpr (std::is_same_v<Row, v1::Task>)
    drop_dependencies(db, key);
}

#define SWARM_INSTANCE(row_type, ...)                                                                                                                \
  template void write_row(sqlite::connection&, const std::string&, const v1::row_type&, const std::optional<v1::row_type>&);                         \
  template void erase_row<v1::row_type>(sqlite::connection&, const std::string&);
SWARM_ROWS(SWARM_INSTANCE)
#undef SWARM_INSTANCE

void apply_events(sqlite::connection& db, const v1::Batch& batch) {
  for (const auto& event : batch.events())
    append(db, event);
  if (batch.delete_events_below() != 0)
    db.prepared("DELETE FROM events WHERE scope=?1 AND revision<?2").use().text(batch.scope()).integer(to_column(batch.delete_events_below())).run();
}

void apply(sqlite::connection& db, const v1::Batch& batch) {
  // Erasures first: a unique value may move from an erased row to a new one, and a batch names each row once.
  for (const auto& patch : batch.patches())
    if (patch.has_erased())
      erase(db, patch.erased());
  for (const auto& patch : batch.patches())
    put(db, patch);
  apply_events(db, batch);
}

} // namespace swarm
