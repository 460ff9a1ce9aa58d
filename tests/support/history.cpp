#include "tests/support/history.hpp"

#include <algorithm>
#include <chrono>
#include <istream>
#include <map>
#include <set>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace swarm::history {

// -- recording -----------------------------------------------------------------------------

recorder::recorder(const std::string& path) {
  if (path.empty())
    return;
  out_.open(path, std::ios::trunc);
  if (!out_)
    throw std::runtime_error("cannot write " + path);
}

std::int64_t recorder::stamp() {
  auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  return last_ = std::max<std::int64_t>(now, last_ + 1);
}

std::size_t recorder::begin(std::string model, std::string object, call in, std::int64_t at) {
  if (out_.is_open())
    out_ << nlohmann::json{{"type", "invoke"}, {"id", all_.size()}, {"at", at},        {"model", model},     {"object", object},
                           {"op", in.op},      {"who", in.who},     {"text", in.text}, {"number", in.number}}
              .dump()
         << std::endl;
  all_.push_back({std::move(model), std::move(object), std::move(in), std::nullopt, at, never});
  return all_.size() - 1;
}

std::size_t recorder::invoke(std::string model, std::string object, call in) {
  std::lock_guard guard{mutex_};
  return begin(std::move(model), std::move(object), std::move(in), stamp());
}

void recorder::happens(std::string model, std::string object, call in, std::int64_t earliest, std::int64_t latest) {
  std::lock_guard guard{mutex_};
  finish(begin(std::move(model), std::move(object), std::move(in), earliest), {true, {}, 0}, latest);
}

void recorder::finish(std::size_t id, answer a, std::int64_t at) {
  auto& o = all_.at(id);
  o.returned = at;
  if (out_.is_open())
    out_ << nlohmann::json{{"type", a.ok ? "ok" : "fail"}, {"id", id}, {"at", o.returned}, {"text", a.text}, {"number", a.number}}.dump()
         << std::endl;
  o.out = std::move(a);
}

void recorder::ok(std::size_t id, std::string text, std::uint64_t number) {
  std::lock_guard guard{mutex_};
  finish(id, {true, std::move(text), number}, stamp());
}

void recorder::fail(std::size_t id, std::string text) {
  std::lock_guard guard{mutex_};
  finish(id, {false, std::move(text), 0}, stamp());
}

void recorder::unknown(std::size_t id) {
  std::lock_guard guard{mutex_};
  if (out_.is_open())
    out_ << nlohmann::json{{"type", "unknown"}, {"id", id}, {"at", stamp()}}.dump() << std::endl;
}

void recorder::over(std::size_t id) {
  std::lock_guard guard{mutex_};
  auto& o = all_.at(id);
  o.returned = stamp();
  if (out_.is_open())
    out_ << nlohmann::json{{"type", "over"}, {"id", id}, {"at", o.returned}}.dump() << std::endl;
}

std::vector<operation> recorder::operations() const {
  std::lock_guard guard{mutex_};
  return all_;
}

std::vector<operation> read(std::istream& in) {
  std::vector<operation> all;
  std::string line;
  while (std::getline(in, line)) {
    auto j = nlohmann::json::parse(line, nullptr, false);
    if (!j.is_object() || !j.contains("type") || !j.contains("id"))
      throw std::runtime_error("not a line of a history: " + line);
    auto id = j["id"].get<std::size_t>();
    auto type = j["type"].get<std::string>();
    if (type == "invoke" && id == all.size()) {
      all.push_back({j.at("model"), j.at("object"), {j.at("op"), j.at("who"), j.at("text"), j.at("number")}, std::nullopt, j.at("at"), never});
    } else if ((type == "ok" || type == "fail") && id < all.size()) {
      all[id].out = answer{type == "ok", j.at("text"), j.at("number")};
      all[id].returned = j.at("at");
    } else if (type == "over" && id < all.size()) {
      all[id].returned = j.at("at");
    } else if (type != "unknown" || id >= all.size()) {
      throw std::runtime_error("not a line of a history: " + line);
    }
  }
  return all;
}

