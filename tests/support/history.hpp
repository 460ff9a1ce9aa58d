// What clients saw, and whether some order of operations explains it.
//
// The search is that of Wing and Gong (1993) with Lowe's memoisation (2017): an order is extended one operation at a time, trying
// only operations that began before every open one ended, and no pair of (operations placed, state of the model) is visited twice.
// Histories of different objects are checked one by one. An operation whose outcome its client never learned has no end: it may take
// effect at any later moment, or never.
#pragma once

#include <cstdint>
#include <fstream>
#include <iosfwd>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace swarm::history {

inline constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

/// What a client asked; which fields count depends on the model.
struct call {
  std::string op;
  std::string who;
  std::string text;
  std::uint64_t number = 0;
};

/// What a refusal says whose reason is that the session of the one who asked has ended.
inline constexpr auto told_gone = "the session has ended";

struct answer {
  bool ok = false; // false: refused, so it did not happen
  std::string text;
  std::uint64_t number = 0;
};

struct operation {
  std::string model;
  std::string object;
  call in;
  std::optional<answer> out; // nullopt: the client never learned the outcome
  std::int64_t called = 0;
  std::int64_t returned = never;
};

/// Collects operations of many threads. Each is also a pair of JSON lines in `path`, if given, so that a run can be checked again:
/// {"type": invoke|ok|fail|unknown, "id", "at", and with invoke "model", "object", "op", "who"; "text", "number"}.
class recorder {
public:
  explicit recorder(const std::string& path = {});
  std::size_t invoke(std::string model, std::string object, call in);
  void ok(std::size_t id, std::string text = {}, std::uint64_t number = 0);
  void fail(std::size_t id, std::string text = {});
  void unknown(std::size_t id);
  /// Of what happens by itself between two moments (ns of the steady clock).
  void happens(std::string model, std::string object, call in, std::int64_t earliest, std::int64_t latest);
  /// Of an operation whose effect is not known: if it had one, it has had it by now.
  void over(std::size_t id);
  /// Operations that never returned count as unknown.
  std::vector<operation> operations() const;

private:
  std::size_t begin(std::string model, std::string object, call in, std::int64_t at);
  void finish(std::size_t id, answer, std::int64_t at);
  /// Strictly increasing, so that "returned before" is never a tie.
  std::int64_t stamp();

  mutable std::mutex mutex_;
  std::ofstream out_;
  std::vector<operation> all_;
  std::int64_t last_ = 0;
};

/// Reads what a recorder wrote. Throws std::runtime_error at a line that it did not write.
std::vector<operation> read(std::istream&);

struct verdict {
  bool accepted = false;
  bool exhausted = false;           // the budget was used up: undecided, which counts as rejected
  std::vector<std::size_t> longest; // indices of the longest order found
  std::size_t visited = 0;
};

/// Model: `struct state` with ==, `std::string bytes(state)` (equal states, equal bytes) and
/// `std::optional<state> step(state, const call&, const answer*)`: nullopt when that answer is impossible; null accepts every answer.
template <class Model>
verdict check(std::span<const operation> history, std::size_t budget = 3'000'000) {
  struct frame {
    std::size_t chosen;
    typename Model::state before;
  };
  verdict out;
  const Model model;
  std::string done(history.size(), '0');
  std::size_t open_known = 0;
  for (const auto& o : history)
    open_known += o.out.has_value();
  std::unordered_set<std::string> seen;
  std::vector<frame> stack;
  typename Model::state state{};
  std::size_t candidate = 0;
  auto order = [&] {
    std::vector<std::size_t> v;
    for (const auto& f : stack)
      v.push_back(f.chosen);
    return v;
  };
  // What has no answer may be left out, and is left out for good once something was asked after it was over.
  auto latest_call = [&] {
    auto latest = std::numeric_limits<std::int64_t>::min();
    for (const auto& f : stack)
      latest = std::max(latest, history[f.chosen].called);
    return latest;
  };
  for (;;) {
    if (open_known == 0) {
      out.accepted = true;
      out.longest = order();
      return out;
    }
    auto horizon = never; // the earliest end among the operations still to place
    for (std::size_t i = 0; i < history.size(); ++i)
      if (done[i] == '0' && history[i].out)
        horizon = std::min(horizon, history[i].returned);
    const auto latest = latest_call();
    bool advanced = false;
    for (; candidate < history.size() && !advanced; ++candidate) {
      const auto& o = history[candidate];
      if (done[candidate] == '1' || o.called > horizon || (!o.out && o.returned < latest))
        continue;
      auto after = model.step(state, o.in, o.out ? &*o.out : nullptr);
      if (!after)
        continue;
      done[candidate] = '1';
      if (++out.visited > budget) {
        out.exhausted = true;
        return out;
      }
      if (!seen.insert(done + Model::bytes(*after)).second) {
        done[candidate] = '0';
        continue;
      }
      stack.push_back({candidate, std::move(state)});
      state = std::move(*after);
      open_known -= o.out.has_value();
      advanced = true;
    }
    if (stack.size() > out.longest.size())
      out.longest = order();
    if (advanced) {
      candidate = 0;
      continue;
    }
    if (stack.empty())
      return out;
    auto top = std::move(stack.back());
    stack.pop_back();
    done[top.chosen] = '0';
    open_known += history[top.chosen].out.has_value();
    state = std::move(top.before);
    candidate = top.chosen + 1;
  }
}

