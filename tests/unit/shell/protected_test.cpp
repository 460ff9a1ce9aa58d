#include "actors/shell/protected.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

#include <unistd.h>

using namespace swarm::shell;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> guarded{"/h/.local/state/swarm", "/h/.config/swarm"};

std::string reached(const written_path& w, const std::vector<std::string>& directories = guarded) {
  const auto* found = reached_directory(w, directories);
  return found ? *found : std::string{};
}

/// By a command in /h/work.
std::string reached_by(const std::string& script, std::map<std::string, std::string> variables = {}) {
  for (const auto& w : paths_written_by(script, {"/h/work", "/h", std::move(variables)}))
    if (auto found = reached(w); !found.empty())
      return found;
  return {};
}

} // namespace

TEST_CASE("a directory is reached by itself, by what is in it, and by what takes it along") {
  CHECK(reached({"/h/.local/state/swarm", false, false}) == guarded[0]);
  CHECK(reached({"/h/.config/swarm/contexts.toml", false, false}) == guarded[1]);
  CHECK(reached({"/h/.config", true, false}) == guarded[1]);
  CHECK(reached({"/", true, false}) == guarded[0]);
  for (const auto* beside : {"/h/.config", "/h/.config/swarmx", "/h/.config/swarm.toml", "/h/work/.config/swarm/x", "/h", "/"})
    CHECK_MESSAGE(reached({beside, false, false}).empty(), beside);
  CHECK(reached({"/h/.config/git", true, false}).empty());
}

TEST_CASE("a directory is reached by a pattern that fits it or a part of what is around it") {
  CHECK(reached({"/h/.local/state/sw*", false, true}) == guarded[0]);
  CHECK(reached({"/h/.c*/swarm/c?ntexts.toml", false, true}) == guarded[1]);
  CHECK(reached({"/h/.[cl]o*", true, true}) == guarded[0]);
  CHECK(reached({"/h/.[cl]o*", false, true}).empty());
  CHECK(reached({"/h/.config/g*/x", false, true}).empty());
}

TEST_CASE("a command reaches a directory however it spells the path") {
  for (const std::string script :
       {"echo x > ~/.config/swarm/contexts.toml", "cd ~/.config && sed -i s/a/b/ swarm/contexts.toml", "rm -rf ~/.local/state",
        "tee -a \"$HOME/.local/state/swarm/config.toml\" < x", "cp x ../.config/swarm/", "mv ~/.config ~/old", "cat > $SWARM_HOME/config.toml",
        "printf x >> ${XDG_CONFIG_HOME}/swarm/x", "bash -c 'echo x > $SWARM_HOME/config.toml'", "( cd $SWARM_HOME; rm stopped )",
        "f=~/.config/swarm/contexts.toml; echo x > $f", "ln -sf /h/work/x ~/.config/swarm/contexts.toml"})
    CHECK_MESSAGE(!reached_by(script, {{"SWARM_HOME", "/h/.local/state/swarm"}, {"XDG_CONFIG_HOME", "/h/.config"}}).empty(), script);
  for (const std::string script : {"cat ~/.local/state/swarm/config.toml", "cp ~/.config/swarm/contexts.toml x", "echo x > swarm/config.toml",
                                   "grep -r a ~/.config", "ls $SWARM_HOME > list", "echo $SWARM_HOME"})
    CHECK_MESSAGE(reached_by(script, {{"SWARM_HOME", "/h/.local/state/swarm"}}).empty(), script);
}

TEST_CASE("a directory is reached through symbolic links, whichever side of them is named") {
  const auto root = fs::canonical(fs::temp_directory_path()) / ("swarm-protected." + std::to_string(getpid()));
  fs::remove_all(root);
  fs::create_directories(root / "real/swarm");
  fs::create_directory_symlink(root / "real", root / "link");
  fs::create_symlink(root / "real/swarm/config.toml", root / "file"); // leads to what is not there yet
  const std::vector<std::string> by_link{(root / "link/swarm").string()}, by_name{(root / "real/swarm").string()};
  for (const auto& directories : {by_link, by_name}) {
    CHECK(!reached({(root / "real/swarm/x").string(), false, false}, directories).empty());
    CHECK(!reached({(root / "link/swarm/x").string(), false, false}, directories).empty());
    CHECK(!reached({(root / "link").string() + "/sw*", false, true}, directories).empty());
    CHECK(reached({(root / "link/other").string(), false, false}, directories).empty());
  }
  CHECK(!reached({(root / "file").string(), false, false}, by_name).empty());
  fs::remove_all(root);
}
