// __complete: what may stand at the end of a command line. The scripts of `swarmctl completion` ask it. It never starts a node, has a short
// deadline, and says nothing when it cannot answer.
#include "actors/base/limits.hpp"
#include "actors/base/secrets.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/config.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/rules.hpp"
#include "cli/persons.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/reference.hpp"
#include "cli/verbs/routine.hpp"
#include "cli/worktree/store.hpp"
#include "gateway/json/conversation.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

namespace swarm::cli {

namespace {

/// What is offered in the place of the last word.
class offers {
public:
  /// `head` stays in front of what is offered: "--status=", or what stands before a comma.
  offers(std::string head, std::string begun) : head_(std::move(head)), begun_(std::move(begun)) {}

  const std::string& begun() const noexcept { return begun_; }
  void add(const std::string& word, const std::string& remark = {}) {
    if (is_plain(word) && word.starts_with(begun_) && seen_++ < limits::completion_offers_max)
      text_ += concat({head_, word, "\t", utf8_prefix(one_line(remark), limits::completion_remark_bytes_max), "\n"});
  }
  /// The words of a text such as "review, implement, fix".
  void add_all(std::string_view list) {
    for (std::size_t at = 0; at <= list.size();) {
      auto end = std::min(list.find(", ", at), list.size());
      add(std::string{list.substr(at, end - at)});
      at = end + 2;
    }
  }
  void add_flag(const std::string& name, const std::string& remark) {
    auto word = "--" + name;
    const bool is_there = concat({"\n", text_}).find(concat({"\n", head_, word, "\t"})) != std::string::npos;
    if (word.starts_with(begun_) && !is_there && seen_++ < limits::completion_offers_max)
      text_ += concat({head_, word, "\t", utf8_prefix(one_line(remark), limits::completion_remark_bytes_max), "\n"});
  }
  /// By its first characters, or whole once more of it has been typed.
  void add_id(const std::string& id, const std::string& remark) { add(begun_.size() > short_id(id).size() ? id : short_id(id), remark); }
  /// The shell looks itself: ":files", ":directories", ":program".
  void leave_to_shell(std::string_view how) { text_ = std::string{how} + '\n'; }
  const std::string& text() const noexcept { return text_; }

private:
  /// Needs no quotes in any shell, is no option and nothing that the scripts take for a sign. Others chose most of these words.
  static bool is_plain(const std::string& word) {
    constexpr std::string_view marks = "_.,:/@%+-";
    return !word.empty() && word.front() != '-' && word.front() != ':' && std::all_of(word.begin(), word.end(), [&](unsigned char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || marks.find(static_cast<char>(c)) != marks.npos;
    });
  }
  static std::string one_line(const std::string& text) {
    auto out = escape_control(text, false);
    std::replace(out.begin(), out.end(), '\t', ' ');
    return out;
  }

