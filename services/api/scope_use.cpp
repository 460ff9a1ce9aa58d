#include "services/api/scope_use.hpp"

#include <deque>
#include <set>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/lock_paths.hpp"
#include "actors/domain/rules.hpp"
#include "services/call/admitted_call.hpp"

namespace swarm {

namespace {

query_ptr open_tasks(const service_environment& service, const std::string& scope, std::uint32_t at_most) {
  return internal_query(*service.node, scope, [at_most](v1::Query& x) {
    for (auto s : {v1::OPEN, v1::CLAIMED, v1::IN_PROGRESS, v1::BLOCKED, v1::APPROVAL_REQUIRED})
      x.mutable_list_tasks()->add_statuses(s);
    x.mutable_list_tasks()->mutable_page()->set_size(at_most);
  });
}

/// As the person asks who waits for the answer: then a home that is away is an answer, and not something to wait for.
query_ptr for_person(const query_ptr& of_node) {
  auto q = std::make_shared<v1::Query>(*of_node);
  q->mutable_principal()->Clear();
  q->mutable_principal()->set_kind(v1::Principal::OPERATOR);
  return q;
}

} // namespace

void if_unused(caf::event_based_actor* self, const service_environment& service, const std::string& scope, const std::string& root,
               std::function<void()> next, unary_ptr answer) {
  auto front = service.board->get().front;
  if (!front)
    return answer->finish(to_status(errc::unavailable));
  auto q = for_person(internal_query(*service.node, scope, [](v1::Query& x) { x.mutable_list_sessions(); }));
  auto tasks = for_person(open_tasks(service, scope, 1));
  auto failed = [answer](caf::error& e) { answer->finish(to_status(e)); };
  auto refused = [answer](const v1::Refusal& r) { answer->finish({grpc::StatusCode::FAILED_PRECONDITION, r.text()}); };
  ask(self, front, q)
    .then(
      [=, here = service.node->facts.node_id](const answer_ptr& a) {
        if (a->has_refusal())
          return refused(a->refusal());
        std::size_t alive = 0;
        for (const auto& s : a->sessions().sessions())
          alive += root.empty() || (s.node_id() == here && (s.checkout() == root || is_inside(root, s.directory())));
        if (alive > 0)
          return answer->finish({grpc::StatusCode::FAILED_PRECONDITION,
                                 concat({alive, alive == 1 ? " session" : " sessions", " of ", scope, alive == 1 ? " is" : " are", " there: end ",
                                         alive == 1 ? "it" : "them", " first (`swarmctl --scope ", scope, " instances` lists them)"})});
        if (!root.empty())
          return next();
        ask(self, front, tasks)
          .then(
            [=](const answer_ptr& t) {
              if (t->has_refusal())
                return refused(t->refusal());
              if (t->tasks().tasks().empty())
                return next();
              answer->finish(
                {grpc::StatusCode::FAILED_PRECONDITION,
                 concat({scope, " has tasks that have not ended: finish or cancel them first (`swarmctl --scope ", scope, " tasks` lists them)"})});
            },
            failed);
      },
      failed);
}

namespace {

/// "2 locks (src/a.c by name:ann, …)"
class found_things {
public:
  explicit found_things(const char* what) : what_(what) {}
  void add(const std::string& name) {
    ++count_;
    if (count_ <= limits::candidates_shown_max)
      names_ += concat({names_.empty() ? "" : ", ", name});
  }
  std::string text() const {
    if (count_ == 0)
      return {};
    return concat({count_, " ", what_, count_ == 1 ? "" : "s", " (", names_, count_ > limits::candidates_shown_max ? ", …" : "", ")"});
  }

private:
  const char* what_;
  std::size_t count_ = 0;
  std::string names_;
};

/// Asks for one page after the other; owned by what waits for the answer.
class name_search : public std::enable_shared_from_this<name_search> {
public:
  name_search(caf::event_based_actor* self, const service_environment& service, std::string scope, std::function<bool(const std::string&)> renamed,
              std::function<void()> next, unary_ptr answer)
    : self_(self), service_(service), scope_(std::move(scope)), renamed_(std::move(renamed)), next_(std::move(next)), answer_(std::move(answer)) {}

