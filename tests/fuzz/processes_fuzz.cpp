// What is read from /proc, and what the keeper decides on it: whom a signal to a worker reaches.
#include <algorithm>
#include <map>
#include <set>

#include "actors/base/process.hpp"
#include "services/keeper/subtree.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

bool same(const process_stat& a, const process_stat& b) {
  return a.pid == b.pid && a.state == b.state && a.parent == b.parent && a.group == b.group && a.session == b.session && a.terminal == b.terminal &&
         a.start == b.start;
}

/// As the kernel writes it, whatever the program calls itself.
std::string line_of(const process_stat& p, const std::string& name) {
  auto out = std::to_string(p.pid) + " (" + name + ") " + p.state;
  for (auto n : {p.parent, p.group, p.session, p.terminal})
    out += " " + std::to_string(n);
  for (int i = 0; i < 14; ++i)
    out += i % 2 == 0 ? " 4194560" : " -1";
  return out + " " + std::to_string(p.start) + " 1003520 196 18446744073709551615\n";
}

void check_stat(const std::string& text) {
  auto p = parse_process_stat(7, text);
  SWARM_HOLDS(p.has_value() <= (text.find(')') != text.npos));
  if (!p)
    return;
  SWARM_HOLDS(p->pid == 7);
  for (const auto& name : {std::string{"sh"}, std::string{") R 1 1 1"}, text}) {
    auto again = parse_process_stat(7, line_of(*p, name));
    SWARM_HOLDS(again && same(*again, *p));
  }
}

void check_environment(const std::string& block, const std::string& name) {
  auto value = variable_in(block, name);
  if (value) {
    SWARM_HOLDS(value->find('\0') == value->npos);
    SWARM_HOLDS((std::string(1, '\0') + block + '\0').find(std::string(1, '\0') + name + "=" + *value + '\0') != block.npos);
  }
  // The first one wins.
  if (name.find('\0') == name.npos && name.find('=') == name.npos)
    SWARM_HOLDS(variable_in(name + "=first" + std::string(1, '\0') + block, name) == "first");
}

constexpr pid_t keeper_pid = 1;

struct machine {
  std::vector<process_stat> all;
  std::map<pid_t, std::string> markers;
  keeper::main_children mains;

  /// Few numbers, so that there are trees, cycles and numbers used twice.
  explicit machine(fuzz::input& in) {
    for (auto n = in.byte() % 32; n > 0; --n) {
      process_stat p;
      p.pid = in.byte() % 16;
      p.parent = in.byte() % 16;
      p.session = in.byte() % 16;
      p.start = in.byte();
      p.state = in.byte() % 4 == 0 ? 'Z' : 'S';
      if (auto marker = in.byte() % 4; marker > 0)
        markers[p.pid] = std::string(1, static_cast<char>('a' + marker));
      // Its own child is what the keeper knows best: also when it is gone.
      if (in.byte() % 4 == 0 && p.pid != keeper_pid)
        mains[p.pid] = p.start;
      all.push_back(p);
    }
  }

  std::vector<process_stat> members(const keeper::subtree& tree) const {
    auto marker = [this](pid_t pid) {
      auto i = markers.find(pid);
      return i == markers.end() ? std::nullopt : std::optional{i->second};
    };
    return keeper::members_among(all, marker, tree, keeper_pid, mains);
  }
  const process_stat* find(pid_t pid) const {
    auto i = std::find_if(all.begin(), all.end(), [pid](const auto& p) { return p.pid == pid; });
    return i == all.end() ? nullptr : &*i;
  }
  /// The child of the keeper it descends from, read naively.
  const process_stat* root_of(const process_stat& p) const {
    std::set<pid_t> seen;
    const auto* at = &p;
    while (at != nullptr && at->parent != keeper_pid) {
      const auto* parent = seen.insert(at->pid).second ? find(at->parent) : nullptr;
      at = parent != nullptr && parent->start <= at->start ? parent : nullptr;
    }
    return at;
  }
};

/// What an earlier keeper left is never below this one, and all of it that is marked is found.
void check_remains(const machine& m) {
  std::set<pid_t> found;
  for (const auto& p : m.members(keeper::remains_of("b", {}))) {
    SWARM_HOLDS(found.insert(p.pid).second);
    SWARM_HOLDS(p.pid != keeper_pid && !p.is_dead() && m.root_of(p) == nullptr);
  }
  for (const auto& [pid, marker] : m.markers) {
    const auto* p = m.find(pid);
    if (marker == "b" && p != nullptr && pid != keeper_pid && !p->is_dead() && m.root_of(*p) == nullptr)
      SWARM_HOLDS(found.count(pid) == 1);
  }
}

void check_members(fuzz::input& in) {
  machine m{in};
  std::vector<keeper::subtree> trees{{0, 0, "", true}};
  for (const auto& [pid, start] : m.mains)
    trees.push_back({pid, start, in.byte() % 2 == 0 ? m.markers[pid] : std::string{}, false});
  for (const auto& tree : trees) {
    std::set<pid_t> found;
    for (const auto& p : m.members(tree)) {
      SWARM_HOLDS(found.insert(p.pid).second);
      SWARM_HOLDS(p.pid != keeper_pid && !p.is_dead());
      const auto* root = m.root_of(p);
      SWARM_HOLDS(root != nullptr && root->start <= p.start);
      auto of_another = m.mains.find(root->pid);
      SWARM_HOLDS(tree.everything || root->pid == tree.main || of_another == m.mains.end() || of_another->second != root->start);
    }
    for (const auto& p : m.all) {
      const auto* root = &p == m.find(p.pid) && p.pid != keeper_pid && !p.is_dead() ? m.root_of(p) : nullptr;
      if (root != nullptr && (tree.everything || (root->pid == tree.main && root->start == tree.start)))
        SWARM_HOLDS(found.count(p.pid) == 1);
    }
  }
  check_remains(m);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  switch (in.byte() % 3) {
    case 0: check_stat(in.rest()); break;
    case 1: {
      auto name = in.piece();
      check_environment(in.rest(), name);
      break;
    }
    default: check_members(in);
  }
  return 0;
}