// -- models --------------------------------------------------------------------------------

namespace {

std::string join(std::initializer_list<std::string> parts) {
  std::string out;
  for (const auto& p : parts)
    (out += '\x1f') += p;
  return out;
}

std::string joined(const std::set<std::string>& names) {
  std::string out;
  for (const auto& n : names)
    (out += '\x1e') += n;
  return out;
}

bool is_told_gone(const answer* out) { return out && !out->ok && out->text == told_gone; }

} // namespace

std::string lock_model::bytes(const state& s) {
  return join({s.held ? "1" : "0", s.holder, std::to_string(s.fence), std::to_string(s.last), joined(s.gone)});
}

std::optional<lock_model::state> lock_model::step(state s, const call& in, const answer* out) const {
  const auto gone = s.gone.contains(in.who);
  if (in.op == "end") {
    s.gone.insert(in.who);
    if (s.held && s.holder == in.who)
      return state{false, {}, 0, std::max(s.last, s.fence), std::move(s.gone)};
    return s;
  }
  if (is_told_gone(out))
    return gone ? std::optional{std::move(s)} : std::nullopt;
  if (in.op == "acquire") {
    if (out && out->ok == s.held)
      return std::nullopt;
    if (gone && out && out->ok)
      return std::nullopt;
    if (s.held || gone)
      return s;
    if (out && out->number <= s.last)
      return std::nullopt;
    return state{true, in.who, out ? out->number : 0, out ? out->number : s.last, std::move(s.gone)};
  }
  if (in.op != "release")
    return std::nullopt;
  auto fits = s.held && s.holder == in.who && (in.number == 0 || (s.fence == 0 ? in.number > s.last : in.number == s.fence));
  if (out && out->ok != fits)
    return std::nullopt;
  if (!fits)
    return s;
  auto known = s.fence != 0 ? s.fence : out ? out->number : 0;
  // What a client that never learned of its grant is told on release settles the fence.
  if (out && s.fence != 0 && out->number != s.fence)
    return std::nullopt;
  if (out && s.fence == 0 && out->number <= s.last)
    return std::nullopt;
  return state{false, {}, 0, std::max(s.last, known), std::move(s.gone)};
}

std::string task_model::bytes(const state& s) {
  return join({std::to_string(static_cast<int>(s.now)), s.holder, std::to_string(s.fence), joined(s.gone)});
}

std::optional<task_model::state> task_model::step(state s, const call& in, const answer* out) const {
  const auto gone = s.gone.contains(in.who);
  if (in.op == "end") {
    s.gone.insert(in.who);
    if (s.now == state::claimed && s.holder == in.who)
      return state{state::open, {}, 0, std::move(s.gone)};
    return s;
  }
  if (is_told_gone(out))
    return gone ? std::optional{std::move(s)} : std::nullopt;
  if (in.op == "get") {
    static const char* const names[] = {"open", "claimed", "done"};
    return !out || out->text == names[s.now] ? std::optional{s} : std::nullopt;
  }
  if (in.op == "claim") {
    auto free = s.now == state::open;
    if (out && (out->ok != free || (free && (gone || out->number == 0))))
      return std::nullopt;
    return free && !gone ? state{state::claimed, in.who, out ? out->number : 0, std::move(s.gone)} : s;
  }
  if (in.op != "complete")
    return std::nullopt;
  auto fits = s.now == state::claimed && s.holder == in.who && (in.number == 0 || s.fence == 0 || in.number == s.fence);
  if (out && out->ok != fits)
    return std::nullopt;
  return fits ? state{state::done, {}, 0, std::move(s.gone)} : s;
}

std::string key_model::bytes(const state& s) { return join({s.made ? "1" : "0", s.value}); }

std::optional<key_model::state> key_model::step(state s, const call& in, const answer* out) const {
  if (in.op != "request")
    return std::nullopt;
  if (!out)
    return state{true, s.value};
  if (!out->ok)
    return s;
  if (out->text.empty() || (out->number != 0) != s.made)
    return std::nullopt;
  if (s.made && !s.value.empty() && s.value != out->text)
    return std::nullopt;
  return state{true, out->text};
}

