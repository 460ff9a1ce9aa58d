#include <algorithm>

#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/typing.hpp"
#include "services/api/pty_service.hpp"
#include "services/call/admitted_call.hpp"
#include "services/call/asked_again.hpp"
#include "services/call/deadline.hpp"
#include "services/call/requests.hpp"

namespace swarm {

void with_terminal(caf::event_based_actor* self, const service_environment& service, const std::string& id, const v1::Principal& who,
                   std::function<void(pty_actor)> next, std::function<void(grpc::Status)> refuse) {
  auto processes = service.board->get().processes;
  if (!processes)
    return refuse(to_status(errc::unavailable));
  auto elsewhere = [self, service, federation = service.board->get().federation, id, who, next, refuse](caf::error& e) {
    if (e != errc::not_found || !federation || !service.node->cluster || service.node->cluster->view().cluster_id().empty())
      return refuse(to_status(e));
    ask(self, federation, pty_atom_v, id, std::make_shared<const v1::Principal>(who))
      .then([next](const pty_actor& p) { next(p); }, [refuse](caf::error& x) { refuse(to_status(x)); });
  };
  ask(self, processes, pty_atom_v, id).then([next](const pty_actor& p) { next(p); }, elsewhere);
}

grpc::Status may_use_terminal(const v1::Principal& p, domain::operation what, const v1::PtyInfo& info) {
  if (auto why = domain::refused_use(p, info, what))
    return {grpc::StatusCode::PERMISSION_DENIED, *why};
  return grpc::Status::OK;
}

namespace {

template <class Reply>
void answer_info(unary_ptr answer, Reply* rep, const pty_info_ptr& info) {
  *rep = *info;
  answer->finish(grpc::Status::OK);
}

/// Whether a task that the terminal's session has in progress was claimed under this fence.
void ask_fence(caf::event_based_actor* self, const service_environment& service, const pty_info_ptr& info, std::uint64_t fence,
               const std::string& page, std::function<void(bool)> next, std::function<void(grpc::Status)> refuse) {
  auto front = service.board->get().front;
  if (!front)
    return refuse(to_status(errc::unavailable));
  if (info->session_id().empty())
    return next(false);
  auto q = internal_query(*service.node, info->scope(), [&](v1::Query& x) {
    auto* l = x.mutable_list_tasks();
    l->add_statuses(v1::IN_PROGRESS);
    l->set_assignee(info->session_id());
    l->mutable_page()->set_token(page);
  });
  ask(self, front, q)
    .then(
      [=](const answer_ptr& a) {
        for (const auto& t : a->tasks().tasks())
          if (t.fence() == fence)
            return next(true);
        if (auto more = a->tasks().page().token(); !more.empty())
          return ask_fence(self, service, info, fence, more, next, refuse);
        next(false);
      },
      [refuse](caf::error& e) { refuse(to_status(e)); });
}

/// Runs `act(terminal)` for a caller who may do that with it.
template <class Request, class Act>
grpc::ServerUnaryReactor* on_terminal(const service_environment& service, grpc::CallbackServerContext* ctx, domain::operation what,
                                      const Request& req, Act act, bool lasts = false) {
  return when_admitted(service, *ctx, what, wrong_with(req), [&](admitted in) {
    return run_unary(service.system, in.slot,
                     [service, who = in.who, what, lasts, id = req.pty_id(), act](caf::event_based_actor* self, unary_ptr answer) {
                       std::function<void(grpc::Status)> refuse = [answer](grpc::Status s) { answer->finish(std::move(s)); };
                       const auto unknown = lasts ? std::function<void(grpc::Status)>{asked_again(self, refuse)} : refuse;
                       with_principal(
                         self, service, who,
                         [=](const v1::Principal& principal) {
                           with_terminal(
                             self, service, id, principal,
                             [=](pty_actor terminal) {
                               ask(self, terminal, status_atom_v)
                                 .then(
                                   [=](const pty_info_ptr& info) {
                                     if (auto s = may_use_terminal(principal, what, *info); !s.ok())
                                       return refuse(note(service, who, principal, s));
                                     act(self, terminal, info, principal, answer);
                                   },
                                   [refuse](caf::error& e) { refuse(to_status(e)); });
                             },
                             refuse);
                         },
                         unknown);
                     });
  });
}

std::string reason_of(const v1::Event& e) {
  const auto said = domain::parse_json(e.payload());
  if (!said || !said->is_object())
    return "no reason is known";
  const auto detail = domain::text_in(*said, "detail");
  return detail.empty() ? domain::text_in(*said, "reason") : detail;
}

/// Follows the spawn's events until its program runs, then gives its terminal to `started`.
void await_running(caf::event_based_actor* self, const service_environment& service, std::string scope, std::string id, const v1::Principal& who,
                   std::uint64_t after, unary_ptr answer, std::function<void(const pty_info_ptr&)> started) {
  auto poll = std::make_shared<watch_poll>();
  poll->scope = scope;
  poll->after = after;
  poll->types = {"spawn."};
  poll->subject = id;
  poll_events(
    self, service, poll,
    [=](const watch_page_ptr& page) {
      if (page->too_old)
        return answer->finish(to_status(errc::unavailable, "the start of the program is long ago; `swarmctl pty list` shows it"));
      for (const auto& e : page->events) {
        if (e.type() == "spawn.failed" || (e.type() == "spawn.ended" && e.payload().find("spawn_failed") != std::string::npos))
          return answer->finish({grpc::StatusCode::FAILED_PRECONDITION, "the program could not be started: " + reason_of(e)});
        if (e.type() == "spawn.running" || e.type() == "spawn.ended")
          return with_terminal(
            self, service, id, who,
            [=](pty_actor terminal) {
              ask(self, terminal, status_atom_v)
                .then([=](const pty_info_ptr& i) { started(i); }, [=](caf::error& err) { answer->finish(to_status(err)); });
            },
            [=](grpc::Status s) { answer->finish(std::move(s)); });
      }
      await_running(self, service, scope, id, who, page->revision, answer, started);
    },
    [=](grpc::Status e) { answer->finish(std::move(e)); });
}

/// Those the caller may use, in order of id; a page token is the last id shown.
void fill_page(v1::PtyList& out, const std::vector<pty_info_ptr>& all, const v1::Principal& who, const v1::Page& page) {
  auto size = page.size() == 0 ? limits::page_rows_max : std::min<std::size_t>(page.size(), limits::page_rows_max);
  for (const auto& p : all) {
    if (p->id() <= page.token() || !may_use_terminal(who, domain::operation::pty_read, *p).ok())
      continue;
    if (static_cast<std::size_t>(out.ptys_size()) == size) {
      out.mutable_page()->set_token(out.ptys().rbegin()->id());
      return;
    }
    *out.add_ptys() = *p;
  }
}

} // namespace

grpc::ServerUnaryReactor* pty_service::Create(grpc::CallbackServerContext* ctx, const v1::CreatePtyRequest* req, v1::PtyInfo* rep) {
  return when_admitted(service_, *ctx, domain::operation::pty_create, wrong_with(*req), [&](admitted in) {
    return run_unary(service_.system, in.slot,
                     [service = service_, who = in.who, patience = patience_of(*ctx), req, rep](caf::event_based_actor* self, unary_ptr answer) {
                       auto refuse = [answer](grpc::Status s) { answer->finish(std::move(s)); };
                       with_principal(
                         self, service, who,
                         [=](const v1::Principal& principal) {
                           auto prepared = prepare(service, spawn_request(*req), who, principal, patience);
                           auto front = service.board->get().front;
                           if (!prepared.status.ok() || !front)
                             return refuse(prepared.status.ok() ? to_status(errc::unavailable) : prepared.status);
                           if (prepared.refusal)
                             service.refused.add_if_forbidden(prepared.call->what->command, *prepared.refusal);
                           if (prepared.refusal)
                             return refuse({grpc::StatusCode::FAILED_PRECONDITION, prepared.refusal->text()});
                           ask(self, front, prepared.call)
                             .then(
                               [=](const reply_ptr& r) {
                                 if (r->has_refusal())
                                   service.refused.add_if_forbidden(prepared.call->what->command, r->refusal());
                                 if (r->has_refusal())
                                   return refuse({grpc::StatusCode::FAILED_PRECONDITION, r->refusal().text()});
                                 auto started = [answer, rep, paths = prepared.paths, why = r->spawn().spawn().placement()](const pty_info_ptr& i) {
                                   *rep = *i;
                                   rep->set_placement(why);
                                   paths.to_caller(*rep);
                                   answer->finish(grpc::Status::OK);
                                 };
                                 // The request itself is the last event seen; what follows is news of the process.
                                 auto await = [=, scope = prepared.call->what->command.scope()] {
                                   await_running(self, service, scope, r->spawn().spawn().id(), principal, r->revision(), answer, started);
                                 };
                                 if (!r->repeated() && !r->spawn().existing())
                                   return await();
                                 // Asked for before: it may run already, and nothing more would be heard of its start.
                                 with_terminal(
                                   self, service, r->spawn().spawn().id(), principal,
                                   [=](pty_actor terminal) {
                                     ask(self, terminal, status_atom_v)
                                       .then([=](const pty_info_ptr& i) { started(i); }, [=](caf::error& e) { refuse(to_status(e)); });
                                   },
                                   [await](const grpc::Status&) { await(); });
                               },
                               [refuse](caf::error& e) { refuse(to_status(e)); });
                         },
                         refuse);
                     });
  });
}

namespace {

/// A terminal of another host. Its scope, unless hosts share it, is not the one of that path here.
pty_info_ptr as_elsewhere(const pty_info_ptr& terminal, const v1::ClusterView& view) {
  if (!terminal->scope().starts_with('/'))
    return terminal;
  auto out = std::make_shared<v1::PtyInfo>(*terminal);
  const auto node = std::find_if(view.nodes().begin(), view.nodes().end(), [&](const auto& n) { return n.info().node_id() == terminal->node_id(); });
  out->set_scope(concat({node == view.nodes().end() ? terminal->node_id() : node->info().node_name(), ":", terminal->scope()}));
  return out;
}

} // namespace

grpc::ServerUnaryReactor* pty_service::List(grpc::CallbackServerContext* ctx, const v1::ListPtysRequest* req, v1::PtyList* rep) {
  return when_admitted(service_, *ctx, domain::operation::pty_list, wrong_with(*req), [&](admitted in) {
    return run_unary(service_.system, in.slot, [service = service_, who = in.who, req, rep](caf::event_based_actor* self, unary_ptr answer) {
      auto refuse = [answer](grpc::Status s) { answer->finish(std::move(s)); };
      with_principal(
        self, service, who,
        [=](const v1::Principal& principal) {
          if (auto refused = domain::may(principal, domain::operation::pty_list))
            return refuse(note(service, who, principal, to_status(*refused)));
          auto processes = service.board->get().processes;
          if (!processes)
            return refuse(to_status(errc::unavailable));
          auto scope = req->scope();
          path_view paths{service.nodes.shared(), scope, {}};
          if (req->all_scopes())
            scope.clear();
          auto reply_with = [=](const std::vector<pty_info_ptr>& all) {
            fill_page(*rep, all, principal, req->page());
            paths.to_caller(*rep);
            answer->finish(grpc::Status::OK);
          };
          ask(self, processes, list_atom_v, scope)
            .then(
              [=](const std::vector<pty_info_ptr>& here) {
                auto federation = service.board->get().federation;
                // A scope that hosts do not share is of this one alone: a directory of that path elsewhere is another.
                const bool is_of_this_host = !scope.empty() && !is_named_scope(scope);
                if (is_of_this_host || !federation || !service.node->cluster || service.node->cluster->view().cluster_id().empty())
                  return reply_with(here);
                ask(self, federation, list_atom_v, scope, std::make_shared<const v1::Principal>(principal))
                  .then(
                    [=, all = here](const std::vector<pty_info_ptr>& there) mutable {
                      const auto view = service.node->cluster->view();
                      for (const auto& p : there)
                        all.push_back(as_elsewhere(p, view));
                      std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->id() < b->id(); });
                      reply_with(all);
                    },
                    [refuse](caf::error& e) { refuse(to_status(e)); });
              },
              [refuse](caf::error& e) { refuse(to_status(e)); });
        },
        refuse);
    });
  });
}

