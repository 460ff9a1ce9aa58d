// Programs that fetch, unpack, mirror and mark files.
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/shell/parser.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace swarm::shell {

namespace {

namespace fs = std::filesystem;

std::string last_part(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/'))
    path.remove_suffix(1);
  return std::string{path.substr(path.rfind('/') + 1)};
}

/// The file of a URL; empty when it names none.
std::string file_of_url(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  if (auto scheme = url.find("://"); scheme != url.npos)
    url.remove_prefix(scheme + 3);
  auto slash = url.rfind('/');
  return slash == url.npos ? std::string{} : std::string{url.substr(slash + 1)};
}

/// host:path or rsync://…
bool is_remote(std::string_view path) {
  auto colon = path.find(':');
  return colon != path.npos && path.find('/') > colon;
}

/// A mode of chmod that begins as an option does.
bool is_mode(const word& w) {
  auto text = plain(w.pattern);
  return text.size() > 1 && text[0] == '-' && text[1] != '-' && text.find_first_not_of("-+=,rwxXstugoa0123456789") == text.npos;
}

/// What rewrites the files that it is given, or those below a directory.
struct formatter {
  std::string_view name;
  std::string_view begins; // only with one of these words; empty = always
  std::string_view looks;  // with one of these it only looks
  std::string_view with_value = {};
};
constexpr formatter formatters[] = {
  {"clang-format", " -i ", " --dry-run -n "},
  {"gofmt", " -w ", ""},
  {"goimports", " -w ", ""},
  {"prettier", " --write -w ", " --check "},
  {"black", "", " --check --diff ", "l"},
  {"isort", "", " --check --check-only -c --diff "},
  {"rustfmt", "", " --check "},
  {"shfmt", " -w --write ", "", "ip"},
};

} // namespace

bool script::format(const std::string& name, word_list words) {
  const auto* known = std::find_if(std::begin(formatters), std::end(formatters), [&](const formatter& f) { return f.name == name; });
  if (known == std::end(formatters))
    return false;
  auto has_one_of = [&](std::string_view list) {
    return std::any_of(words.begin(), words.end(), [&](const word& w) { return list.find(concat({" ", plain(w.pattern), " "})) != list.npos; });
  };
  if (has_one_of(known->looks) || (!known->begins.empty() && !has_one_of(known->begins)))
    return true;
  add_all(read_arguments(words, 1,
                         {.with_value = known->with_value,
                          .long_with_value = {"--config", "--parser", "--style", "--line-length", "--ignore-path", "--edition", "--settings-path"}})
            .operands,
          0, true);
  return true;
}

void script::add_below(const std::string& directory, const std::string& name) {
  if (!name.empty())
    add_path(directory.empty() ? name : concat({directory, "/", name}));
}

/// Those that are there stay as they are.
void script::make_directories(word_list operands) {
  for (const auto& w : operands) {
    std::vector<std::string> each;
    if (w.known)
      expand_braces(w.pattern, each);
    for (const auto& name : each) {
      auto full = made_.size() < limits::hook_paths_max ? absolute(plain(name)) : std::nullopt;
      std::error_code ec;
      if (full && made_.insert(*full).second && fs::symlink_status(*full, ec).type() == fs::file_type::not_found)
        add_path(plain(name));
    }
  }
}

/// chmod, chown, chgrp: the first operand says what is set, unless another file does.
void script::mark(word_list words) {
  std::vector<word> rest{words.begin(), words.end()};
  auto mode = std::find_if(rest.begin() + 1, rest.end(), is_mode);
  const bool has_mode = mode != rest.end();
  if (has_mode)
    rest.erase(mode);
  auto args = read_arguments(rest, 1, {.with_value = "", .long_with_value = {"--reference", "--from"}});
  add_all(args.operands, has_mode || args.has({"--reference"}) ? 0 : 1, args.has({"-R", "--recursive"}));
}

void script::curl(word_list words) {
  auto args =
    read_arguments(words, 1,
                   {.with_value = "oAbcCdDeEFHKmPQrtTuUwxXyYz",
                    .long_with_value = {"--output",  "--output-dir", "--dump-header", "--cookie-jar", "--trace",  "--trace-ascii", "--stderr",
                                        "--header",  "--data",       "--request",     "--user",       "--proxy",  "--url",         "--user-agent",
                                        "--referer", "--form",       "--max-time",    "--retry",      "--cookie", "--upload-file", "--write-out"}});
  const auto* given = args.value({"--output-dir"});
  if (given && !given->known)
    return;
  const auto directory = given ? plain(given->pattern) : std::string{};
  auto urls = args.operands;
  for (const auto& [name, value] : args.options) {
    const auto file = plain(value.pattern);
    if (name == "--url")
      urls.push_back(value);
    const bool is_output = name == "-o" || name == "--output";
    const bool is_other = name == "-D" || name == "--dump-header" || name == "-c" || name == "--cookie-jar" || name == "--trace" ||
                          name == "--trace-ascii" || name == "--stderr";
    if ((is_output || is_other) && value.known && file != "-")
      add_below(is_output && !file.starts_with('/') ? directory : "", file);
  }
  if (!args.has({"-O", "--remote-name", "--remote-name-all"}))
    return;
  for (const auto& url : urls)
    if (url.known)
      add_below(directory, file_of_url(plain(url.pattern)));
}

void script::wget(word_list words) {
  auto args = read_arguments(words, 1,
                             {.with_value = "oaOPitTwQUeARDIXlB",
                              .long_with_value = {"--output-document", "--directory-prefix", "--output-file", "--append-output", "--input-file",
                                                  "--tries", "--timeout", "--header", "--user", "--password", "--user-agent", "--post-data"}});
  if (args.has({"--spider"}))
    return;
  for (const auto& [name, value] : args.options)
    if ((name == "-o" || name == "--output-file" || name == "-a" || name == "--append-output") && value.known)
      add_below({}, plain(value.pattern));
  if (const auto* file = args.value({"-O", "--output-document"})) {
    if (file->known && plain(file->pattern) != "-")
      add_below({}, plain(file->pattern));
    return;
  }
  const auto* given = args.value({"-P", "--directory-prefix"});
  if (given && !given->known)
    return;
  if (args.has({"-r", "--recursive", "-m", "--mirror", "--page-requisites"}))
    return add_path(given ? plain(given->pattern) : ".", true);
  for (const auto& url : args.operands)
    if (url.known)
      add_below(given ? plain(given->pattern) : std::string{}, file_of_url(plain(url.pattern)));
}

void script::tar(word_list words) {
  std::vector<word> rest{words.begin(), words.end()};
  // As old as tar: the first word has the letters, without a dash.
  if (rest.size() > 1 && rest[1].known && !rest[1].pattern.empty() && rest[1].pattern.front() != '-')
    rest[1].pattern.insert(0, "-");
  // Each -C counts for what follows it; -C and the archive come in any order.
  const option_form form{.with_value = "fCTXbgHIKLNV",
                         .long_with_value = {"--file", "--directory", "--files-from", "--exclude", "--exclude-from", "--use-compress-program",
                                             "--strip-components", "--transform", "--owner", "--group", "--mode"}};
  auto args = read_arguments(rest, 1, form);
  if (args.has({"-c", "--create", "-r", "--append", "-u", "--update", "-A", "--catenate", "--delete"})) {
    if (const auto* file = args.value({"-f", "--file"}); file && file->known && plain(file->pattern) != "-" && !is_remote(plain(file->pattern)))
      add_path(plain(file->pattern));
    return;
  }
  if (!args.has({"-x", "--extract", "--get"}) || args.has({"-O", "--to-stdout", "--to-command"}))
    return;
  bool is_told = false;
  for (const auto& [name, value] : args.options)
    if (name == "-C" || name == "--directory") {
      is_told = true;
      if (value.known)
        add_path(plain(value.pattern), true);
    }
  if (!is_told)
    add_path(".", true);
}

void script::rsync(word_list words) {
  auto args = read_arguments(
    words, 1, {.with_value = "efMBT@", .long_with_value = {"--rsh",        "--exclude",      "--include",       "--exclude-from", "--include-from",
                                                           "--files-from", "--filter",       "--port",          "--bwlimit",      "--log-file",
                                                           "--backup-dir", "--compare-dest", "--copy-dest",     "--link-dest",    "--partial-dir",
                                                           "--temp-dir",   "--suffix",       "--timeout",       "--chmod",        "--chown",
                                                           "--max-size",   "--min-size",     "--password-file", "--out-format",   "--rsync-path"}});
  if (args.operands.size() < 2 || args.has({"-n", "--dry-run", "--list-only"}))
    return;
  const auto target = args.operands.back();
  args.operands.pop_back();
  if (args.has({"--remove-source-files"}))
    add_all(args.operands, 0, true);
  const auto text = plain(target.pattern);
  const auto full = target.known && !is_pattern(target.pattern) && !is_remote(text) ? absolute(text) : std::nullopt;
  if (!full)
    return;
  std::error_code ec;
  const bool into = text.ends_with('/') || args.operands.size() > 1 || fs::is_directory(*full, ec);
  for (const auto& source : args.operands) {
    const auto from = plain(source.pattern);
    const auto there = absolute(from);
    auto name = last_part(is_remote(from) ? std::string_view{from}.substr(from.find(':') + 1) : std::string_view{from});
    // dir/ is what is in it.
    const bool is_whole = !source.known || is_pattern(source.pattern) || from.ends_with('/') || name.empty() || name == "." || name == "..";
    if (is_whole || (!into && !(there && fs::is_directory(*there, ec))))
      add_path(*full, true);
    else
      add_path(concat({*full, "/", name}), true);
  }
}

bool script::run_file_program(const std::string& name, word_list words) {
  if (name == "mkdir")
    make_directories(read_arguments(words, 1, {.with_value = "m", .long_with_value = {"--mode"}}).operands);
  else if (name == "touch")
    add_all(read_arguments(words, 1, {.with_value = "drt", .long_with_value = {"--date", "--reference", "--time"}}).operands, 0);
  else if (name == "chmod" || name == "chown" || name == "chgrp")
    mark(words);
  else if (name == "curl")
    curl(words);
  else if (name == "wget")
    wget(words);
  else if (name == "tar" || name == "bsdtar")
    tar(words);
  else if (name == "rsync")
    rsync(words);
  else
    return format(name, words);
  return true;
}

} // namespace swarm::shell
