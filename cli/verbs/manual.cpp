// swarmctl(1): `swarmctl help --man` prints it, and the package installs what that prints.
#include "actors/base/text.hpp"
#include "cli/verb.hpp"

#include <sstream>

namespace swarm::cli {

namespace {

constexpr const char* before_options = R"(.TH SWARMCTL 1 "" "Swarm Fabric )" SWARM_VERSION R"(" "User Commands"
.SH NAME
swarmctl \- sessions, tasks, locks, messages and terminals of coding agents
.SH SYNOPSIS
.B swarmctl
.RI [ OPTIONS ]
.I COMMAND
.RI [ ARGUMENTS ]
.SH DESCRIPTION
A node,
.BR swarmd (8),
coordinates the coding agents and terminals of one user. It keeps their sessions, tasks, locks on files and messages.
.B swarmctl
queries and changes them. It starts the node when none runs.
.PP
An agent talks to the node through
.BR "swarmctl mcp" ,
see
.BR swarm\-mcp (1).
.PP
Words after
.B \-\-
are text, never options; for a command that runs a program they are the program and its arguments.
.SH OPTIONS
These options may stand before or after the command.
)";

constexpr const char* after_commands = R"(.SH EXIT STATUS
0 done, 1 refused or not found, 2 wrong usage, 3 no node, 4 a deadline has passed.
When
.B dispatch
runs a command, it ends with the status of that command.
.SH ENVIRONMENT
.TP
.B SWARM_HOME
directory of the node's state; otherwise
.IR $XDG_STATE_HOME/swarm ,
otherwise
.IR ~/.local/state/swarm .
.TP
.B SWARM_CONTEXT
name of the node to speak to, as
.B swarmctl context set
gave it.
.TP
.B SWARM_MCP_SCOPE
the scope, as
.B \-\-scope
gives it.
.TP
.B SWARM_MCP_INSTANCE_ID
the acting session, as
.B \-\-as
gives it.
.TP
.BR AGENT_IDENTITY ", " SWARM_IDENTITY
the identity of sessions whose label names none.
.TP
.BR NO_COLOR ", " TERM=dumb
plain text.
.SH FILES
.TP
.I ~/.local/state/swarm
the node's state, readable by its owner alone.
.TP
.I /usr/share/swarm\-fabric
skills, routines and plugins for the agents' programs, where the package is installed.
.TP
.I /usr/share/doc/swarm\-fabric
the documents, with details and reasons, where the package is installed.
.SH SEE ALSO
.BR swarm\-mcp (1),
.BR swarmd (8),
.BR swarm\-keeper (8)
)";

/// Text that roff shows as it is.
std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  // A line that begins with one of these is a request to roff.
  return !out.empty() && (out.front() == '.' || out.front() == '\'') ? "\\&" + out : out;
}

std::string entry(const std::string& name, const std::string& text) {
  return concat({".TP\n\\fB", escaped(name), "\\fR\n", text.empty() ? "\\&" : escaped(text), "\n"});
}

/// Reaches what CLI11 only gives to formatters.
struct names final : CLI::Formatter {
  std::string of(const CLI::Option* o) const { return make_option_name(o, o->get_positional()) + make_option_opts(o); }
};

std::string options_of(const CLI::App& app, bool with_help) {
  std::string out;
  for (bool positional : {true, false})
    for (const auto* o : app.get_options([&](const CLI::Option* one) { return one->get_positional() == positional; }))
      if (with_help || o != app.get_help_ptr())
        out += entry(names{}.of(o), o->get_description());
  return out;
}

/// `text` of a footer: a heading, lines that are indented, and remarks that are not.
std::string examples_of(const std::string& text) {
  std::string out;
  bool literal = false;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    const bool example = line.starts_with("  ");
    if (example != literal)
      out += example ? ".PP\n.nf\n.RS 4\n" : ".RE\n.fi\n.PP\n";
    literal = example;
    if (!line.empty())
      out += escaped(example ? line.substr(2) : line) + "\n";
  }
  return out + (literal ? ".RE\n.fi\n" : "");
}

/// `program_of`: the command of the verb that takes a program after `--`; the verbs themselves have none above them.
std::string commands_below(const CLI::App& app, const std::string& above, std::string_view program_of = "") {
  static const auto verbs = all_verbs();
  std::string out;
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    const auto name = above + " " + sub->get_name();
    const auto* v = app.get_parent() == nullptr ? find_verb(verbs, sub->get_name()) : nullptr;
    const auto taker = v != nullptr ? v->program_of : program_of;
    auto usage = CLI::Formatter{}.make_usage(sub, name);
    usage = usage.substr(usage.find(name));
    usage.erase(usage.find_last_not_of('\n') + 1);
    if (sub->get_name() == taker)
      usage += program_words;
    out += concat(
      {".SS ", escaped(name), "\n", escaped(sub->get_description()), "\n.PP\n.nf\n\\fB", escaped(usage), "\\fR\n.fi\n", options_of(*sub, true)});
    if (const auto footer = sub->get_footer(); !footer.empty())
      out += ".PP\n" + examples_of(footer);
    out += commands_below(*sub, name, taker);
  }
  return out;
}

} // namespace

std::string manual_page(invocation& cli) {
  const auto root = full_tree(cli);
  return concat({before_options, options_of(*root, false), ".SH COMMANDS\n", commands_below(*root, "swarmctl"), after_commands});
}

} // namespace swarm::cli
