#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::domain {

namespace {

std::string owner_of(const v1::Command& cmd) { return cmd.actor().empty() ? principal_key(cmd.principal()) : "session/" + cmd.actor(); }

std::optional<v1::Subscription> mine(const transaction& tx, const std::string& name) {
  return tx.get<v1::Subscription>(key(tx.scope(), owner_of(tx.command()), name));
}

v1::Reply subscription_reply(v1::Subscription s) {
  v1::Reply reply;
  *reply.mutable_subscription() = std::move(s);
  return reply;
}

std::uint64_t first_cursor(const transaction& tx, bool from_start) {
  auto oldest = tx.base().oldest_event(tx.scope());
  return from_start && oldest != 0 ? oldest - 1 : tx.revision();
}

} // namespace

v1::Reply subscribe(transaction& tx, const v1::Subscribe& s) {
  auto row = mine(tx, s.name());
  if (!row) {
    auto owner = owner_of(tx.command());
    if (tx.count<v1::Subscription>({.scope = tx.scope(), .owner = owner}) >= limits::subscriptions_per_principal_max())
      return refuse(v1::Refusal::LIMIT,
                    "You have " + std::to_string(limits::subscriptions_per_principal_max()) + " subscriptions in this scope. Remove one first.",
                    s.name());
    row.emplace();
    row->set_scope(tx.scope());
    row->set_owner(owner);
    row->set_name(s.name());
    row->set_cursor(first_cursor(tx, s.from_start()));
  }
  *row->mutable_types() = s.types();
  row->set_updated_at_ms(tx.in().now_ms);
  tx.put(*row);
  return subscription_reply(std::move(*row));
}

v1::Reply ack_subscription(transaction& tx, const v1::AckSubscription& a) {
  auto row = mine(tx, a.name());
  if (!row)
    return refuse(v1::Refusal::NOT_FOUND, "There is no subscription " + a.name() + ". Subscribe again; the position is lost.", a.name());
  if (a.cursor() > tx.revision())
    return refuse(v1::Refusal::INVALID, "The position lies beyond the newest event", a.name());
  row->set_cursor(std::max(row->cursor(), a.cursor()));
  row->set_updated_at_ms(tx.in().now_ms);
  tx.put(*row);
  return subscription_reply(std::move(*row));
}

v1::Reply unsubscribe(transaction& tx, const v1::Unsubscribe& u) {
  auto row = mine(tx, u.name());
  if (row)
    tx.erase(*row);
  v1::Reply reply;
  reply.mutable_done()->set_nothing_there(!row);
  return reply;
}

} // namespace swarm::domain
