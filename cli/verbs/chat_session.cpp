#include "cli/verbs/chat_session.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/permissions.hpp"

namespace swarm::cli {

namespace {

constexpr std::int64_t key_pause_ms = limits::chat_key_pause.count();
constexpr std::int64_t leave_pause_ms = limits::chat_leave_pause.count();

bool is_request(const v1::ConversationItem& item) { return item.kind() == v1::CONVERSATION_PERMISSION || item.kind() == v1::CONVERSATION_QUESTION; }

} // namespace

chat_session::chat_session(outlet out, std::string title, std::size_t columns, bool colours)
  : out_(std::move(out)), title_(std::move(title)), screen_(columns, colours) {}

void chat_session::start() {
  out_.write("\x1b[?2004h"); // pastes are told apart from what is typed
  draw();
}

void chat_session::show(const chat_text& text) {
  if (live_) {
    if (!text.empty())
      out_.write(screen_.lines(text));
    return;
  }
  past_.insert(past_.end(), text.begin(), text.end());
  while (past_.size() > limits::chat_past_lines_max) {
    past_.pop_front();
    past_cut_ = true;
  }
}

void chat_session::take(const v1::ConversationChunk& chunk) {
  if (away_)
    away(false);
  past_cut_ |= chunk.resumed().skipped() > 0 && !live_;
  if (chunk.has_resumed() && !chunk.resumed().gap().empty()) {
    parts_.forget();
    open_text_.clear();
    show(chat_lines::gap(chunk.resumed()));
  }
  if (chunk.has_item())
    if (auto whole = parts_.take(chunk.item()))
      take_item(*whole);
  if (chunk.has_delta())
    take_delta(chunk.delta());
  if (chunk.has_caught_up())
    caught_up();
  if (chunk.has_state())
    take_state(chunk.state());
}

void chat_session::caught_up() {
  if (std::exchange(live_, true))
    return;
  chat_text text;
  if (past_cut_)
    text.push_back({colour::dim, "… what was said before: swarmctl chat read " + title_});
  text.insert(text.end(), past_.begin(), past_.end());
  past_.clear();
  out_.write(screen_.lines(text));
  for (const auto& [id, item] : asked_)
    out_.wish({.what = chat_wish::kind::look, .approval_id = id});
  // Some may have been asked before what is shown.
  out_.wish({.what = chat_wish::kind::look_open});
}

void chat_session::take_request(const v1::ConversationItem& item) {
  if (item.state() == "asked") {
    if (item.approval_id().empty())
      return show(lines_.of(item));
    by_native_[item.id()] = item.approval_id();
    asked_[item.approval_id()] = item;
    if (live_)
      out_.wish({.what = chat_wish::kind::look, .approval_id = item.approval_id()});
    return;
  }
  const auto known = by_native_.find(item.id());
  const auto id = !item.approval_id().empty() ? item.approval_id() : known != by_native_.end() ? known->second : std::string{};
  if (!live_)
    if (auto asked = asked_.find(id); asked != asked_.end())
      show(lines_.of(asked->second));
  auto end = item;
  if (const auto asked = asked_.find(id); asked != asked_.end()) {
    end.set_title(asked->second.title());
    end.set_approval_id(id);
  }
  forget(id);
  auto text = lines_.of(end);
  if (live_ && !id.empty() && !mine_.contains(id) && item.state() != "withdrawn")
    for (auto& line : text)
      line.text += "  (decided elsewhere)";
  show(text);
  ask_next();
}

void chat_session::take_streamed(const v1::ConversationItem& item) {
  const auto shown = std::exchange(open_text_, {});
  const auto begin = std::exchange(open_begin_, 0);
  if (begin > 0 || !item.body().starts_with(shown)) {
    show({{colour::dim, "… the whole of it:"}});
    return show(lines_.of(item));
  }
  stream(std::string_view{item.body()}.substr(shown.size()), item.kind());
  end_stream();
  if (item.aborted())
    show({{colour::yellow, "  (cut off)"}});
}

void chat_session::take_item(const v1::ConversationItem& item) {
  if (is_request(item))
    return take_request(item);
  if (item.kind() == v1::CONVERSATION_USER)
    if (const auto mine = unheard_.find(item.body()); mine != unheard_.end())
      unheard_.erase(mine);
  if (item.kind() == v1::CONVERSATION_NOTICE && (item.title() == "undelivered" || item.title() == "outcome-unknown"))
    unheard_.clear();
  // What an agent does beside the text that it says does not end that text.
  const bool is_open = live_ && !open_text_.empty() && item.kind() == open_kind_ && !item.nested() && (open_id_.empty() || item.id() == open_id_);
  is_open ? take_streamed(item) : show(lines_.of(item));
  if (live_)
    said_behind();
}

void chat_session::take_delta(const v1::ConversationDelta& d) {
  if (!live_)
    return;
  const auto end = open_begin_ + open_text_.size();
  const bool is_same = d.kind() == open_kind_ && (d.id().empty() || open_id_.empty() || d.id() == open_id_);
  if (!is_same || open_text_.empty() || d.offset() > end || d.offset() < open_begin_) {
    if (!open_text_.empty())
      end_stream();
    if (d.offset() > (is_same && !open_text_.empty() ? end : 0))
      show({{colour::dim, "…"}});
    open_kind_ = d.kind();
    open_id_ = d.id();
    open_text_.clear();
    open_begin_ = d.offset();
  }
  // After a reconnection the begin comes again.
  const auto known = open_begin_ + open_text_.size() - d.offset();
  if (known >= d.text().size())
    return;
  const auto fresh = d.text().substr(known);
  open_text_ += fresh;
  stream(fresh, d.kind());
}

void chat_session::stream(std::string_view more, v1::ConversationItemKind kind) {
  const bool is_thought = kind == v1::CONVERSATION_THOUGHT;
  if (const auto text = said_.take(more); !text.empty())
    out_.write(screen_.stream(text, is_thought ? colour::dim : colour::none));
  said_behind();
}

void chat_session::end_stream() {
  if (const auto rest = said_.end(); !rest.empty())
    out_.write(screen_.stream(rest, colour::none));
  out_.write(screen_.end_stream());
}

void chat_session::said_behind() {
  if (!waiting_.empty() && waiting_.front().shown_at_ms != 0)
    said_behind_ms_ = out_.now_ms();
}

bool chat_session::asks_again() {
  if (!std::exchange(said_behind_ms_, std::nullopt) || waiting_.empty() || waiting_.front().shown_at_ms == 0)
    return false;
  held_.reset();
  waiting_.front().shown_at_ms = 0;
  ask_next();
  return true;
}

void chat_session::take_state(const v1::Conversation& c) {
  const auto before = std::exchange(state_, c);
  if (c.state() == v1::Conversation::ENDED || c.state() == v1::Conversation::LOST)
    unheard_.clear();
  if (c.state() != before.state() && !c.reason().empty() &&
      (c.state() == v1::Conversation::SUSPENDED || c.state() == v1::Conversation::ENDED || c.state() == v1::Conversation::LOST))
    show({{colour::yellow, concat({"! ", mcp::conversation_state(c.state()), ": ", c.reason()})}});
  draw();
}

void chat_session::found(const v1::Approval& a) {
  const auto item = asked_.find(a.id());
  const bool is_known = item != asked_.end();
  const bool waits = std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& q) { return q.approval().id() == a.id(); });
  const bool is_open = a.decided_at_ms() == 0;
  // The end of what the conversation asks is told by its log; of a question by ask_person this tells it.
  if (over_.contains(a.id()) || (waits && (is_open || !a.conversation_id().empty())) || (is_open && mine_.contains(a.id())))
    return;
  if (!is_open) {
    if (is_known)
      show({{colour::yellow, concat({"? ", item->second.title()})},
            {colour::yellow, a.decision().empty() ? std::string{"  it is over: nobody waits for an answer"}
                                                  : concat({"  ", a.decision(), " by ", name_of(a.decided_by())})}});
    forget(a.id());
    return ask_next();
  }
  // The log has the body of a row that has none; a body that is too long for both is in a blob.
  auto body = a.body().empty() && is_known && a.body_bytes() == 0 ? item->second.body() : a.body();
  if (!is_known)
    asked_[a.id()].set_title(a.title());
  waiting_.emplace_back(a, std::move(body));
  if (waiting_.size() == 1)
    ask_next();
}