// -- models ------------------------------------------------------------------------------

// Of locks and tasks: end(who) when the session has ended. What it held is free, and it gets nothing any more; it may be told so from then
// on only.

/// "lock": acquire(who) -> fence; release(who, fence or 0) -> the fence it had. Fences only grow; a refusal needs a holder, a refused
/// release must not have been the holder's.
struct lock_model {
  struct state {
    bool held = false;
    std::string holder;
    std::uint64_t fence = 0; // 0: granted to a client that never learned of it
    std::uint64_t last = 0;  // no later fence may be at or below this
    std::set<std::string> gone = {};
    bool operator==(const state&) const = default;
  };
  static std::string bytes(const state&);
  std::optional<state> step(state, const call&, const answer*) const;
};

/// "task": claim(who) -> fence; complete(who, fence or 0). One claimant, completed once. "get" -> text is the status.
struct task_model {
  struct state {
    enum { open, claimed, done } now = open;
    std::string holder;
    std::uint64_t fence = 0;
    std::set<std::string> gone = {};
    bool operator==(const state&) const = default;
  };
  static std::string bytes(const state&);
  std::optional<state> step(state, const call&, const answer*) const;
};

/// "key": a semantic key of tasks, dispatches and spawns. request -> text is what it stands for, number is 1 when that existed before.
/// The first request makes it, all others are told the same.
struct key_model {
  struct state {
    bool made = false;
    std::string value; // empty: made for a client that never learned of it
    bool operator==(const state&) const = default;
  };
  static std::string bytes(const state&);
  std::optional<state> step(state, const call&, const answer*) const;
};

/// "kv": set(text) -> revision; cas(text, number = expected revision) -> revision; get -> text and revision (0: no such key).
struct register_model {
  struct state {
    std::string value;
    std::uint64_t revision = 0; // with `vague`, the real one is higher
    bool vague = false;
    bool operator==(const state&) const = default;
  };
  static std::string bytes(const state&);
  std::optional<state> step(state, const call&, const answer*) const;
};

/// "approval": decide(text = option), withdraw, expire, which happens by itself at its deadline. The first of them ends it and is the only one that
/// is granted, but that withdrawing what is over changes nothing. get -> text is "open", the option, "expired" or "withdrawn"; one that has expired
/// may still be shown as open.
struct approval_model {
  struct state {
    std::string end; // empty: it is open
    bool operator==(const state&) const = default;
  };
  static std::string bytes(const state&);
  std::optional<state> step(state, const call&, const answer*) const;
};

/// "dedup": one request id. send -> text: every answer, grant or refusal, is the first one again.
struct dedup_model {
  struct state {
    bool answered = false;
    bool ok = false;
    std::string text;
    std::uint64_t number = 0;
    bool operator==(const state&) const = default;
  };
  static std::string bytes(const state&);
  std::optional<state> step(state, const call&, const answer*) const;
};

// -- whole histories -----------------------------------------------------------------------

struct report {
  bool accepted = true;
  std::string why;    // of the first object that cannot be explained
  std::string object; // its name
  std::size_t objects = 0;
  std::size_t operations = 0;
  std::size_t unknown = 0;
  std::size_t visited = 0;
  double milliseconds = 0;
};

/// Every object of every model above. A model of another name is refused, but for "session": end(who) under the session's own name, once it
/// is known that it has ended. It applies to every object the session has to do with: what was asked after it must not have been granted.
report check_all(const std::vector<operation>&);

/// Appends ("append": op append, text = the item; the answer's number is the length after it) against the array found at the end:
/// each acknowledged item stands once and in the place it was told, each unknown one at most once, nothing else. Empty = as it should be.
std::string check_appends(const std::vector<operation>& of_one_key, const std::vector<std::string>& found);

} // namespace swarm::history
