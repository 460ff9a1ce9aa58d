#include "actors/store/writer.hpp"

#include <iterator>
#include <string>
#include <utility>

#include <caf/send.hpp>

#include "actors/base/log.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/scheduling.hpp"
#include "actors/runtime/tree.hpp"

namespace swarm {

namespace {

using self_pointer = writer_actor::stateful_pointer<writer_state>;

/// Whatever came in by now is decided together; the rest of a longer line goes into the next transaction.
std::vector<writer_state::waiting> take_batch(std::vector<writer_state::waiting>& line) {
  if (line.size() <= limits::writer_batch_commands_max())
    return std::exchange(line, {});
  auto cut = line.begin() + static_cast<std::ptrdiff_t>(limits::writer_batch_commands_max());
  std::vector<writer_state::waiting> first{std::make_move_iterator(line.begin()), std::make_move_iterator(cut)};
  line.erase(line.begin(), cut);
  return first;
}

void answer(writer_state::waiting& w, const outcome& o) {
  if (o.error)
    w.caller.answer(fail(*o.error));
  else
    w.caller.answer(o.reply);
}

/// Watchers hear of a commit before its callers are answered, so that no caller is ahead of them.
void publish(const commit_sink_actor& sink, const commit_ptr& committed) {
  if (sink && committed)
    caf::anon_send(sink, committed);
}

/// Runs what may fail with the file; then this actor ends and another opens the store.
template <class Work>
void guarded(self_pointer self, Work work) {
  runtime::before_blocking();
  try {
    work();
  } catch (const store_error& e) {
    log::error({"the store failed and is opened again: ", e.what()});
    self->quit(fail(errc::store_failed, e.what()));
  }
}

void flush(self_pointer self, const commit_sink_actor& sink) {
  auto& st = self->state;
  if (st.batch.empty())
    return;
  auto batch = take_batch(st.batch);
  if (!st.batch.empty())
    caf::anon_send(writer_actor{self}, flush_atom_v);
  std::vector<execution_ptr> commands;
  commands.reserve(batch.size());
  for (const auto& w : batch)
    commands.push_back(w.command);
  guarded(self, [&] {
    auto done = st.book->execute_all(commands);
    publish(sink, done.committed);
    for (std::size_t i = 0; i < batch.size(); ++i)
      answer(batch[i], done.outcomes[i]);
    if (st.book->far_behind()) {
      runtime::before_blocking(); // the answers must not wait behind it
      st.book->catch_up();
    } else if (st.book->behind() && !std::exchange(st.timer_armed, true))
      self->delayed_send(self, limits::writer_window, tick_atom_v);
  });
}

} // namespace

writer_actor::behavior_type writer(self_pointer self, writer_options options) {
  runtime::install_defaults(self);
  runtime::before_blocking();
  try {
    self->state.book = std::make_unique<ledger>(options.path, std::move(options.ledger));
  } catch (const store_error& e) {
    log::error({"cannot open the store: ", e.what()});
    self->quit(fail(e.code(), e.what()));
    return writer_actor::behavior_type::make_empty_behavior();
  }
  return {
    [self](const execution_ptr& command) -> caf::result<reply_ptr> {
      auto& line = self->state.batch;
      if (!command)
        return fail(errc::invalid, "an execution without a command");
      if (line.size() >= limits::writer_line_commands_max())
        return fail(errc::overloaded);
      // Only now: once a promise is made, an error returned from here would reach nobody.
      auto promise = self->make_response_promise<reply_ptr>();
      line.push_back({command, runtime::parked<reply_ptr>{promise, errc::unknown_outcome}});
      // No timer: what is already in the mailbox comes before this flush and joins the transaction.
      if (line.size() == 1)
        caf::anon_send(writer_actor{self}, flush_atom_v);
      return promise;
    },
    [self, sink = options.sink](flush_atom) { flush(self, sink); },
    [self](catch_up_atom) -> caf::result<bool> {
      auto done = false;
      guarded(self, [&] {
        self->state.book->catch_up();
        done = true;
      });
      return done ? caf::result<bool>{true} : caf::result<bool>{fail(errc::store_failed)};
    },
    [self](tick_atom) {
      self->state.timer_armed = false;
      guarded(self, [&] { self->state.book->catch_up(); });
    },
    [self](status_atom) -> store_status_ptr { return std::make_shared<const store_status>(self->state.book->status()); },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up", std::to_string(self->state.batch.size()) + " commands in line")}; },
  };
}

} // namespace swarm