void chat_session::not_found(const std::string& approval_id) {
  if (const auto item = asked_.find(approval_id); item != asked_.end())
    show(lines_.of(item->second));
}

void chat_session::ask_next() {
  if (waiting_.empty() || waiting_.front().shown_at_ms != 0)
    return draw();
  auto& q = waiting_.front();
  q.shown_at_ms = std::max<std::int64_t>(out_.now_ms(), 1);
  said_behind_ms_.reset();
  show(q.lines(unix_ms()));
  draw();
}

void chat_session::forget(const std::string& approval_id) {
  if (approval_id.empty())
    return;
  asked_.erase(approval_id);
  over_.insert(approval_id);
  const bool is_asked = !waiting_.empty() && waiting_.front().approval().id() == approval_id;
  if (is_asked)
    gone_ = waiting_.front();
  std::erase_if(waiting_, [&](const auto& q) { return q.approval().id() == approval_id; });
  // The words were for that answer: Enter must not make a prompt of them.
  if (is_asked && (words_for_ || held_)) {
    words_for_.reset();
    held_.reset();
    stale_words_ = !editor_.empty();
  }
}

void chat_session::act_on(chat_question::outcome o) {
  auto& q = waiting_.front();
  switch (o) {
    case chat_question::outcome::decided: {
      const auto id = q.approval().id();
      mine_.insert(id);
      out_.wish({.what = chat_wish::kind::decide, .approval_id = id, .decision = q.decision()});
      waiting_.pop_front();
      return ask_next();
    }
    case chat_question::outcome::next: q.shown_at_ms = 0; return ask_next();
    case chat_question::outcome::denial_words:
    case chat_question::outcome::own_words: words_for_ = o; break;
    default: break;
  }
  draw();
}

