#include <algorithm>
#include <random>
#include <set>

#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "gateway/routine/routine.hpp"

using namespace swarm;
using namespace swarm::routines;

namespace {

const std::string head = "name = \"r\"\nsummary = \"what it does\"\n";

std::string one_step(const std::string& more = {}) { return head + "[[step]]\nid = \"a\"\ntitle = \"A\"\n" + more; }

/// The problem of that line that holds the text is told.
bool told(const reading& r, std::size_t line, const std::string& text) {
  return std::any_of(r.problems.begin(), r.problems.end(), [&](const auto& p) { return p.line == line && p.text.find(text) != std::string::npos; });
}

std::string all_of(const reading& r) {
  std::string out;
  for (const auto& p : r.problems)
    out += std::to_string(p.line) + ": " + p.text + "\n";
  return out;
}

struct planned {
  std::vector<planned_step> steps;
  std::vector<problem> problems;
};
planned plan_of(const std::string& text, const values& given, origin from = origin::user) {
  auto r = parse(text, "r");
  REQUIRE_MESSAGE(r.problems.empty(), all_of(r));
  planned out;
  auto with = settle(r.value, given, out.problems);
  if (out.problems.empty())
    out.steps = plan(r.value, from, with, "/repo", out.problems);
  return out;
}

} // namespace

TEST_CASE("a file's parameters and steps are read as they stand there") {
  auto r = parse(R"(# häkchen ✓
name = "r"
summary = "Prüft den Zweig"

[parameters.zone]
description = "where"
default = "hier"
choices = ["hier", "dort"]

[parameters.branch]
required = true

[[step]]
id = "look"
title = "Look at ${branch}"
description = """
Ganz genau: ${zone}.
Not this: $${HOME}
"""
role = "reviewer"
type = "review"
files = ["src/${branch}.cpp", "README.md"]
priority = 3
harness = "claude"

[[step]]
id = "end"
title = 'Ende "gut"'
needs = ["look"]
approval = true
)",
                 "r");
  REQUIRE_MESSAGE(r.problems.empty(), all_of(r));
  CHECK(r.value.summary == "Prüft den Zweig");
  REQUIRE(r.value.parameters.size() == 2);
  CHECK(r.value.parameters[0].name == "zone"); // as in the file, not by name
  CHECK(r.value.parameters[0].value == "hier");
  CHECK(r.value.parameters[0].choices == std::vector<std::string>{"hier", "dort"});
  CHECK(r.value.parameters[1].required);
  REQUIRE(r.value.steps.size() == 2);
  const auto& look = r.value.steps[0];
  CHECK(look.role == "reviewer");
  CHECK(look.type == "review");
  CHECK(look.priority == 3);
  CHECK(look.harness == "claude");
  CHECK(look.line == 13);
  CHECK_FALSE(look.approval);
  CHECK(r.value.steps[1].title == "Ende \"gut\"");
  CHECK(r.value.steps[1].needs == std::vector<std::string>{"look"});
  CHECK(r.value.steps[1].approval);
}

