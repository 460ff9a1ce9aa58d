// What the agent asks a person, and what became of the answers.
#include <algorithm>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/fabric/conversations/dialogue.hpp"
#include "actors/fabric/conversations/dialogue_internal.hpp"

namespace swarm {

namespace {

using driver = internal::FromDriver;

constexpr std::size_t reason_bytes_max = 1 * limits::kib;

v1::Approval::Kind kind_of(internal::Request::Kind k) {
  switch (k) {
    case internal::Request::COMMAND: return v1::Approval::COMMAND;
    case internal::Request::FILE: return v1::Approval::FILE;
    case internal::Request::QUESTION: return v1::Approval::QUESTION;
    default: return v1::Approval::TOOL;
  }
}

v1::ConversationItemKind item_kind(bool is_question) { return is_question ? v1::CONVERSATION_QUESTION : v1::CONVERSATION_PERMISSION; }

/// "allow", "deny", a choice; or how it ended without one.
std::string state_of(const v1::Approval& a) {
  if (!a.withdrawn().empty())
    return "withdrawn";
  if (a.decided_at_ms() == 0)
    return "asked";
  return a.decision().empty() ? "expired" : a.decision();
}

/// The choices of a question, if a person can tell them apart as they are shown; else it is answered part by part.
std::vector<std::string> options_of(const internal::Request& r) {
  if (r.kind() != internal::Request::QUESTION)
    return {};
  std::vector<std::string> by_parts{"answer", "deny"}, out;
  if (r.choices_size() != 1 || r.choices(0).options().empty() || r.choices(0).options_size() > static_cast<int>(limits::approval_choices_max))
    return by_parts;
  for (const auto& option : r.choices(0).options()) {
    out.push_back(head(option, limits::approval_choice_bytes_max));
    if (out.back().empty() || std::find(out.begin(), out.end() - 1, out.back()) != out.end() - 1)
      return by_parts;
  }
  return out;
}

bool has_ended(const v1::Approval& a) { return a.decided_at_ms() != 0 && a.delivery() != v1::Approval::PENDING; }

} // namespace

/// Those that have ended are forgotten: an agent may ask without end.
void dialogue::take_approval(const v1::Approval& a, std::uint64_t revision) {
  if (a.id().empty() || a.conversation_id() != row_.id() || a.generation() != generation_)
    return;
  if (auto known = approvals_.find(a.id()); known != approvals_.end() && revision != 0 && revision < known->second.revision)
    return;
  if (has_ended(a))
    approvals_.erase(a.id());
  else
    approvals_[a.id()] = {a, revision};
}

const v1::Approval* dialogue::approval_of(const std::string& native_id) const {
  const v1::Approval* found = nullptr;
  for (const auto& [id, known] : approvals_)
    if (known.row.native_id() == native_id && (!found || known.row.created_at_ms() >= found->created_at_ms()))
      found = &known.row;
  return found;
}

/// A request is dealt with when its last part has come. Until then its driver tells all parts again.
void dialogue::on_request(const driver& f) {
  if (request_.size() + f.request().body().size() > limits::conversation_blob_bytes_max())
    request_is_cut_ = true;
  if (!request_is_cut_)
    request_ += f.request().body();
  if (!f.request().last())
    return;
  auto body = std::exchange(request_, {});
  const bool is_cut = std::exchange(request_is_cut_, false);
  // The log has it, so it was asked or denied. What came before its last part the driver has not told again.
  if (f.seq() <= tail_.seq)
    return done(f.seq());
  if (!is_cut)
    return ask_person(f, std::move(body));
  deny(f, {}, "too-large", "The request is too large to be shown to a person. Ask for less at once.");
}

/// It is said until the driver acknowledges it; after a start the log says that it has to be.
void dialogue::deny(const std::string& request, const std::string& digest, const std::string& why) {
  internal::ToDriver out;
  auto& answer = *out.mutable_answer();
  answer.set_request_id(request);
  answer.set_generation(generation_);
  answer.set_option("deny");
  answer.set_text(head(why, 8 * limits::kib));
  answer.set_digest(digest);
  denials_[request] = {.frame = agents::encode_driver_frame(out)};
}

void dialogue::deny(const driver& f, const std::string& digest, const std::string& kind, const std::string& why) {
  deny(f.request().id(), digest, why);
  v1::ConversationItem item;
  item.set_kind(v1::CONVERSATION_NOTICE);
  item.set_id(concat({"notice-", f.seq()}));
  item.set_title(kind);
  item.set_of(f.request().id());
  item.add_attachments()->set_digest(digest);
  item.set_body(head(concat({f.request().title(), ": ", why}), 8 * limits::kib));
  item.set_last(true);
  write(std::move(item), f.at_ms(), f.seq(), f.seq());
}

void dialogue::ask_person(const driver& f, std::string body) {
  const auto& r = f.request();
  v1::Command command;
  auto& ask_now = *command.mutable_request_approval();
  ask_now.set_subject(concat({"conversation/", row_.id()}));
  ask_now.set_kind(kind_of(r.kind()));
  ask_now.set_title(head(r.title().empty() ? r.tool() : r.title(), limits::title_bytes_max()));
  if (body.size() > limits::approval_action_bytes_max) {
    ask_now.set_body_bytes(body.size());
    ask_now.set_action_digest(sha256(body));
  } else {
    ask_now.set_body(body);
  }
  ask_now.set_request_key(concat({"conversation/", row_.id(), "/", generation_, "/", to_hex(sha256(r.id())).substr(0, 32)}));
  for (auto& option : options_of(r))
    ask_now.add_options(std::move(option));
  auto& of = *ask_now.mutable_conversation();
  of.set_conversation_id(row_.id());
  of.set_generation(generation_);
  of.set_native_id(r.id());
  of.set_can_be_always(r.can_be_always());
  of.set_pattern(head(r.pattern(), limits::conversation_pattern_bytes_max));
  of.set_tool(head(r.tool(), limits::agent_name_bytes_max));
  of.set_more_writes(r.more_writes());
  std::size_t bytes = 0;
  for (const auto& w : r.writes()) {
    bytes += w.ByteSizeLong() + 4;
    if (bytes > limits::approval_writes_bytes_max || static_cast<std::size_t>(of.writes_size()) == limits::approval_writes_max) {
      of.set_more_writes(true);
      break;
    }
    auto& to = *of.add_writes();
    to.set_name(w.name());
    to.set_real(w.real());
    to.set_pattern(w.pattern());
    to.set_tree(w.tree());
  }
  auto about = f;
  about.mutable_request()->clear_body();
  auto answered = [this, about, digest = sha256(body)](const v1::Reply& reply) { before_the_rest([&] { on_asked(about, digest, reply); }); };
  if (ask_now.body_bytes() == 0)
    return ask_for(std::move(command), std::move(answered));
  auto kept = [this, about, command, answered](const std::string& why_not) {
    before_the_rest(
      [&] { why_not.empty() ? ask_for(command, answered) : deny(about, command.request_approval().action_digest(), "not-asked", why_not); });
  };
  ops_.emplace_back(blob_op{std::move(body), std::move(kept)});
}

/// What comes of the answer to a step is done before the steps that follow.
void dialogue::before_the_rest(const std::function<void()>& todo) {
  std::deque<op> later;
  std::swap(later, ops_);
  todo();
  std::move(later.begin(), later.end(), std::back_inserter(ops_));
}

void dialogue::on_asked(const driver& f, const std::string& digest, const v1::Reply& reply) {
  if (reply.has_refusal())
    return deny(f, digest, "not-asked", reply.refusal().text());
  // The same request under the same name was asked and answered before: nobody will decide it again.
  if (has_ended(reply.approval()))
    return deny(f, digest, "not-asked", "This was asked before under the same name. Ask under another one.");
  take_approval(reply.approval(), reply.revision());
  auto open = reply.approval();
  open.clear_decided_at_ms();
  open.clear_withdrawn();
  write_request(open, f.at_ms(), f.seq(), 0);
  ops_.emplace_back(sync_op{});
  done(f.seq());
}

/// Asked, with the body; else how it ended.
void dialogue::write_request(const v1::Approval& a, std::int64_t at_ms, std::uint64_t seq, std::uint64_t done_seq) {
  v1::ConversationItem item;
  item.set_kind(item_kind(a.kind() == v1::Approval::QUESTION));
  item.set_id(a.native_id());
  item.set_title(a.title());
  item.set_approval_id(a.id());
  item.set_state(state_of(a));
  if (item.state() == "asked") {
    item.set_body(a.body());
    item.set_media_type("application/json");
    if (a.body_bytes() != 0) {
      auto& body = *item.add_attachments();
      body.set_digest(a.action_digest());
      body.set_media_type("application/json");
      body.set_bytes(a.body_bytes());
    }
  } else if (const auto overruled = judged_.find(a.id()); a.withdrawn().empty() && overruled != judged_.end() && !overruled->second.empty()) {
    item.set_state("deny");
    item.set_rule(head(overruled->second, reason_bytes_max));
  }
  item.set_last(true);
  if (item.state() == "asked") {
    tail_.requests.insert(a.id());
    auto& kept = unended_[a.id()] = item;
    kept.clear_body();
    kept.clear_attachments();
  } else {
    unended_.erase(a.id());
  }
  if (seq == 0)
    return write_own(std::move(item));
  write(std::move(item), at_ms, seq, done_seq);
}

void dialogue::on_ruled(const driver& f) {
  const auto& r = f.ruled();
  v1::ConversationItem item;
  item.set_kind(item_kind(r.kind() == internal::Request::QUESTION));
  item.set_id(r.id());
  item.set_of(r.call());
  item.set_title(head(r.title().empty() ? r.tool() : r.title(), 1 * limits::kib));
  item.set_state(r.allowed() ? "allow" : "deny");
  item.set_rule(head(r.rule(), reason_bytes_max));
  item.set_last(true);
  write(std::move(item), f.at_ms(), f.seq(), f.seq());
}

/// The row has ended before: the conversation was stopped, or its turn interrupted.
void dialogue::end_asked(const driver& f) {
  const auto asked = std::find_if(unended_.begin(), unended_.end(), [&](const auto& i) { return i.second.id() == f.withdrawn().request_id(); });
  if (asked == unended_.end())
    return done(f.seq());
  auto end = asked->second;
  unended_.erase(asked);
  end.set_state("withdrawn");
  write(std::move(end), f.at_ms(), f.seq(), f.seq());
}

void dialogue::on_withdrawn(const driver& f) {
  denials_.erase(f.withdrawn().request_id());
  const auto* a = approval_of(f.withdrawn().request_id());
  if (!a)
    return end_asked(f);
  auto over = *a;
  over.set_withdrawn(f.withdrawn().reason().empty() ? "the agent stopped waiting" : f.withdrawn().reason());
  if (lacks_end(*a))
    write_request(over, f.at_ms(), f.seq(), 0);
  ops_.emplace_back(sync_op{});
  v1::Command command;
  command.mutable_withdraw_approval()->set_approval_id(a->id());
  command.mutable_withdraw_approval()->set_reason(head(over.withdrawn(), reason_bytes_max));
  ask_for(std::move(command), [this](const v1::Reply& r) {
    if (r.has_approval())
      take_approval(r.approval(), r.revision());
  });
  done(f.seq());
}

/// What writes nothing is in nobody's way, and needs no look at locks.
void dialogue::on_hook_question(const internal::HookQuestion& q) {
  if (q.after())
    return;
  if (!q.writes().empty() || q.more_writes()) {
    effects_.emplace_back(judge{q});
    return;
  }
  internal::HookAnswer free;
  free.set_question_id(q.id());
  judged(free);
}

/// It may have an earlier answer than the one that was given last, or the driver has stopped what was allowed.
void dialogue::note_what_it_got(const v1::Approval& a, const internal::AnswerState& s) {
  const bool is_question = a.kind() == v1::Approval::QUESTION || a.kind() == v1::Approval::ELICITATION;
  if (is_question || s.option().empty())
    return;
  auto& why_not = judged_[a.id()];
  if (s.option() != "deny")
    why_not.clear();
  else if (a.decision() != "deny" && why_not.empty())
    why_not = s.text().empty() ? "it was denied before" : s.text();
}

void dialogue::on_answer_state(const driver& f) {
  const auto& s = f.answer_state();
  denials_.erase(s.request_id());
  const auto* a = approval_of(s.request_id());
  if (!a || a->delivery() != v1::Approval::PENDING || (!s.digest().empty() && s.digest() != a->action_digest()))
    return done(f.seq());
  if (s.delivered())
    note_what_it_got(*a, s);
  const auto checked = judged_.find(a->id());
  const auto overruled = checked == judged_.end() ? std::string{} : checked->second;
  if (s.delivered() && lacks_end(*a))
    write_request(*a, f.at_ms(), f.seq(), 0);
  else if (!s.delivered())
    note(f.at_ms(), f.seq(), "not-delivered", concat({a->title(), ": ", s.text()}), 0);
  ops_.emplace_back(sync_op{});
  v1::Command command;
  auto& d = *command.mutable_report_delivery();
  d.set_approval_id(a->id());
  d.set_generation(generation_);
  d.set_delivery(s.delivered() && overruled.empty() ? v1::Approval::DELIVERED : v1::Approval::REFUSED);
  d.set_reason(overruled.empty() ? s.text() : overruled);
  ask_for(std::move(command), [this](const v1::Reply& r) {
    if (r.has_approval())
      take_approval(r.approval(), r.revision());
  });
  done(f.seq());
}

} // namespace swarm