bool chat_session::is_answerable() const {
  return !waiting_.empty() && !words_for_ && !stale_words_ && out_.now_ms() - waiting_.front().shown_at_ms >= key_pause_ms;
}

bool chat_session::answers(char key) {
  if (!is_answerable() || !editor_.at_begin() || asks_again())
    return false;
  if (!waiting_.front().meaning(key).empty()) {
    held_ = pressed{key, out_.now_ms()};
    return false;
  }
  const auto outcome = waiting_.front().press(key);
  if (outcome == chat_question::outcome::ignored)
    return false;
  act_on(outcome);
  return true;
}

void chat_session::answer_by(char key) {
  held_.reset();
  editor_.clear();
  act_on(waiting_.front().press(key));
}

bool chat_session::answer_by_line() {
  if (waiting_.empty() || words_for_ || stale_words_ || !waiting_.front().are_keys(editor_.line()))
    return false;
  // It has just come, or comes again: the line stays, and the next Enter counts.
  if (!is_answerable() || asks_again())
    return true;
  const auto keys = editor_.line();
  held_.reset();
  editor_.clear();
  act_on(waiting_.front().press_all(keys));
  return true;
}

std::optional<std::int64_t> chat_session::countdown_ms() const {
  if (!out_.unix_ms || waiting_.empty() || waiting_.front().shown_at_ms == 0 || waiting_.front().approval().deadline_ms() <= unix_ms())
    return std::nullopt;
  constexpr std::int64_t second_ms = 1'000, minute_ms = 60'000;
  const auto left = waiting_.front().approval().deadline_ms() - unix_ms();
  return out_.now_ms() + left % (left > 11 * minute_ms ? minute_ms : second_ms) + 1;
}

std::optional<std::int64_t> chat_session::due_ms() const {
  const auto counted = countdown_ms();
  constexpr auto never = std::numeric_limits<std::int64_t>::max();
  const auto due =
    std::min({held_ ? held_->at_ms + key_pause_ms : never, said_behind_ms_ ? *said_behind_ms_ + key_pause_ms : never, counted.value_or(never)});
  return due == never ? std::nullopt : std::optional{due};
}

void chat_session::pass() {
  const bool is_answered = held_ && out_.now_ms() >= held_->at_ms + key_pause_ms;
  if ((is_answered || (said_behind_ms_ && out_.now_ms() >= *said_behind_ms_ + key_pause_ms)) && asks_again())
    return;
  if (is_answered)
    return answer_by(held_->key);
  if (countdown_ms())
    draw();
}

bool chat_session::has_work() const {
  switch (state_.state()) {
    case v1::Conversation::STARTING:
    case v1::Conversation::RUNNING:
    case v1::Conversation::BLOCKED: return true;
    default: return !state_.held() && (state_.queued() > 0 || !unheard_.empty());
  }
}

bool chat_session::interrupt() {
  const auto now_ms = out_.now_ms();
  if (words_for_ || !editor_.empty()) {
    words_for_.reset();
    stale_words_ = false;
    editor_.clear();
    draw();
    return true;
  }
  if (interrupted_at_ms_ && now_ms - *interrupted_at_ms_ < leave_pause_ms)
    return false;
  interrupted_at_ms_ = now_ms;
  if (has_work()) {
    out_.wish({.what = chat_wish::kind::interrupt});
    show({{colour::dim, "  interrupting; ^C again, or ^D, leaves"}});
  } else {
    show({{colour::dim, "  nothing runs; ^C again, or ^D, leaves"}});
  }
  return true;
}

