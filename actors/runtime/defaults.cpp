#include "actors/runtime/defaults.hpp"

#include <exception>
#include <string>

#include <caf/actor_system.hpp>
#include <caf/message_view.hpp>
#include <caf/result.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/sec.hpp>
#include <caf/type_erased_tuple.hpp>

#include "actors/base/log.hpp"
#include "actors/runtime/error.hpp"

namespace swarm::runtime {

namespace {

std::string text_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "something that is no std::exception";
  }
}

// Types only: the values may be secrets.
std::string types_of(const caf::scheduled_actor& self, const caf::type_erased_tuple& content) {
  std::string out;
  for (std::size_t i = 0; i < content.size(); ++i) {
    out += i == 0 ? "" : ", ";
    out += self.home_system().types().portable_name(content.type(i));
  }
  return out;
}

} // namespace

void install_defaults(caf::scheduled_actor* self) {
  self->set_default_handler([](caf::scheduled_actor* me, caf::message_view& msg) -> caf::result<caf::message> {
    log::warn({me->name(), "#", me->id(), " does not understand (", types_of(*me, msg.content()), ")"});
    return caf::sec::unexpected_message;
  });
  self->set_down_handler([](caf::scheduled_actor* me, caf::down_msg& down) {
    log::warn({me->name(), "#", me->id(), " ignores the death of ", to_string(down.source), ": ", to_string(down.reason)});
  });
  self->set_error_handler([](caf::scheduled_actor* me, caf::error& stray) {
    log::error({me->name(), "#", me->id(), " got an error nobody waits for: ", to_string(stray)});
  });
  self->set_exception_handler([](caf::scheduled_actor* me, std::exception_ptr& thrown) -> caf::error {
    auto text = text_of(thrown);
    log::error({me->name(), "#", me->id(), " died: ", text});
    return fail(errc::unavailable, std::move(text));
  });
}

} // namespace swarm::runtime