  std::string head_;
  std::string begun_;
  std::string text_;
  std::size_t seen_ = 0;
};

// -- what there is of each kind ----------------------------------------------------------

void offer_files(const invocation&, offers& out) { out.leave_to_shell(":files"); }

void offer_directories(const invocation&, offers& out) { out.leave_to_shell(":directories"); }

void offer_tasks(const invocation& cli, offers& out) {
  auto query = cli.query();
  query.mutable_task_snapshot()->set_terminal_limit(static_cast<std::uint32_t>(limits::completion_ended_tasks_max));
  auto found = cli.ask(query).snapshot().tasks();
  auto order = [](const v1::Task& t) { return std::pair{domain::is_terminal(t.status()), -t.created_at_ms()}; };
  std::sort(found.begin(), found.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
  for (const auto& t : found)
    out.add_id(t.id(), std::string{domain::to_text(t.status())} + ": " + t.title());
  if (!found.empty())
    out.add(std::string{last_word}, "the newest");
}

void offer_statuses(const invocation&, offers& out) {
  for (int i = v1::OPEN; i <= v1::TaskStatus_MAX; ++i)
    out.add(domain::to_text(static_cast<v1::TaskStatus>(i)));
}

void offer_ends(const invocation&, offers& out) {
  for (auto status : {v1::DONE, v1::FAILED, v1::CANCELLED})
    out.add(domain::to_text(status));
}

void offer_permissions(const invocation&, offers& out) { out.add_all("ask, auto-edit, auto, plan, deny"); }

void offer_driven(const invocation&, offers& out) {
  for (auto agent : domain::agents)
    if (domain::is_driven(agent))
      out.add(std::string{agent});
}

void offer_choices(const invocation& cli, offers& out) {
  std::set<std::string> all;
  for (const auto& a : open_approvals(cli, cli.scope()))
    all.insert(a.options().begin(), a.options().end());
  for (const auto& option : all)
    out.add(option);
}

void offer_patterns(const invocation& cli, offers& out) {
  auto query = cli.query();
  query.mutable_list_conversations()->set_open_only(true);
  std::set<std::string> all;
  for (const auto& c : all_rows<v1::Conversation>(cli, std::move(query)))
    all.insert(c.allowed().begin(), c.allowed().end());
  for (const auto& pattern : all)
    out.add(pattern);
}

/// As Claude Code names them, without bypassPermissions, which a conversation refuses.
void offer_modes(const invocation&, offers& out) { out.add_all("default, plan, acceptEdits"); }

void offer_types(const invocation&, offers& out) { out.add_all(domain::task_types_text); }

void offer_terminals(const invocation& cli, offers& out) {
  const auto all = all_terminals(cli, false);
  for (bool running : {true, false}) {
    auto remark = [&](const v1::PtyInfo& p) { return (running ? "running: " : "ended: ") + joined({p.argv().begin(), p.argv().end()}); };
    for (const auto& p : all)
      if (p.running() == running)
        out.add(p.name(), concat({short_id(p.id()), " ", remark(p)}));
    for (const auto& p : all)
      if (p.running() == running)
        out.add_id(p.id(), concat({p.name(), p.name().empty() ? "" : " ", remark(p)}));
  }
  if (!all.empty())
    out.add(std::string{last_word}, "the newest");
}

/// The words of a label that only this session has, such as name:ann, name it as well as its id does.
void offer_sessions(const invocation& cli, offers& out) {
  const auto all = all_sessions(cli, cli.scope());
  auto words_of = [](const v1::Session& s) {
    std::istringstream in{s.label()};
    return std::vector<std::string>{std::istream_iterator<std::string>{in}, {}};
  };
  auto is_only_in = [&](const std::string& word) {
    return std::count_if(all.begin(), all.end(), [&](const auto& s) { return s.label().find(word) != std::string::npos; }) == 1;
  };
  for (const auto& s : all)
    for (const auto& word : words_of(s))
      if (is_only_in(word))
        out.add(word, short_id(s.id()));
  for (const auto& s : all)
    out.add_id(s.id(), s.label());
}

void offer_approvals(const invocation& cli, offers& out) {
  for (const auto& a : open_approvals(cli, cli.scope()))
    out.add_id(a.id(), a.title().empty() ? a.subject() : a.title());
}

void offer_conversations(const invocation& cli, offers& out) {
  auto query = cli.query();
  query.mutable_list_conversations();
  const auto all = all_rows<v1::Conversation>(cli, std::move(query));
  for (bool ended : {false, true})
    for (const auto& c : all)
      if ((c.state() == v1::Conversation::ENDED) == ended)
        out.add_id(c.id(), concat({mcp::conversation_state(c.state()), ": ", c.title()}));
  if (!all.empty())
    out.add(std::string{last_word}, "the newest");
}

void offer_routines(const invocation& cli, offers& out) {
  for (const auto& r : routines::list(places_of(cli))) {
    out.add(r.name, r.content.value.summary);
    // Where two places have one of that name, the whole name says which is meant.
    if (out.begun().find('/') != std::string::npos)
      out.add(r.full_name(), r.content.value.summary);
  }
}

void offer_harnesses(const invocation&, offers& out) { out.add_all(domain::harness_names()); }

void offer_agents(const invocation&, offers& out) {
  for (auto agent : domain::agents)
    out.add(std::string{agent});
}

void offer_nodes(const invocation& cli, offers& out) {
  const auto view = cli.node().admin.nodes();
  for (const auto& n : view.nodes())
    if (n.link() != v1::ClusterNode::REVOKED)
      out.add(n.info().node_name(), counted(n.info().workers(), "worker"));
}

void offer_contexts(const invocation& cli, offers& out) {
  for (const auto& c : read_contexts(contexts_file(cli.env())).contexts)
    out.add(c.name, c.elsewhere() ? "ssh " + c.ssh : c.state_dir);
  out.add(default_context, "the node of this user");
}

void offer_scopes(const invocation& cli, offers& out) {
  v1::Query query;
  *query.mutable_caller() = cli.caller();
  query.mutable_list_scopes();
  const auto answer = cli.ask(query);
  for (const auto& s : answer.scopes().scopes())
    out.add(s.scope());
}

void offer_keys(const invocation& cli, offers& out) {
  auto query = cli.query();
  query.mutable_list_kv();
  const auto answer = cli.ask(query);
  for (const auto& entry : answer.kv_list().entries())
    out.add(entry.key());
}

void offer_subscriptions(const invocation& cli, offers& out) {
  auto query = cli.query();
  query.set_viewer(cli.named_actor_id());
  query.mutable_list_subscriptions();
  const auto answer = cli.ask(query);
  for (const auto& s : answer.subscriptions().subscriptions())
    out.add(s.name());
}

void offer_worktrees(const invocation& cli, offers& out) {
  for (const auto& t : worker_trees{cli.directory()}.list()) {
    out.add_id(t.key(), t.branch);
    out.add(t.branch);
  }
}

/// The sections of config.toml, and the keys of the one that was begun.
void offer_settings(const invocation&, offers& out) {
  const auto& registry = domain::whole_config();
  for (const auto& section : registry.sections())
    out.add(section);
  for (const auto& key : registry.keys)
    if (key.name != "*" && out.begun().starts_with(key.section + '.'))
      out.add(key.full_name(), key.help);
}

/// Names are a person's to see, as swarmctl secret list has it.
void offer_secrets(const invocation& cli, offers& out) {
  if (!why_no_person(cli).empty())
    return;
  for (const auto& name : secret_store{secrets_directory(cli.config_file.parent_path())}.names())
    out.add(name);
}

void offer_shells(const invocation&, offers& out) { out.add_all("bash, zsh, fish"); }

struct kind {
  argument what;
  const char* word; // in help texts
  void (*offer)(const invocation&, offers&);
};

constexpr kind kinds[] = {
  {argument::file, "FILE", offer_files},
  {argument::directory, "DIRECTORY", offer_directories},
  {argument::task, "TASK", offer_tasks},
  {argument::task_status, "STATUS", offer_statuses},
  {argument::end_status, "END", offer_ends},
  {argument::task_type, "TYPE", offer_types},
  {argument::terminal, "TERMINAL", offer_terminals},
  {argument::session, "INSTANCE", offer_sessions},
  {argument::approval, "APPROVAL", offer_approvals},
  {argument::conversation, "CONVERSATION", offer_conversations},
  {argument::routine, "ROUTINE", offer_routines},
  {argument::harness, "HARNESS", offer_harnesses},
  {argument::agent, "AGENT", offer_agents},
  {argument::node, "NODE", offer_nodes},
  {argument::context, "CONTEXT", offer_contexts},
  {argument::scope, "SCOPE", offer_scopes},
  {argument::key, "KEY", offer_keys},
  {argument::subscription, "SUBSCRIPTION", offer_subscriptions},
  {argument::worktree, "WORKTREE", offer_worktrees},
  {argument::shell, "SHELL", offer_shells},
  {argument::setting, "SETTING", offer_settings},
  {argument::secret, "SECRET", offer_secrets},
  {argument::permissions, "PERMISSIONS", offer_permissions},
  {argument::driven, "DRIVEN", offer_driven},
  {argument::choice, "CHOICE", offer_choices},
  {argument::pattern, "PATTERN", offer_patterns},
  {argument::mode, "MODE", offer_modes},
};

const kind* kind_of(const CLI::Option* o) {
  for (const auto& k : kinds)
    if (o != nullptr && o->get_type_name() == k.word)
      return &k;
  return nullptr;
}

// -- where the last word stands ------------------------------------------------------------

bool takes_value(const CLI::Option* o) { return o != nullptr && o->get_items_expected_max() > 0; }

struct position {
  CLI::App* command = nullptr;
  const verb* of = nullptr;        // null before a verb
  CLI::Option* value_of = nullptr; // the option that a value is missing of
  int values = 0;                  // words that are values of no option
  bool after_dashes = false;
  bool in_program = false;
};

/// Global flags count for what is asked, so they are taken as they come.
void take_value(CLI::App& root, CLI::Option* o, const std::string& value) {
  const auto globals = root.get_options();
  if (std::find(globals.begin(), globals.end(), o) == globals.end())
    return;
  o->add_result(value);
  o->run_callback();
}

void pass_over(CLI::App& root, const std::vector<verb>& verbs, const std::string& word, position& at) {
  if (!at.after_dashes && word == "--") {
    at.after_dashes = true;
    at.value_of = nullptr;
    at.in_program = at.of != nullptr && at.command->get_name() == at.of->program_of;
  } else if (!at.after_dashes && word.starts_with("--")) {
    auto equals = word.find('=');
    auto* o = option_of(at.command, word.substr(0, equals));
    at.value_of = takes_value(o) && equals == word.npos ? o : nullptr;
    if (takes_value(o) && equals != word.npos)
      take_value(root, o, word.substr(equals + 1));
  } else if (at.value_of != nullptr) {
    take_value(root, std::exchange(at.value_of, nullptr), word);
  } else if (auto* sub = at.after_dashes || at.values > 0 ? nullptr : subcommand(*at.command, word)) {
    at.command = sub;
    at.of = at.of != nullptr ? at.of : find_verb(verbs, word);
  } else if (at.of != nullptr || word != "help") {
    // After help comes a verb.
    ++at.values;
  }
}

/// The positional argument that the word of this number belongs to.
const CLI::Option* argument_at(const CLI::App& command, int number) {
  for (const auto* o : command.get_options([](const CLI::Option* each) { return each->get_positional(); })) {
    number -= o->get_items_expected_max();
    if (number < 0)
      return o;
  }
  return nullptr;
}

void offer_flags(const CLI::App& command, offers& out) {
  for (const auto* app = &command; app != nullptr; app = app->get_parent())
    for (const auto* o : app->get_options([](const CLI::Option* each) { return each->nonpositional(); }))
      for (const auto& name : o->get_lnames())
        out.add_flag(name, o->get_description());
}

void offer_kind(invocation& cli, const position& at, const kind& k, offers& out) {
  constexpr verb not_yet{"", subject::start, "", "", nullptr};
  const auto& v = at.of != nullptr ? *at.of : not_yet;
  cli.choice = v.node;
  speak_to_chosen(cli, v.only_here);
  k.offer(cli, out);
}

/// Only for words that can stand there: flags are offered to somebody who began one, or where nothing else goes.
void offer_words(invocation& cli, const position& at, offers& out) {
  if (out.begun().starts_with('-') && !at.after_dashes)
    return offer_flags(*at.command, out);
  const bool has_commands = at.values == 0 && !at.after_dashes && !at.command->get_subcommands([](const CLI::App*) { return true; }).empty();
  if (has_commands)
    for (const auto* sub : at.command->get_subcommands([](const CLI::App*) { return true; })) {
      out.add(sub->get_name(), sub->get_description());
      for (const auto& alias : sub->get_aliases())
        out.add(alias, sub->get_description());
    }
  const auto* value = argument_at(*at.command, at.values);
  if (const auto* k = kind_of(value))
    offer_kind(cli, at, *k, out);
  else if (value == nullptr && !has_commands && !at.after_dashes)
    offer_flags(*at.command, out);
}

/// What stands before the last comma of a list stays.
offers offers_for(const std::string& head, const std::string& word, const CLI::Option* o) {
  auto comma = word.rfind(',');
  const auto* k = kind_of(o);
  if (comma == word.npos || k == nullptr || k->what == argument::file || k->what == argument::directory)
    return {head, word};
  return {head + word.substr(0, comma + 1), word.substr(comma + 1)};
}

std::string offered(invocation& cli, const std::vector<std::string>& words) {
  auto root = full_tree(cli);
  const auto verbs = all_verbs();
  position at;
  at.command = root.get();
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    pass_over(*root, verbs, words[i], at);
  const auto last = words.empty() ? std::string{} : words.back();
  if (at.in_program)
    return ":program\n";
  auto head = std::string{};
  auto equals = at.after_dashes || at.value_of != nullptr || !last.starts_with("--") ? last.npos : last.find('=');
  if (equals != last.npos) {
    head = last.substr(0, equals + 1);
    at.value_of = option_of(at.command, last.substr(0, equals));
    if (!takes_value(at.value_of))
      return {};
  }
  if (at.value_of == nullptr) {
    auto out = offers_for("", last, argument_at(*at.command, at.values));
    offer_words(cli, at, out);
    return out.text();
  }
  auto out = offers_for(head, last.substr(head.size()), at.value_of);
  if (const auto* k = kind_of(at.value_of))
    offer_kind(cli, at, *k, out);
  return out.text();
}

int run_complete(invocation& cli) {
  try {
    cli.node().finder.never_start();
    cli.node().finder.set_timeout_ms(limits::completion_deadline.count());
    const auto words = cli.tail;
    cli.tail.clear();
    cli.io().raw(offered(cli, words));
  } catch (const std::exception&) {
    // Then nothing is offered: a message would stand in the middle of what is being typed.
  }
  return code::ok;
}

void build_complete(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] { return run_complete(cli); });
}

constexpr verb verbs[] = {
  {.name = "__complete",
   .about = subject::node,
   .summary = "for the scripts of swarmctl completion: what may stand in the place of the last word",
   .examples = "  swarmctl __complete -- tasks --status \"\"",
   .build = build_complete,
   .program_of = "__complete",
   .node = node_choice::own,
   .internal = true},
};

} // namespace

const char* word_of(argument what) {
  for (const auto& k : kinds)
    if (k.what == what)
      return k.word;
  return nullptr;
}

std::span<const verb> complete_verbs() { return verbs; }

} // namespace swarm::cli