grpc::ServerUnaryReactor* pty_service::Send(grpc::CallbackServerContext* ctx, const v1::SendPtyRequest* req, v1::SendPtyReply* rep) {
  return on_terminal(
    service_, ctx, domain::operation::pty_write, *req,
    [service = service_, inputs = inputs_, req, rep](caf::event_based_actor* self, pty_actor terminal, const pty_info_ptr& info,
                                                     const v1::Principal& who, unary_ptr answer) {
      auto type = [=](bool fence_holds) {
        auto in = std::make_shared<pty_input>();
        if (!req->id().client().empty())
          in->request = req->id().client() + "/" + std::to_string(req->id().seq());
        in->data = req->data();
        in->who = who;
        in->stale = !fence_holds;
        // Before the program can know it: its caller may go at once.
        if (in->data.empty())
          inputs->end(req->id().client());
        ask(self, terminal, pty_input_ptr{in})
          .then(
            [answer, rep](std::uint64_t n) {
              rep->set_accepted(n);
              answer->finish(grpc::Status::OK);
            },
            [=](caf::error& e) {
              const bool takes_no_more = e == errc::not_found;
              takes_no_more ? inputs->end(req->id().client()) : inputs->go_on(req->id().client());
              answer->finish(to_status(e));
            });
      };
      if (req->fence() == 0)
        return type(true);
      ask_fence(self, service, info, req->fence(), {}, type, [answer](grpc::Status s) { answer->finish(std::move(s)); });
    },
    inputs_->stands(req->id().client())); // the input of a command: no refusal may end it halfway
}