TEST_CASE("what is wrong in a file is told with its line and what to do") {
  struct wrong {
    std::string text;
    std::size_t line;
    std::string told;
  };
  const std::string deep(1000, '[');
  const std::vector<wrong> all = {
    {"", 0, "a routine needs name"},
    {"name = \"r\"\n[[step]]\nid = \"a\"\ntitle = \"A\"", 0, "a routine needs summary"},
    {head, 0, "there are no steps"},
    {head + "steps = 1\n", 3, "unknown key \"steps\"; a routine has name, summary, parameters, step"},
    {head + "hosts = [\"x\"]\n", 3, "names no hosts"},
    {one_step("environment = {A = \"b\"}\n"), 6, "names no hosts, environment or commands"},
    {one_step("command = \"rm\"\n"), 6, "names no hosts"},
    {one_step("titel = \"A\"\n"), 6, "unknown key \"titel\"; a step has id, title"},
    {one_step("\"a\\u001b[2J\" = 1\n"), 6, "unknown key \"a\\x1b[2J\""},
    {"name = \"other\"\nsummary = \"s\"\n[[step]]\nid = \"a\"\ntitle = \"A\"\n", 1, "the file is called \"r.toml\""},
    {"name = 7\nsummary = \"s\"\n[[step]]\nid = \"a\"\ntitle = \"A\"\n", 1, "name must be a text in quotes"},
    {one_step("[[step]]\ntitle = \"B\"\n"), 6, "a step needs id"},
    {one_step("[[step]]\nid = \"b\"\n"), 6, "a step needs title"},
    {one_step("[[step]]\nid = \"b\"\ntitle = \"  \"\n"), 8, "title must not be empty"},
    {one_step("[[step]]\nid = \"b/c\"\ntitle = \"B\"\n"), 6, "may have letters, digits, - and _ only"},
    {one_step("[[step]]\nid = \"a\"\ntitle = \"B\"\n"), 6, "is there twice, before in line 3"},
    {one_step("needs = [\"b\"]\n"), 3, "needs \"b\", which is no step"},
    {one_step("needs = \"b\"\n"), 6, "needs must be a list of texts"},
    {one_step("needs = [1]\n"), 6, "each of needs must be a text"},
    {one_step("needs = [\"a\"]\n"), 3, "the steps need each other: a needs a"},
    {one_step("needs = [\"b\"]\n[[step]]\nid = \"b\"\ntitle = \"B\"\nneeds = [\"c\"]\n[[step]]\nid = \"c\"\ntitle = \"C\"\nneeds = [\"b\"]\n"), 7,
     "b needs c needs b"},
    {one_step("type = \"cook\"\n"), 3, "the type \"cook\" is unknown; there is review, implement"},
    {one_step("role = \"a b\"\n"), 3, "the role \"a b\""},
    {one_step("approval = \"yes\"\n"), 6, "approval must be true or false"},
    {one_step("priority = 1.5\n"), 6, "priority must be a whole number"},
    {one_step("harness = \"exec\"\n"), 6, "the harness \"exec\" is no agent; there is claude"},
    {one_step("harness = \"shell\"\n"), 6, "is no agent"},
    {one_step("harness = \"/bin/sh\"\n"), 6, "is no agent"},
    {one_step("description = \"${who}\"\n"), 3, "the description of a names \"who\", which is no parameter"},
    {one_step("description = \"${HOME\"\n"), 3, "has ${ without }"},
    {one_step("files = [\"${x}\"]\n"), 3, "a file of a names \"x\""},
    {one_step("title = \"again\"\n"), 6, ""},
    {one_step("description = \"a\\u0000b\"\n"), 6, "holds control characters"},
    {head + "[[step]]\nid = \"a\"\ntitle = \"A\\nB\"\n", 5, "more than one line"},
    {head + "step = [1]\n", 3, "steps must be written as [[step]]"},
    {head + "step = \"a\"\n", 3, "steps must be written as [[step]]"},
    {one_step("[parameters]\nx = \"1\"\n"), 7, "the parameter x must be a table"},
    {one_step("[parameters.\"x y\"]\n"), 6, "needs a name of letters"},
    {one_step("[parameters.x]\ndefault = 1\n"), 7, "default must be a text"},
    {one_step("[parameters.x]\nrequired = true\ndefault = \"\"\n"), 6, "cannot be required"},
    {one_step("[parameters.x]\nchoices = [\"a\", \"b\"]\n"), 6, "must be one of its choices: a, b"},
    {one_step("[parameters.x]\nchoices = [\"a\\nb\"]\n"), 6, "must be one of its choices: a\\nb"},
    {one_step("[parameters.x]\nvalues = []\n"), 7, "unknown key \"values\"; a parameter has description, default"},
    {head + "parameters = 3\n" + one_step().substr(head.size()), 3, "parameters must be tables"},
    {one_step("title ü = 1\n"), 6, "only comments and texts in quotes"},
    {one_step("x = [=\n"), 6, ""},
    {one_step("x = " + deep + "\n"), 6, ""},
    {one_step("description = \"\"\"a \\\n  \xc3\xa4\"\"\"\n"), 7, "must begin with a character of ASCII"},
    {one_step("description = \"\xff\"\n"), 0, "no UTF-8"},
  };
  for (const auto& w : all) {
    CAPTURE(w.text.substr(0, 300));
    auto r = parse(w.text, "r");
    CHECK_MESSAGE(told(r, w.line, w.told), all_of(r));
  }
}