std::string register_model::bytes(const state& s) { return join({s.value, std::to_string(s.revision), s.vague ? "1" : "0"}); }

std::optional<register_model::state> register_model::step(state s, const call& in, const answer* out) const {
  auto could_be = [&](std::uint64_t revision) { return s.vague ? revision > s.revision : revision == s.revision; };
  if (in.op == "get") {
    if (!out)
      return s;
    if (!out->ok || out->text != s.value || !could_be(out->number))
      return std::nullopt;
    return state{s.value, out->number, false};
  }
  if (in.op != "set" && in.op != "cas")
    return std::nullopt;
  if (in.op == "cas") {
    auto fits = could_be(in.number);
    // Of a revision nobody was told, only that it is a higher one is known: both answers are possible.
    if (out && !out->ok)
      return fits && !s.vague ? std::nullopt : std::optional{s};
    if (!fits)
      return out ? std::nullopt : std::optional{s};
  }
  if (!out)
    return state{in.text, s.revision, true};
  if (!out->ok || out->number <= s.revision)
    return std::nullopt;
  return state{in.text, out->number, false};
}

std::string approval_model::bytes(const state& s) { return join({s.end}); }

std::optional<approval_model::state> approval_model::step(state s, const call& in, const answer* out) const {
  const auto is_open = s.end.empty();
  if (in.op == "get") {
    const auto is_passed = s.end == "passed", is_over = s.end == "over";
    if (!out || out->text == (is_open ? "open" : s.end) || ((is_passed || is_over) && out->text == "open"))
      return s;
    if ((out->text == "expired" && (is_passed || is_over)) || (out->text == "withdrawn" && is_over))
      return state{out->text};
    return std::nullopt;
  }
  if (in.op == "decide") {
    if (out && (out->ok != is_open || (out->ok && out->text != in.text)))
      return std::nullopt;
    return is_open ? state{in.text} : std::move(s);
  }
  if (in.op != "withdraw" && in.op != "expire")
    return std::nullopt;
  if (out && !out->ok)
    return std::nullopt;
  if (in.op == "withdraw" && s.end == "passed")
    return state{"over"};
  return is_open ? state{in.op == "expire" ? "passed" : "withdrawn"} : std::move(s);
}

std::string dedup_model::bytes(const state& s) { return join({s.answered ? "1" : "0", s.ok ? "1" : "0", s.text, std::to_string(s.number)}); }

std::optional<dedup_model::state> dedup_model::step(state s, const call& in, const answer* out) const {
  if (in.op != "send")
    return std::nullopt;
  if (!out)
    return s;
  state now{true, out->ok, out->text, out->number};
  if (s.answered && !(s == now))
    return std::nullopt;
  return now;
}

// -- whole histories -----------------------------------------------------------------------