grpc::ServerUnaryReactor* pty_service::Resize(grpc::CallbackServerContext* ctx, const v1::ResizePtyRequest* req, v1::PtyInfo* rep) {
  return on_terminal(service_, ctx, domain::operation::pty_resize, *req,
                     [req, rep](caf::event_based_actor* self, pty_actor terminal, const pty_info_ptr&, const v1::Principal&, unary_ptr answer) {
                       ask(self, terminal, resize_atom_v, req->size().columns(), req->size().rows())
                         .then([=](const pty_info_ptr& i) { answer_info(answer, rep, i); },
                               [answer](caf::error& e) { answer->finish(to_status(e)); });
                     });
}

grpc::ServerUnaryReactor* pty_service::Kill(grpc::CallbackServerContext* ctx, const v1::KillPtyRequest* req, v1::PtyInfo* rep) {
  return on_terminal(service_, ctx, domain::operation::pty_kill, *req,
                     [req, rep](caf::event_based_actor* self, pty_actor terminal, const pty_info_ptr&, const v1::Principal&, unary_ptr answer) {
                       ask(self, terminal, kill_atom_v, req->signal())
                         .then([=](const pty_info_ptr& i) { answer_info(answer, rep, i); },
                               [answer](caf::error& e) { answer->finish(to_status(e)); });
                     });
}

grpc::ServerUnaryReactor* pty_service::Forget(grpc::CallbackServerContext* ctx, const v1::ForgetPtyRequest* req, v1::PtyInfo* rep) {
  return on_terminal(service_, ctx, domain::operation::pty_forget, *req,
                     [req, rep](caf::event_based_actor* self, pty_actor terminal, const pty_info_ptr& info, const v1::Principal&, unary_ptr answer) {
                       if (info->running())
                         return answer->finish({grpc::StatusCode::FAILED_PRECONDITION,
                                                "the program in this terminal runs; end it first: swarmctl pty kill " + req->pty_id()});
                       ask(self, terminal, forget_atom_v)
                         .then([=](const pty_info_ptr& i) { answer_info(answer, rep, i); },
                               [answer](caf::error& e) { answer->finish(to_status(e)); });
                     });
}

} // namespace swarm
