// Row bodies as they lie in the file: what can be decoded has one key, survives being written again, is found under that key and
// gone when erased; its order among others is an order.
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

template <class Row>
void check(const std::string& one, const std::string& other) {
  using table = domain::table<Row>;
  Row a, b;
  if (!a.ParseFromString(one))
    return;
  v1::RowPatch patch;
  *table::mutable_in(patch) = a;
  v1::RowPatch read;
  SWARM_HOLDS(read.ParseFromString(patch.SerializeAsString()));
  SWARM_HOLDS(table::mutable_in(read)->SerializeAsString() == a.SerializeAsString());
  auto key = table::key(a);
  SWARM_HOLDS(table::key(*table::mutable_in(read)) == key);

  test::memory_rows rows;
  v1::Batch batch;
  batch.set_scope("s");
  *batch.add_patches() = patch;
  rows.apply(batch);
  auto found = rows.row<Row>(key);
  SWARM_HOLDS(found && found->SerializeAsString() == a.SerializeAsString());
  typename table::filter all{};
  SWARM_HOLDS(table::matches(all, a));
  SWARM_HOLDS(rows.rows<Row>(all).size() == 1);
  SWARM_HOLDS(!table::before(all, a, a));
  if (b.ParseFromString(other)) {
    SWARM_HOLDS(!(table::before(all, a, b) && table::before(all, b, a)));
    rows.put(b);
    SWARM_HOLDS(rows.total<Row>(all) == (table::key(b) == key ? 1u : 2u));
  }
  if (table::erased == v1::Erased::TABLE_UNSPECIFIED)
    return;
  v1::Batch removal;
  removal.set_scope("s");
  auto* e = removal.add_patches()->mutable_erased();
  e->set_table(table::erased);
  e->set_key(key);
  rows.apply(removal);
  SWARM_HOLDS(!rows.row<Row>(key));
}

#define ONE_MORE(...) +1
constexpr std::size_t rows_known = SWARM_ROWS(ONE_MORE);

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  auto which = in.byte();
  auto one = in.piece();
  auto other = in.rest();
  std::size_t row = 0;
#define CHECK_ROW(message, ...)                                                                                                                      \
  if (which % rows_known == row++)                                                                                                                   \
    check<v1::message>(one, other);
  SWARM_ROWS(CHECK_ROW)
  return 0;
}