namespace {

using checker = verdict (*)(std::span<const operation>, std::size_t);

std::string describe(const operation& o) {
  auto text = o.in.who + " " + o.in.op + "(" + o.in.text + ", " + std::to_string(o.in.number) + ")";
  if (!o.out)
    return text + " -> unknown";
  return text + " -> " + (o.out->ok ? "ok " : "refused ") + o.out->text + " " + std::to_string(o.out->number);
}

std::string explain(const std::string& name, const std::vector<operation>& ops, const verdict& v) {
  constexpr std::size_t shown = 12;
  auto text = name + (v.exhausted ? ": undecided within the budget" : ": no order explains it") + "; the longest explains " +
              std::to_string(v.longest.size()) + " of " + std::to_string(ops.size());
  auto tail = v.longest.size() > shown ? v.longest.size() - shown : 0;
  for (auto i = tail; i < v.longest.size(); ++i)
    text += "\n  placed: " + describe(ops[v.longest[i]]);
  std::size_t n = 0;
  for (std::size_t i = 0; i < ops.size() && n < shown; ++i)
    if (std::find(v.longest.begin(), v.longest.end(), i) == v.longest.end() && ops[i].out) {
      text += "\n  open:   " + describe(ops[i]);
      ++n;
    }
  return text;
}

using ends_by_session = std::map<std::string, operation>;

/// Ends of sessions go into the histories of locks and tasks. Elsewhere nothing is left of a session that has ended but what it was granted
/// before; so of an operation that cannot have happened nothing is left anywhere. What is wrong about it already; empty: nothing.
std::string put_ends(std::vector<operation>& ops, const ends_by_session& ends, const std::string& model) {
  std::set<std::string> met;
  for (const auto& o : ops) {
    auto end = ends.find(o.in.who);
    if (end != ends.end())
      met.insert(o.in.who);
    if (is_told_gone(o.out ? &*o.out : nullptr) && (end == ends.end() || end->second.called > o.returned))
      return "a session is told that it has ended, and has not: " + describe(o);
    // An answer that was given before is given again.
    if (model != "dedup" && o.out && o.out->ok && end != ends.end() && end->second.returned < o.called)
      return "something is granted to a session that has ended: " + describe(o);
  }
  auto has_row = model == "lock" || model == "task";
  std::erase_if(ops, [&](const operation& o) {
    auto end = ends.find(o.in.who);
    if (end == ends.end())
      return false;
    return (!o.out && end->second.returned < o.called) || (!has_row && is_told_gone(o.out ? &*o.out : nullptr));
  });
  if (has_row)
    for (const auto& who : met)
      ops.push_back(ends.at(who));
  return {};
}

} // namespace

report check_all(const std::vector<operation>& all) {
  static const std::map<std::string, checker> models{{"lock", check<lock_model>},         {"task", check<task_model>},
                                                     {"key", check<key_model>},           {"kv", check<register_model>},
                                                     {"approval", check<approval_model>}, {"dedup", check<dedup_model>}};
  auto started = std::chrono::steady_clock::now();
  std::map<std::pair<std::string, std::string>, std::vector<operation>> objects;
  ends_by_session ends;
  for (const auto& o : all)
    if (o.model == "session" && o.in.op == "end")
      ends.emplace(o.in.who, o);
    else if (o.model != "append")
      objects[{o.model, o.object}].push_back(o);
  report r;
  r.objects = objects.size();
  for (auto& [name, ops] : objects) {
    r.operations += ops.size();
    r.unknown += static_cast<std::size_t>(std::count_if(ops.begin(), ops.end(), [](const auto& o) { return !o.out; }));
    auto model = models.find(name.first);
    if (model == models.end())
      throw std::runtime_error("no model " + name.first);
    if (auto wrong = put_ends(ops, ends, name.first); !wrong.empty()) {
      r.accepted = false;
      r.why = name.first + " " + name.second + ": " + wrong;
      r.object = name.second;
      continue;
    }
    auto v = model->second(ops, 3'000'000);
    r.visited += v.visited;
    if (!v.accepted && r.accepted) {
      r.accepted = false;
      r.why = explain(name.first + " " + name.second, ops, v);
      r.object = name.second;
    }
  }
  r.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started).count();
  return r;
}

std::string check_appends(const std::vector<operation>& of_one_key, const std::vector<std::string>& found) {
  std::map<std::string, std::size_t> times;
  for (const auto& item : found)
    ++times[item];
  for (const auto& [item, n] : times)
    if (n > 1)
      return item + " stands " + std::to_string(n) + " times";
  for (const auto& o : of_one_key) {
    if (o.out && o.out->ok && (o.out->number == 0 || o.out->number > found.size() || found[o.out->number - 1] != o.in.text))
      return o.in.text + " was acknowledged as number " + std::to_string(o.out->number) + " and is not there";
    if (o.out && !o.out->ok && times.contains(o.in.text))
      return o.in.text + " was refused and is there";
    times.erase(o.in.text);
  }
  return times.empty() ? "" : times.begin()->first + " was never sent";
}

} // namespace swarm::history