void chat_session::submit() {
  if (answer_by_line())
    return draw();
  auto text = editor_.take();
  // Of several choices that were typed one after the other none was a line of keys.
  const bool is_late = gone_ && (gone_->are_keys(text) || (gone_->takes_numbers() && text.find_first_not_of("123456789") == text.npos));
  gone_.reset();
  if ((std::exchange(stale_words_, false) || is_late) && !text.empty())
    return show({{colour::yellow, "! not sent: it was an answer, and somebody else has decided; the arrow up brings it back"}});
  if (const auto asked = std::exchange(words_for_, std::nullopt))
    return act_on(waiting_.front().say(text, *asked));
  if (trimmed(text).empty())
    return draw();
  if (!is_utf8(text))
    return show({{colour::yellow, "! not sent: it is not UTF-8; the arrow up brings it back"}});
  if (state_.state() == v1::Conversation::RUNNING || state_.state() == v1::Conversation::BLOCKED || state_.queued() > 0)
    show({{colour::dim, "  waits for its turn: " + text.substr(0, text.find('\n'))}});
  unheard_.insert(text);
  state_.set_held(false);
  out_.wish({.what = chat_wish::kind::prompt, .text = std::move(text)});
  draw();
}

bool chat_session::type(std::string_view bytes) {
  for (auto c : bytes) {
    held_.reset(); // another one follows it
    // What comes with other bytes is the begin of a text, or a paste.
    if (bytes.size() == 1 && answers(c))
      continue;
    switch (editor_.feed(c)) {
      case line_editor::event::none: break;
      case line_editor::event::changed: break;
      case line_editor::event::redraw:
        out_.write("\x1b[2J\x1b[H");
        said_behind(); // what is asked has left the screen
        break;
      case line_editor::event::submitted: submit(); break;
      case line_editor::event::end: return false;
      case line_editor::event::interrupt:
        if (!interrupt())
          return false;
        break;
    }
  }
  draw();
  return true;
}

void chat_session::failed(const chat_wish& wish, const std::string& why, bool may_have_arrived) {
  if (has_left_ && (wish.what == chat_wish::kind::look || wish.what == chat_wish::kind::look_open))
    return;
  chat_text text;
  if (wish.what == chat_wish::kind::prompt) {
    if (const auto mine = unheard_.find(wish.text); mine != unheard_.end())
      unheard_.erase(mine);
    text.push_back(
      {colour::red, (may_have_arrived ? "! nobody knows whether this was sent: " : "! not sent: ") + wish.text.substr(0, wish.text.find('\n'))});
    if (may_have_arrived)
      text.push_back({colour::red, "! before you send it again, see: swarmctl chat prompts " + title_});
  }
  if (wish.what == chat_wish::kind::decide)
    text.push_back({colour::red, may_have_arrived ? concat({"! nobody knows whether this is decided; see: swarmctl approvals ", wish.approval_id})
                                                  : std::string{"! not decided by you"}});
  if (wish.what == chat_wish::kind::look)
    text.push_back({colour::red, concat({"! it cannot be shown here; see: swarmctl approvals ", wish.approval_id})});
  if (wish.what == chat_wish::kind::interrupt)
    text.push_back({colour::red, "! not interrupted"});
  has_lost_ |= has_left_;
  mine_.erase(wish.approval_id);
  auto reason = lines_of_text(why, colour::red, "! ");
  text.insert(text.end(), reason.begin(), reason.end());
  show(text);
}

void chat_session::left(bool is_sending, bool what_was_typed) {
  has_left_ = true;
  if (is_sending)
    show({{colour::dim, what_was_typed ? "  sending what you typed; ^C gives up" : "  interrupting; ^C gives up"}});
}

void chat_session::away(bool is_away) {
  if (std::exchange(away_, is_away) == is_away)
    return;
  show({{colour::yellow,
         is_away ? "! the node is away; this goes on when it is back. Unless it was stopped, the agent goes on meanwhile" : "! the node is back"}});
  draw();
}

std::string chat_session::hint() const {
  if (words_for_)
    return *words_for_ == chat_question::outcome::denial_words ? "deny, because> " : "answer> ";
  if (stale_words_)
    return "decided elsewhere> ";
  if (held_ && !waiting_.empty())
    return concat({waiting_.front().meaning(held_->key), "? "});
  const auto left = waiting_.empty() ? std::string{} : time_left(waiting_.front().approval(), unix_ms());
  if (!waiting_.empty() && waiting_.front().shown_at_ms != 0)
    return concat({waiting_.front().hint(), left.empty() ? "" : "  ", left, "> "});
  if (away_)
    return "away> ";
  const auto queued = state_.queued() > 0 ? concat({", ", state_.queued(), state_.held() ? " held" : " queued"}) : std::string{};
  // What is usual needs no word.
  const auto p = state_.permissions();
  const auto rule = p == v1::Conversation::ASK || p == v1::Conversation::PERMISSIONS_UNSPECIFIED ? std::string{} : concat({", ", domain::to_text(p)});
  return state_.id().empty() ? "> " : concat({mcp::conversation_state(state_.state()), queued, rule, "> "});
}

void chat_session::draw() { out_.write(screen_.typing(hint(), editor_.line(), editor_.place())); }

} // namespace swarm::cli
