#include "services/api/node_service.hpp"

#include "actors/base/restrictions.hpp"
#include "actors/base/stopped_mark.hpp"
#include "actors/fabric/graph.hpp"
#include "services/call/admitted_call.hpp"
#include "services/call/explain.hpp"

#include <filesystem>

#include <unistd.h>

namespace swarm {

namespace {

constexpr std::uint64_t store_page_bytes = 4096; // SQLite's default, which the store keeps

void add_restrictions(v1::NodeStatus& status, std::int64_t keeper, std::string refused) {
  auto put = [](v1::Restrictions& out, const restrictions& r) {
    out.set_no_new_privileges(r.no_new_privileges);
    out.set_seccomp(r.seccomp);
    out.set_unit(r.unit);
  };
  if (auto own = restrictions_of(getpid()))
    put(*status.mutable_restrictions(), *own);
  if (auto its = keeper != 0 ? restrictions_of(static_cast<pid_t>(keeper)) : std::nullopt)
    put(*status.mutable_keeper_restrictions(), *its);
  status.set_keeper_refused(std::move(refused));
  status.set_not_dumpable(is_inspection_forbidden());
}

} // namespace

grpc::ServerUnaryReactor* node_service::Status(grpc::CallbackServerContext* ctx, const v1::NodeStatusRequest*, v1::NodeStatus* rep) {
  return when_admitted(service_, *ctx, domain::operation::node_status, std::nullopt, [&](admitted in) {
    return run_unary(service_.system, in.slot, [this, rep](caf::event_based_actor* self, unary_ptr answer) {
      const auto& facts = service_.node->facts;
      rep->set_pid(getpid());
      rep->set_version(facts.version);
      rep->set_node_name(facts.node_name);
      rep->set_node_id(facts.node_id);
      rep->set_state_dir(facts.dir.root.string());
      rep->set_uptime_ms(service_.node->clock->boot_ms() - started_ms_);
      rep->set_keeper_pid(hooks_.keeper_pid());
      add_restrictions(*rep, hooks_.running_keeper(), hooks_.refused_keeper());
      rep->set_connections(hooks_.connections());
      rep->mutable_agents()->Assign(hooks_.agents.begin(), hooks_.agents.end());
      for (auto& c : service_.refused.counts())
        *rep->add_refusals() = std::move(c);
      rep->set_has_passphrase(logins_.has_passphrase());
      rep->set_calls_in_flight(service_.admission.in_flight());
      rep->set_integrity(integrity_->text());
      auto board = service_.board->get();
      // A node whose store is restarting still says who it is.
      if (!board.writer || !board.front || !board.processes)
        return answer->finish(grpc::Status::OK);
      auto failed = [answer](caf::error& e) { answer->finish(to_status(e)); };
      ask(self, board.writer, status_atom_v)
        .then(
          [=, this](const store_status_ptr& s) {
            rep->set_commits(s->commits);
            rep->set_commands(s->commands);
            rep->set_schema_version(s->schema_version);
            rep->set_low_disk(s->low_disk);
            if (rep->integrity() == "unchecked")
              rep->set_integrity(s->integrity);
            auto q = internal_query(*service_.node, "", [](v1::Query& x) { x.mutable_get_totals(); });
            ask(self, board.front, q)
              .then(
                [=](const answer_ptr& a) {
                  rep->set_scopes(a->totals().scopes());
                  rep->set_sessions(a->totals().sessions());
                  rep->set_open_tasks(a->totals().open_tasks());
                  rep->set_locks(a->totals().locks());
                  ask(self, board.processes, list_atom_v, std::string{})
                    .then(
                      [=](const std::vector<pty_info_ptr>& all) {
                        rep->set_ptys(static_cast<std::uint64_t>(std::count_if(all.begin(), all.end(), [](const auto& p) { return p->running(); })));
                        answer->finish(grpc::Status::OK);
                      },
                      failed);
                },
                failed);
          },
          failed);
    });
  });
}

grpc::ServerUnaryReactor* node_service::Graph(grpc::CallbackServerContext* ctx, const v1::GraphRequest* req, v1::ActorGraph* rep) {
  // Its paths name everybody's scopes and files.
  return for_admitted(service_, ctx, domain::operation::node_graph, [this, req, rep](caf::event_based_actor* self, unary_ptr answer) {
    ask(self, root_, tree_atom_v)
      .then(
        [this, self, answer, req, rep](const std::vector<runtime::tree_entry>& rows) {
          add_rows(*rep, rows, req->scope(), "");
          auto federation = service_.board->get().federation;
          if (req->here() || !federation || service_.node->cluster->view().nodes_size() < 2)
            return answer->finish(grpc::Status::OK);
          ask(self, federation, tree_atom_v, req->scope())
            .then(
              [answer, rep](const graph_ptr& others) {
                add_rows(*rep, *others);
                answer->finish(grpc::Status::OK);
              },
              [answer](caf::error& e) { answer->finish(to_status(e)); });
        },
        [answer](caf::error& e) { answer->finish(to_status(e)); });
  });
}

grpc::ServerUnaryReactor* node_service::Backup(grpc::CallbackServerContext* ctx, const v1::BackupRequest* req, v1::BackupReply* rep) {
  return for_admitted(service_, ctx, domain::operation::node_backup, [this, req, rep](caf::event_based_actor* self, unary_ptr answer) {
    if (req->path().empty() || req->path().front() != '/')
      return answer->finish({grpc::StatusCode::INVALID_ARGUMENT, "a backup needs an absolute path"});
    if (auto why = req->with_logs() ? hooks_.objection_to_logs(req->path()) : std::string{}; !why.empty())
      return answer->finish({grpc::StatusCode::ALREADY_EXISTS, why});
    auto reader = service_.board->get().maintenance;
    if (!reader)
      return answer->finish(to_status(errc::unavailable));
    ask(self, reader, backup_atom_v, req->path())
      .then(
        [this, self, answer, req, rep](std::uint64_t bytes) {
          rep->set_bytes(bytes);
          rep->set_pages(bytes / store_page_bytes);
          if (!req->with_logs())
            return answer->finish(grpc::Status::OK);
          // Megabytes are copied, for which nobody waits on a thread that others need.
          self->system().spawn<caf::detached>([answer, rep, path = req->path(), copy = hooks_.copy_logs](caf::event_based_actor*) {
            auto why = copy(path, *rep);
            answer->finish(why.empty()
                             ? grpc::Status::OK
                             : grpc::Status{grpc::StatusCode::FAILED_PRECONDITION, "the store is backed up, the conversations are not: " + why});
          });
        },
        [answer](caf::error& e) { answer->finish(to_status(e)); });
  });
}

grpc::ServerUnaryReactor* node_service::Check(grpc::CallbackServerContext* ctx, const v1::CheckRequest* req, v1::CheckReply* rep) {
  return when_admitted(service_, *ctx, domain::operation::node_check, std::nullopt, [&](admitted in) {
    return run_unary(service_.system, in.slot, [this, req, rep](caf::event_based_actor* self, unary_ptr answer) {
      auto reader = service_.board->get().maintenance;
      if (!reader)
        return answer->finish(to_status(errc::unavailable));
      ask(self, reader, check_atom_v, req->full())
        .then(
          [report = integrity_, answer, rep](const std::string& text) {
            report->set(text);
            rep->set_ok(text == "ok");
            rep->set_text(text);
            answer->finish(grpc::Status::OK);
          },
          [answer](caf::error& e) { answer->finish(to_status(e)); });
    });
  });
}

grpc::ServerUnaryReactor* node_service::Shutdown(grpc::CallbackServerContext* ctx, const v1::ShutdownRequest* req, v1::ShutdownReply* rep) {
  return for_admitted(service_, ctx, domain::operation::node_shutdown, [this, req, rep](caf::event_based_actor*, unary_ptr answer) {
    rep->set_pid(getpid());
    // Before anybody can hear that it stops.
    if (req->stays_down()) {
      if (auto error = write_stopped_mark(service_.node->facts.dir, {.programs_go_on = req->keep_keeper()}))
        return answer->finish({grpc::StatusCode::FAILED_PRECONDITION, "the mark that keeps the node down cannot be written: " + error.message()});
    }
    // The request lives no longer than the call.
    auto keep_keeper = req->keep_keeper();
    answer->finish(grpc::Status::OK);
    hooks_.stop(keep_keeper);
  });
}

grpc::ServerUnaryReactor* node_service::KillActor(grpc::CallbackServerContext* ctx, const v1::KillActorRequest* req, v1::KillActorReply* rep) {
  return for_admitted(service_, ctx, domain::operation::node_kill_actor, [this, req, rep](caf::event_based_actor* self, unary_ptr answer) {
    // The root is "node", and has no name for itself.
    auto path = req->path() == "node" ? std::string{} : req->path().rfind("node/", 0) == 0 ? req->path().substr(5) : req->path();
    ask(self, root_, kill_atom_v, path)
      .then(
        [answer, rep] {
          rep->set_found(true);
          answer->finish(grpc::Status::OK);
        },
        [answer](caf::error& e) { answer->finish(to_status(e)); });
  });
}

namespace {

/// The principal is known: what follows from it.
void explain_principal(const service_environment& service, const claim& who, const v1::Principal& p, v1::Explanation& out) {
  const auto is_session = p.kind() == v1::Principal::SESSION;
  if (who.rule == v1::Explanation::AGENT_UNREGISTERED && is_session)
    out.set_rule(v1::Explanation::AGENT_ROOT);
  if (auto root = service.callers.places().roots().find(who.place.root); root && is_session)
    for (const auto& s : root->sessions)
      if (s.id == p.id())
        out.set_scope(s.scope);
  add_rights(out, p);
}

void explain_failure(const grpc::Status& s, v1::Explanation& out) {
  switch (s.error_code()) {
    case grpc::StatusCode::UNAUTHENTICATED: return add_refusal(out, v1::Explanation::TOKEN_UNKNOWN, s.error_message());
    case grpc::StatusCode::PERMISSION_DENIED: return add_refusal(out, v1::Explanation::TOKEN_ELSEWHERE, s.error_message());
    default: return add_refusal(out, out.rule(), out.reason() + ", and its session cannot be looked up now: " + s.error_message());
  }
}

} // namespace

/// Not refused to anybody: who is refused everything else asks why.
grpc::ServerUnaryReactor* node_service::Explain(grpc::CallbackServerContext* ctx, const v1::ExplainRequest*, v1::Explanation* rep) {
  auto who = service_.callers.identify(*ctx, look_again::always);
  const auto pid = service_.callers.process_of(*ctx);
  auto place = service_.admission.enter("explain/" + std::to_string(pid), who.share, who.principal.kind() == v1::Principal::OPERATOR);
  if (!place)
    return finish_now(to_status(errc::overloaded));
  const auto& places = service_.callers.places();
  *rep = explanation_of(who, places.look_at(pid), places.workers());
  if (!who.refused.empty())
    add_refusal(*rep, who.rule, who.refused);
  else if (who.is_final())
    explain_principal(service_, who, who.principal, *rep);
  if (!who.refused.empty() || who.is_final())
    return finish_now(grpc::Status::OK);
  auto slot = std::make_shared<runtime::admission::slot>(std::move(*place));
  return run_unary(service_.system, slot, [this, who = std::move(who), rep](caf::event_based_actor* self, unary_ptr answer) {
    with_principal(
      self, service_, who,
      [this, answer, who, rep](const v1::Principal& p) {
        explain_principal(service_, who, p, *rep);
        answer->finish(grpc::Status::OK);
      },
      [answer, rep](const grpc::Status& s) {
        explain_failure(s, *rep);
        answer->finish(grpc::Status::OK);
      });
  });
}

} // namespace swarm