TEST_CASE("bounds of a file are kept: bytes, steps, parameters, values, and how much is told") {
  auto fits = one_step();
  fits.append(limits::routine_bytes_max - fits.size(), '\n');
  CHECK(parse(fits, "r").problems.empty());
  CHECK(told(parse(fits + "\n", "r"), 0, "larger than 256 KiB"));

  auto steps = [](std::size_t n) {
    auto text = head;
    for (std::size_t i = 0; i < n; ++i)
      text += "[[step]]\nid = \"s" + std::to_string(i) + "\"\ntitle = \"S\"\n";
    return parse(text, "r");
  };
  // One task of a batch is the summary.
  CHECK(steps(limits::batch_tasks_max() - 1).problems.empty());
  CHECK(told(steps(limits::batch_tasks_max()), 3, "there are 50 steps; at most 49"));

  auto parameters = [](std::size_t n) {
    auto text = one_step();
    for (std::size_t i = 0; i < n; ++i)
      text += "[parameters.p" + std::to_string(i) + "]\n";
    return parse(text, "r");
  };
  CHECK(parameters(limits::routine_parameters_max).problems.empty());
  CHECK(parameters(limits::routine_parameters_max + 1).problems.size() == 1);

  CHECK(parse(one_step("description = \"" + std::string(limits::description_bytes_max(), 'x') + "\"\n"), "r").problems.empty());
  CHECK(told(parse(one_step("description = \"" + std::string(limits::description_bytes_max() + 1, 'x') + "\"\n"), "r"), 6, "longer than 128 KiB"));

  auto noisy = head;
  for (int i = 0; i < 1000; ++i)
    noisy += "k" + std::to_string(i) + " = 1\n";
  CHECK(parse(noisy, "r").problems.size() == 20);
}

TEST_CASE("placeholders are replaced in one go, wherever they may stand") {
  const values with{{"a", "1"}, {"b", "${a}"}, {"empty", ""}};
  CHECK(filled_in("", with) == "");
  CHECK(filled_in("${a}${b}${empty}.", with) == "1${a}.");
  CHECK(filled_in("$${a} $a {a} $", with) == "${a} $a {a} $");
  CHECK(filled_in("$$${a}", with) == "$${a}");
  CHECK(filled_in("${a}${a}", with) == "11");
  CHECK(filled_in("${a $${", with) == "${a ${");

  auto p = plan_of("name = \"r\"\nsummary = \"s\"\n[parameters.x]\n[[step]]\nid = \"a\"\ntitle = \" do ${x} \"\ndescription = \"${x} and $${x}\"\n"
                   "files = [\"${x}\", \"b/../c\"]\n",
                   {{"x", "it"}});
  REQUIRE(p.problems.empty());
  CHECK(p.steps[0].what.title == "do it");
  CHECK(p.steps[0].what.description == "it and ${x}");
  CHECK(p.steps[0].what.files == std::vector<std::string>{"/repo/it", "/repo/c"});
}

TEST_CASE("values are judged: unknown, missing, not among the choices, too long, not printable") {
  auto text = "name = \"r\"\nsummary = \"s\"\n[parameters.must]\ndescription = \"the branch\"\nrequired = true\n[parameters.zone]\ndefault = \"a\"\n"
              "choices = [\"a\", \"b\"]\n[[step]]\nid = \"a\"\ntitle = \"${must} ${zone}\"\n";
  auto told_of = [&](const values& given) {
    std::string out;
    for (const auto& p : plan_of(text, given).problems)
      out += p.text + "\n";
    return out;
  };
  CHECK(told_of({{"must", "x"}}) == "");
  CHECK(plan_of(text, {{"must", "x"}}).steps[0].what.title == "x a");
  CHECK(plan_of(text, {{"must", "x"}, {"zone", "b"}}).steps[0].what.title == "x b");
  CHECK(told_of({}) == "the parameter must is required: the branch\n");
  CHECK(told_of({{"must", " "}}) == "the parameter must is required: the branch\n");
  CHECK(told_of({{"must", "x"}, {"zone", "c"}}) == "the parameter zone must be one of: a, b\n");
  CHECK(told_of({{"must", "x"}, {"where", ""}}) == "the routine has no parameter \"where\"; it has must, zone\n");
  CHECK(told_of({{"must", std::string(limits::note_bytes_max() + 1, 'x')}}).find("longer than 8 KiB") != std::string::npos);
  CHECK(told_of({{"must", std::string{"a\x1b"}}}).find("control characters") != std::string::npos);
  CHECK(told_of({{"must", std::string{"a\xff"}}}).find("control characters") != std::string::npos);
  // What a title cannot hold is found when it is filled in.
  CHECK(told_of({{"must", "a\nb"}}) == "the step a: with these parameters its title has more than one line\n");
  CHECK(told_of({{"must", std::string(limits::title_bytes_max(), 'x')}}).find("its title is longer than 1 KiB") != std::string::npos);
}

