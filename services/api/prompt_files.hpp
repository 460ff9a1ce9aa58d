// What goes with a prompt has to be kept here before the prompt is taken.
#pragma once

#include <memory>
#include <utility>

#include "actors/base/text.hpp"
#include "actors/domain/refusal.hpp"
#include "services/api/conversation_call.hpp"

namespace swarm {

inline bool has_files(const v1::Command& c) { return c.has_send_prompt() && c.send_prompt().attachments_size() > 0; }

/// Looks at the n-th attachment and those behind it.
template <class Self, class Next, class Refuse>
void look_at_files(Self* self, const std::shared_ptr<service_environment>& service, const call_ptr& c, int n, Next next, Refuse refuse) {
  const auto& prompt = c->what->command.send_prompt();
  auto all = service->board->get().conversation_blobs;
  if (n == prompt.attachments_size() || !all)
    return next();
  constexpr std::uint64_t behind_begin = 1; // only its size is looked at
  auto r = std::make_shared<blob_reading>(blob_reading{prompt.conversation_id(), prompt.attachments(n).digest(), behind_begin, 0});
  ask(self, all, blob_reading_ptr{r})
    .then([=](const blob_page_ptr&) { look_at_files(self, service, c, n + 1, next, refuse); },
          [=](caf::error& e) {
            if (e != errc::not_found)
              return next(); // the node sees what is wrong when it gives the prompt to the agent
            const auto& name = c->what->command.send_prompt().attachments(n).name();
            refuse(domain::refusal(
              v1::Refusal::NOT_FOUND,
              concat({"The conversation has no attachment ", name.empty() ? std::string{"of this digest"} : name,
                      ". Hand it over once more, for instance with swarmctl chat send --file; what no prompt names goes after a day"}),
              c->what->command.send_prompt().conversation_id()));
          });
}

/// Runs `next()` when all that goes with the prompt is kept here, `refuse(refusal)` when something is not. Of a conversation that the caller does not
/// see nothing is told: it is the store's to refuse.
template <class Self, class Next, class Refuse>
void with_files(Self* self, const std::shared_ptr<service_environment>& service, const call_ptr& c, Next next, Refuse refuse) {
  const auto& command = c->what->command;
  if (!has_files(command))
    return next();
  with_conversation(
    self, service, command.principal(), command.scope(), command.send_prompt().conversation_id(),
    [=](const v1::Conversation&) { look_at_files(self, service, c, 0, next, refuse); }, [next](const grpc::Status&) { next(); });
}

} // namespace swarm
