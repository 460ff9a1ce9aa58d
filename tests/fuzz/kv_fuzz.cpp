// Appending JSON to whatever a key holds: refused, or the value is an array with everything that was there and the new element.
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;
using domain::json;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  test::domain_world world;
  auto before = in.piece();
  if (!before.empty()) {
    auto set = world.command();
    set.mutable_set_kv()->set_key("k");
    set.mutable_set_kv()->set_value(before);
    world.run(set);
  }
  auto value = [&] {
    auto e = world.rows.row<v1::KvEntry>(domain::key("s", "k"));
    return e ? e->value() : std::string{};
  };
  for (int n = 0; n < 3 && !in.empty(); ++n) {
    auto text = in.piece();
    auto had = value();
    auto append = world.command();
    append.mutable_append_kv()->set_key("k");
    append.mutable_append_kv()->set_json(text);
    auto reply = world.reply(append);
    if (reply.has_refusal()) {
      SWARM_HOLDS(value() == had);
      continue;
    }
    SWARM_HOLDS(json::accept(text));
    auto now = json::parse(value(), nullptr, false);
    SWARM_HOLDS(now.is_array() && !now.empty());
    SWARM_HOLDS(reply.kv_written().items() == now.size());
    // A second append: what had become an array stays one and grows by one.
    auto again = world.reply(append);
    if (!again.has_refusal()) {
      auto grown = json::parse(value(), nullptr, false);
      SWARM_HOLDS(grown.is_array() && grown.size() == now.size() + 1);
      SWARM_HOLDS(again.kv_written().items() == grown.size());
      for (std::size_t i = 0; i < now.size(); ++i)
        SWARM_HOLDS(grown[i].dump(-1, ' ', false, json::error_handler_t::replace) == now[i].dump(-1, ' ', false, json::error_handler_t::replace));
    }
  }
  return 0;
}