  void list_sessions(const std::string& page) {
    put([&](v1::Query& x) { x.mutable_list_sessions()->mutable_page()->set_token(page); },
        [me = shared_from_this()](const v1::Answer& a) {
          for (const auto& s : a.sessions().sessions())
            if (s.node_id() == me->service_.node->facts.node_id)
              me->of_this_host_.insert(s.id());
          if (const auto& next = a.sessions().page().token(); !next.empty())
            me->list_sessions(next);
          else
            me->list_locks({});
        });
  }

private:
  void list_locks(const std::string& page) {
    put([&](v1::Query& x) { x.mutable_list_locks()->mutable_page()->set_token(page); },
        [me = shared_from_this()](const v1::Answer& a) {
          for (const auto& l : a.locks().locks())
            me->look_at(l);
          if (const auto& next = a.locks().page().token(); !next.empty())
            me->list_locks(next);
          else
            me->end();
        });
  }

  void look_at(const v1::LockView& l) {
    const auto is_ours = of_this_host_.contains(l.lock().session_id());
    if ((!is_ours && l.waiters() == 0) || domain::is_fabric_name(l.lock().path()) || !renamed_(l.lock().path()))
      return;
    locks_.add(concat({l.lock().path(), " by ", l.owner().label().empty() ? l.lock().session_id() : l.owner().label(),
                       l.waiters() > 0 ? concat({", ", l.waiters(), " waiting"}) : ""}));
  }

  void end() {
    const auto text = locks_.text();
    if (text.empty())
      return next_();
    answer_->finish(
      {grpc::StatusCode::FAILED_PRECONDITION, concat({"files of the directory that are locked in ", scope_, " would be called otherwise: ", text,
                                                      ". Release them first: `swarmctl --scope ", scope_, " unlock FILE --as WHO`"})});
  }

  template <class Fill, class Next>
  void put(Fill fill, Next next) {
    auto front = service_.board->get().front;
    if (!front)
      return answer_->finish(to_status(errc::unavailable));
    ask(self_, front, internal_query(*service_.node, scope_, fill))
      .then(
        [next, me = shared_from_this()](const answer_ptr& a) {
          if (a->has_refusal()) // as by a home that is away: nobody has said that there are no locks
            return me->answer_->finish({grpc::StatusCode::UNAVAILABLE, a->refusal().text()});
          next(*a);
        },
        [me = shared_from_this()](caf::error& e) { me->answer_->finish(to_status(e)); });
  }

  caf::event_based_actor* self_;
  const service_environment service_;
  const std::string scope_;
  const std::function<bool(const std::string&)> renamed_;
  const std::function<void()> next_;
  unary_ptr answer_;
  std::set<std::string> of_this_host_;
  found_things locks_{"lock"};
};

/// Asks one question after the other; owned by what waits for the answer.
class use_search : public std::enable_shared_from_this<use_search> {
public:
  use_search(caf::event_based_actor* self, const service_environment& service, use_of_scope what, std::function<void(std::string)> done,
             unary_ptr answer)
    : self_(self), service_(service), what_(what), done_(std::move(done)), answer_(std::move(answer)) {}

  void list_scopes(const std::string& page) {
    auto q = internal_query(*service_.node, "", [&](v1::Query& x) { x.mutable_list_scopes()->mutable_page()->set_token(page); });
    put(q, [me = shared_from_this()](const v1::Answer& a) {
      for (const auto& s : a.scopes().scopes())
        if (is_named_scope(s.scope()))
          me->scopes_.push_back(s.scope());
      if (const auto& next = a.scopes().page().token(); !next.empty())
        me->list_scopes(next);
      else
        me->look_at_next();
    });
  }

private:
  void look_at_next() {
    if (scopes_.empty())
      return done_(std::move(found_));
    scope_ = std::move(scopes_.front());
    scopes_.pop_front();
    look_at_locks();
  }