TEST_CASE("files of a repository's routine stay in the repository, the user's may lie anywhere") {
  auto text = [](const std::string& file) { return one_step("files = [\"" + file + "\"]\n"); };
  for (const auto* outside : {"/etc/passwd", "../x", "a/../../x", "/repository/x"}) {
    CAPTURE(outside);
    CHECK(plan_of(text(outside), {}, origin::repository).problems.size() == 1);
    CHECK(plan_of(text(outside), {}, origin::user).problems.empty());
  }
  CHECK(plan_of(text("/repo/x"), {}, origin::repository).problems.empty());
  CHECK(plan_of(text("a/../x"), {}, origin::repository).steps[0].what.files == std::vector<std::string>{"/repo/x"});
}

TEST_CASE("whatever the order in the file, a plan has every step once and after those it needs") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto n = 1 + random() % 49;
    std::vector<std::size_t> order(n);
    for (std::size_t i = 0; i < n; ++i)
      order[i] = i;
    // A step needs only some that come before it in a hidden order: there is no circle.
    std::vector<step> steps(n);
    for (std::size_t i = 0; i < n; ++i) {
      steps[i].id = "s" + std::to_string(i);
      steps[i].title = "S";
      for (auto k = random() % 4; i > 0 && k > 0; --k)
        steps[i].needs.push_back("s" + std::to_string(random() % i));
    }
    std::shuffle(steps.begin(), steps.end(), random);
    routine r;
    r.steps = steps;
    std::vector<problem> problems;
    auto got = plan(r, origin::user, {}, "/repo", problems);
    REQUIRE(got.size() == n);
    std::set<std::string> before;
    for (std::size_t i = 0; i < n; ++i) {
      std::set<std::string> by_place;
      for (auto place : got[i].needs) {
        REQUIRE(place < i);
        by_place.insert(got[place].what.id);
      }
      CHECK(by_place == std::set<std::string>(got[i].what.needs.begin(), got[i].what.needs.end()));
      CHECK(by_place.size() == got[i].needs.size());
      CHECK(before.insert(got[i].what.id).second);
    }
    // One more need closes a circle, and then nothing on it is in order.
    auto& first = *std::find_if(steps.begin(), steps.end(), [&](const auto& s) { return s.id == got.front().what.id; });
    first.needs.push_back(got.back().what.id);
    auto& last = *std::find_if(steps.begin(), steps.end(), [&](const auto& s) { return s.id == got.back().what.id; });
    last.needs.push_back(first.id);
    CHECK(in_order(steps).size() < n);
  }
}

TEST_CASE("steps that wait for nothing keep the order of the file") {
  routine r;
  for (const auto* id : {"c", "a", "b", "d"})
    r.steps.emplace_back().id = id;
  r.steps[1].needs = {"d"};
  CHECK(in_order(r.steps) == std::vector<std::size_t>{0, 2, 3, 1});
  r.steps[0].needs = {"b"};
  CHECK(in_order(r.steps) == std::vector<std::size_t>{2, 0, 3, 1});
}

TEST_CASE("no text, however broken, does more than be refused") {
  const auto good =
    one_step("description = \"\"\"Grüße ${x} \\\n  z\"\"\"\nneeds = []\nfiles = ['a', \"b\"] # Ende ✓\n[parameters.x]\ndefault = \"\"\n");
  REQUIRE(parse(good, "r").problems.empty());
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    auto text = good;
    const std::string bytes = "\"'[]{}=#\\\n.,$ \xc3\xa4\xff\t1a\0"
                              "\xe2\x9c\x93";
    for (auto k = 1 + random() % 4; k > 0; --k) {
      auto at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = bytes[random() % bytes.size()]; break;
        case 1: text.erase(at, 1 + random() % 5); break;
        default: text.insert(at, 1 + random() % 3, bytes[random() % bytes.size()]);
      }
      if (text.empty())
        break;
    }
    auto r = parse(text, "r");
    CHECK(r.problems.size() <= 20);
    if (r.problems.empty()) {
      std::vector<problem> problems;
      plan(r.value, origin::user, settle(r.value, {}, problems), "/repo", problems);
    }
  }
}