  void look_at_locks() {
    put(internal_query(*service_.node, scope_, [](v1::Query& x) { x.mutable_list_locks(); }), [me = shared_from_this()](const v1::Answer& a) {
      found_things locks{"lock"};
      for (const auto& l : a.locks().locks())
        locks.add(concat({l.lock().path(), " by ", l.owner().label().empty() ? l.lock().session_id() : l.owner().label()}));
      me->note(locks);
      if (me->what_ == use_of_scope::locks)
        me->look_at_next();
      else
        me->look_at_sessions();
    });
  }

  void look_at_sessions() {
    put(internal_query(*service_.node, scope_, [](v1::Query& x) { x.mutable_list_sessions(); }), [me = shared_from_this()](const v1::Answer& a) {
      found_things sessions{"session"};
      for (const auto& s : a.sessions().sessions())
        sessions.add(domain::display_name(s));
      me->note(sessions);
      me->look_at_tasks();
    });
  }

  void look_at_tasks() {
    put(open_tasks(service_, scope_, 0), [me = shared_from_this()](const v1::Answer& a) {
      found_things tasks{"unfinished task"};
      for (const auto& t : a.tasks().tasks())
        tasks.add(t.title());
      me->note(tasks);
      me->look_at_next();
    });
  }

  void note(const found_things& things) {
    const auto text = things.text();
    if (text.empty() || found_.size() > limits::candidates_shown_max * limits::path_bytes_max())
      return;
    found_ += concat({std::exchange(noted_, scope_) == scope_ ? ", " : concat({found_.empty() ? "" : "; ", scope_, " has "}), text});
  }

  template <class Next>
  void put(const query_ptr& q, Next next) {
    auto front = service_.board->get().front;
    if (!front)
      return put_later(q, next);
    ask(self_, front, q)
      .then([next](const answer_ptr& a) { next(*a); },
            [me = shared_from_this(), q, next](caf::error& e) {
              if (is_starting(e))
                me->put_later(q, next);
              else
                me->answer_->finish(to_status(e));
            });
  }

  /// A node that has just left a cluster starts this part again. The deadline of the call ends its actor.
  template <class Next>
  void put_later(const query_ptr& q, Next next) {
    self_->become([me = shared_from_this(), q, next](tick_atom) {
      me->self_->unbecome();
      me->put(q, next);
    });
    self_->delayed_send(self_, limits::join_retry_after, tick_atom_v);
  }

  /// A question has no outcome that could be unknown.
  static bool is_starting(const caf::error& e) {
    if (e.category() == caf::detail::error_factory<errc>::category)
      return e == errc::unavailable || e == errc::unknown_outcome;
    return e != caf::sec::request_timeout;
  }

  caf::event_based_actor* self_;
  const service_environment service_;
  const use_of_scope what_;
  std::function<void(std::string)> done_;
  unary_ptr answer_;
  std::deque<std::string> scopes_;
  std::string scope_; // being looked at
  std::string noted_; // the last one of which something was found
  std::string found_;
};

} // namespace

void if_locks_keep_names(caf::event_based_actor* self, const service_environment& service, const std::string& scope,
                         std::function<bool(const std::string&)> renamed, std::function<void()> next, unary_ptr answer) {
  std::make_shared<name_search>(self, service, scope, std::move(renamed), std::move(next), std::move(answer))->list_sessions({});
}

void find_named_in_use(caf::event_based_actor* self, const service_environment& service, use_of_scope what, std::function<void(std::string)> done,
                       unary_ptr answer) {
  std::make_shared<use_search>(self, service, what, std::move(done), std::move(answer))->list_scopes({});
}

} // namespace swarm
