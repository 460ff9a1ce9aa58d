#include "actors/base/limits.hpp"
#include "actors/shell/writes.hpp"

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <doctest/doctest.h>

using namespace swarm;
using namespace swarm::shell;

namespace {

/// The paths, those of trees with a slash at their end, patterns with a question mark before them, joined by blanks.
std::string written(std::string_view script, const std::string& directory = "/r") {
  std::string out;
  for (const auto& w : paths_written_by(script, {directory, "/home/ada"}))
    out += (out.empty() ? "" : " ") + std::string{w.pattern ? "?" : ""} + w.path + (w.tree ? "/" : "");
  return out;
}

struct row {
  const char* script;
  const char* paths;
};

void check(std::initializer_list<row> rows) {
  for (const auto& r : rows) {
    INFO(r.script);
    CHECK(written(r.script) == r.paths);
  }
}

} // namespace

TEST_CASE("a brace expansion to more paths than are looked at shows that it is more") {
  std::string few = "rm f{0", many = "rm f{0";
  for (int i = 1; i < 200; ++i)
    few += "," + std::to_string(i);
  for (int i = 1; i < 1000; ++i)
    many += "," + std::to_string(i);
  CHECK(paths_written_by(few + "}", {"/r", "/home/ada"}).size() == 200);
  CHECK(paths_written_by(many + "}", {"/r", "/home/ada"}).size() > limits::hook_paths_max);
  CHECK(paths_written_by("rm {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", {"/r", "/home/ada"}).size() > limits::hook_paths_max);
}

TEST_CASE("redirections write, whatever the program") {
  check({
    {"echo x > a.txt", "/r/a.txt"},
    {"echo x >a.txt", "/r/a.txt"},
    {"echo x>>sub/../a.txt", "/r/a.txt"},
    {"echo x >| /abs/a", "/abs/a"},
    {"make &> log", "/r/log"},
    {"make &>> log", "/r/log"},
    {"make >& log", "/r/log"},
    {"make 2> err 1> out", "/r/err /r/out"},
    {"make 2>&1", ""},
    {"make >&2", ""},
    {"make 2>&-", ""},
    {"cat < in > out", "/r/out"},
    {"cat <> both", "/r/both"},
    {"> a.txt", "/r/a.txt"},
    {"cmd | tee log > out; cmd2 >> more &", "/r/out /r/log /r/more"},
    {"diff <(sort a) <(sort b > c)", "/r/c"},
    {"make > >(tee log)", "/r/log"},
    {"foo2>file", "/r/file"},
    {"echo hi >~/notes", "/home/ada/notes"},
    {"echo hi >$HOME/notes", "/home/ada/notes"},
    {"echo hi >\"${HOME}/a b\"", "/home/ada/a b"},
    {"echo hi >$PWD/x", "/r/x"},
    {"echo hi > 'it''s'", "/r/its"},
    {"echo hi > a\\ b", "/r/a b"},
    {"echo hi > $'a\\'b'", "/r/a'b"},
  });
}

TEST_CASE("what is only said is not written") {
  check({
    {"echo 'x > a.txt'", ""},
    {"echo \"x > a.txt; rm a.txt\"", ""},
    {"git commit -m 'mv a b && rm c > d'", ""},
    {"git commit -m \"$(cat <<'EOF'\nDon't rm a.txt (or b) > c\nsed -i s/x/y/ d\nEOF\n)\" && echo \"done > e\"", ""},
    {"cat <<EOF\nrm a.txt > b\nEOF", ""},
    {"cat <<-'END' | wc\n\trm a\n\tEND\nls", ""},
    {"# rm a.txt > b", ""},
    {"ls # > a.txt", ""},
    {"echo a\\>b", ""},
    {"[[ $a > b ]] && echo yes", ""},
    {"if [[ a < b || c > d ]]; then :; fi", ""},
    {"((a > b))", ""},
    {"echo $((1 > 2))", ""},
    {"echo $(( x << 2 )) done", ""},
    {"grep -r '>' src | head", ""},
    {"echo rm a.txt", ""},
    {"printf '%s' \"$(cat a)\"", ""},
    {"wc <<< 'a > b'", ""},
    {"awk '$1 > 2 {print}' f", ""},
    {"sed s/a/b/ f", ""},
    {"sed -n '/x/p' f", ""},
    {"perl -e 'print' f", ""},
    {"git log -- a.txt", ""},
    {"git checkout main", ""},
    {"git checkout -b topic a", ""},
    {"git rm --cached a", ""},
    {"git restore --staged a", ""},
    {"git apply --check x.patch", ""},
    {"echo x > $FILE", ""},
    {"rm \"$dir\"/x", ""},
    {"rm `which x`", ""},
    {"for f in *.txt; do rm $f; done", ""},
    {"cd - && rm a", ""},
    {"cd $somewhere; rm a", ""},
    {"", ""},
    {"   \n ; ;; && || |", ""},
  });
}

TEST_CASE("programs that write files") {
  check({
    {"rm a b", "/r/a /r/b"},
    {"rm -rf build/", "/r/build/"},
    {"rm -f -- -odd", "/r/-odd"},
    {"rm *.txt", "?/r/*.txt"},
    {"rm {a,b}.c", "/r/a.c /r/b.c"},
    {"rm '*'.txt", "/r/*.txt"},
    {"mv a b", "/r/a/ /r/b/"},
    {"mv a b /nowhere/dir/", "/r/a/ /r/b/ /nowhere/dir/a/ /nowhere/dir/b/"},
    {"mv -t d a", "/r/a/ /r/d/a/"},
    {"cp a b", "/r/b"},
    {"cp -a x y", "/r/y/"},
    {"cp a b c d/", "/r/d/a /r/d/b /r/d/c"},
    {"install -m 755 tool bin", "/r/bin"},
    {"ln -sf a b", "/r/b"},
    {"ln -s a b", "/r/b"},
    {"ln -s ../x/tool", "/r/tool"},
    {"install -d a b/c", "/r/a /r/b/c"},
    {"tee -a log other", "/r/log /r/other"},
    {"truncate -s 0 a", "/r/a"},
    {"truncate --size=0 a", "/r/a"},
    {"dd if=/dev/zero of=a bs=1", "/r/a"},
    {"sed -i s/a/b/ f g", "/r/f /r/g"},
    {"sed -i.bak 's/a/b/' f", "/r/f"},
    {"sed -Ei -e s/a/b/ f", "/r/f"},
    {"sed -i '' s/a/b/ f", "/r/f"},
    {"sed --in-place=.x -f s.sed f", "/r/f"},
    {"perl -pi -e 's/a/b/' f", "/r/f"},
    {"perl -i.orig -pe 's/a/b/' f", "/r/f"},
    {"git checkout -- a b", "/r/a/ /r/b/"},
    {"git checkout HEAD~1 -- src", "/r/src/"},
    {"git -C sub restore a", "/r/sub/a/"},
    {"git restore -s HEAD --staged --worktree a", "/r/a/"},
    {"git -c x=y rm -r d", "/r/d/"},
    {"git mv a b", "/r/a/ /r/b/"},
    {"patch a.c < x", "/r/a.c"},
    {"apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.c\n*** Move to: b.c\n*** End Patch\nEOF\n", "/r/a.c /r/b.c"},
    {"git apply <<'EOF'\n--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n+b\nEOF\n", "/r/x.c /r/x.c"},
  });
}

TEST_CASE("programs that make, mark, fetch, unpack and mirror files") {
  check({
    {"touch a b", "/r/a /r/b"},
    {"touch -d yesterday -r ref a", "/r/a"},
    {"touch {a,b}.c *.h", "/r/a.c /r/b.c ?/r/*.h"},
    {"mkdir -p -m 700 a/b {c,d}", "/r/a/b /r/c /r/d"},
    {"chmod +x a", "/r/a"},
    {"chmod -x a b", "/r/a /r/b"},
    {"chmod -R u+w,go-w dir", "/r/dir/"},
    {"chmod --reference=ref a", "/r/a"},
    {"chmod 644 -- -odd", "/r/-odd"},
    {"chown -R ada:staff dir", "/r/dir/"},
    {"curl -sSLo out/x.tgz https://example.org/x.tgz", "/r/out/x.tgz"},
    {"curl --output=a https://example.org/a -o b https://example.org/b", "/r/a /r/b"},
    {"curl -O https://example.org/dir/x.tgz?q=1", "/r/x.tgz"},
    {"curl --output-dir sub -O https://example.org/x.tgz", "/r/sub/x.tgz"},
    {"curl -H 'Accept: */*' -d @body -o - https://example.org/x", ""},
    {"curl https://example.org/x", ""},
    {"wget -O a https://example.org/x", "/r/a"},
    {"wget -q https://example.org/dir/x.tgz", "/r/x.tgz"},
    {"wget -P sub https://example.org/x.tgz", "/r/sub/x.tgz"},
    {"wget -qO- https://example.org/x | sh", ""},
    {"wget --spider https://example.org/x", ""},
    {"tar xzf a.tgz -C sub", "/r/sub/"},
    {"tar -xf a.tar", "/r/"},
    {"tar --extract --file=a.tar --directory=/abs", "/abs/"},
    {"tar czf out.tgz -C src .", "/r/out.tgz"},
    {"tar cf - src | ssh host tar xf -", ""},
    {"tar tf a.tar", ""},
    {"tar xOf a.tar x", ""},
    {"rsync -a src/ dst/", "/r/dst/"},
    {"rsync -a a b dst", "/r/dst/a/ /r/dst/b/"},
    {"rsync -e 'ssh -p 2' host:dir/x dst/", "/r/dst/x/"},
    {"rsync -a src/ host:dst", ""},
    {"rsync -an src/ dst/", ""},
    {"wget -np https://example.org/x.tgz", "/r/x.tgz"},
    {"clang-format -i a.cpp src", "/r/a.cpp/ /r/src/"},
    {"clang-format a.cpp", ""},
    {"npx prettier --write --config x.json a.js", ""},
    {"prettier --write --config x.json a.js", "/r/a.js/"},
    {"black -l 100 .", "/r/"},
    {"black --check .", ""},
    {"gofmt -l -w a.go", "/r/a.go/"},
    {"git checkout -- :/a", "/r/a/"},
    {"git restore :/", "/r/"},
  });
}

TEST_CASE("where and by whom a program is run") {
  check({
    {"cd sub && rm a", "/r/sub/a"},
    {"cd /x && cd y && rm a", "/x/y/a"},
    {"(cd sub && rm a); rm b", "/r/sub/a /r/b"},
    {"cd && rm a", "/home/ada/a"},
    {"A=1 B=2 rm a", "/r/a"},
    {"f=a.txt; echo x > \"$f\"", "/r/a.txt"},
    {"export f=a.txt && rm $f", "/r/a.txt"},
    {"f=$(x); rm $f", ""},
    {"sudo -u root rm a", "/r/a"},
    {"env -i A=b nice -n 5 timeout -k 1 5 rm a", "/r/a"},
    {"/bin/rm a", "/r/a"},
    {"nohup rm a &", "/r/a"},
    {"if true; then rm a; else rm b; fi", "/r/a /r/b"},
    {"while :; do rm a; done", "/r/a"},
    {"{ rm a; }", "/r/a"},
    {"! rm a", "/r/a"},
    {"bash -c 'cd sub && rm a'", "/r/sub/a"},
    {"bash -lc \"echo x > a\"", "/r/a"},
    {"bash <<'EOF'\nrm a\nEOF\nrm b", "/r/a /r/b"},
    {"eval 'rm a'", "/r/a"},
    {"x=$(rm a)", "/r/a"},
    {"echo \"`rm a`\"", "/r/a"},
    {"cat <<A > out <<B\n1\nA\n2\nB\nrm c", "/r/out /r/c"},
    {"rm a \\\n  b", "/r/a /r/b"},
    {"case x in a) rm a;; b) rm b;; esac", "/r/a /r/b"},
  });
}

TEST_CASE("a shell's text is the first word that is no option") {
  check({
    {"bash -euo pipefail -c 'rm a'", "/r/a"},
    {"sh -euo pipefail -c \"rm a\"", "/r/a"},
    {"bash -ceuo pipefail 'rm a'", "/r/a"},
    {"bash -c -e 'rm a' b", "/r/a"},
    {"bash +e -o pipefail -O extglob -c 'rm a'", "/r/a"},
    {"bash --rcfile x -c 'rm a'", "/r/a"},
    {"bash --init-file x --norc -c 'rm a'", "/r/a"},
    {"bash -c -- 'rm a'", "/r/a"},
    {"bash -s arg <<'EOF'\nrm a\nEOF", "/r/a"},
    {"bash -eo pipefail script 'rm a' -c", ""},
    {"bash --rcfile 'rm a'", ""},
  });
}

TEST_CASE("a cd to where nothing is may fail, and what follows runs in either directory") {
  check({
    {"cd nope; rm a", "/r/nope/a /r/a"},
    {"cd nope 2>&-; rm a", "/r/nope/a /r/a"},
    {"cd nope\nrm a", "/r/nope/a /r/a"},
    {"cd nope || rm a", "/r/a"},
    {"cd nope || true; rm a", "/r/a /r/nope/a"},
    {"cd nope || exit 1; rm a", "/r/nope/a"},
    {"make || exit 1; rm a", "/r/a"},
    {"cd nope && rm a; rm b", "/r/nope/a /r/nope/b /r/b"},
    {"cd nope &&\n rm a", "/r/nope/a"},
    {"cd nope && cd more && rm a || rm b", "/r/nope/more/a /r/nope/more/b /r/b /r/nope/b"},
    {"cd nope || cd more && rm a", "/r/more/a /r/nope/a"},
    {"cd nope; rm /x/a", "/x/a"},
    {"cd nope; echo x > a", "/r/nope/a /r/a"},
    {"cd nope; rm *.c", "?/r/nope/*.c ?/r/*.c"},
    {"cd nope; bash -c 'rm a'", "/r/nope/a /r/a"},
    {"cd nope; x=$(rm a)", "/r/nope/a /r/a"},
    {"(cd nope; rm a); rm b", "/r/nope/a /r/a /r/b"},
    {"mkdir -p out/x; cd out; rm a; cd x; rm b", "/r/out/x /r/out/a /r/out/x/b"},
  });
}

TEST_CASE("a write in a directory that is missing is marked where the command may be in another one") {
  auto all = paths_written_by("cd /nowhere/nope; rm a b*; cp x y", {"/", ""});
  REQUIRE(all.size() == 6);
  for (const auto& w : all)
    CHECK_MESSAGE(w.missing == w.path.starts_with("/nowhere/nope/"), w.path);
  for (const auto& w : paths_written_by("cd /nowhere/nope && rm a", {"/", ""}))
    CHECK(!w.missing);
}

TEST_CASE("a cd leads back to where another one was") {
  check({
    {"cd /tmp; cd -; rm a", "/r/a"},
    {"cd /tmp && cd - && rm a", "/r/a"},
    {"cd /tmp; cd \"$OLDPWD\"; rm a", "/r/a /tmp/a"},
    {"cd /tmp; rm $OLDPWD/a", "/r/a"},
    {"pushd /tmp; popd; rm a", "/r/a"},
    {"pushd /tmp > /dev/null && pushd / && popd && rm a && popd && rm b", "/dev/null /tmp/a /r/b"},
    {"pushd /tmp; pushd; rm a", "/r/a"},
    {"popd; rm a", "/r/a"},
    {"pushd /tmp; (popd; rm a); rm b", "/r/a /tmp/b"},
    {"cd - && rm a", ""},
    {"pushd +1; rm a", ""},
  });
}

TEST_CASE("a cd in the background or in a pipeline is another shell's") {
  check({
    {"cd /tmp & rm a", "/r/a"},
    {"cd /tmp && rm a & rm b", "/tmp/a /r/b"},
    {"cd /tmp | cat; rm a", "/r/a"},
    {"cd /tmp |& cat && rm a", "/r/a"},
    {"cd /tmp && rm a | rm b; rm c", "/tmp/a /tmp/b /tmp/c"},
    // Some shells run the last program of a pipeline themselves.
    {"echo | cd /tmp; rm a", "/r/a /tmp/a"},
    {"echo |\n tee a", "/r/a"},
  });
}

TEST_CASE("a program that is started elsewhere writes there, and the shell stays") {
  check({
    {"env -C src rm a; rm b", "/r/src/a /r/b"},
    {"env -Csrc A=b rm a", "/r/src/a"},
    {"env --chdir=src rm a", "/r/src/a"},
    {"env --chdir src bash -c 'rm a'", "/r/src/a"},
    {"sudo -D src rm a", "/r/src/a"},
    {"sudo -u root --chdir=/x rm a", "/x/a"},
    {"env -C \"$dir\" rm a; rm b", "/r/b"},
    {"env -S 'rm a'", "/r/a"},
    {"env -S'rm a' b", "/r/a /r/b"},
    {"env -i --split-string='A=b rm' 'c d'", "/r/c d"},
    {"env - rm a", "/r/a"},
    {"sudo -uroot rm a", "/r/a"},
  });
}

TEST_CASE("a shell command is looked at as it stands on the disk, too") {
  namespace fs = std::filesystem;
  auto base = fs::temp_directory_path() / ("swarm-hook-shell." + std::to_string(getpid()));
  fs::create_directories(base / "dir");
  std::ofstream{base / "tracked.c"} << "x";
  std::ofstream{base / "x.patch"}
    << "diff --git a/src/a.c b/src/a.c\n--- a/src/a.c\t2026\n+++ b/src/a.c\t2026\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/new.c\n"
       "rename from old.c\nrename to renamed.c\n";
  fs::create_directories(base / ".git");
  auto root = base.string();
  CHECK(written("cp a dir", root) == root + "/dir/a");
  CHECK(written("mv tracked.c dir", root) == root + "/tracked.c/ " + root + "/dir/tracked.c/");
  CHECK(written("cp -T a dir", root) == root + "/dir");
  CHECK(written("git checkout tracked.c", root) == root + "/tracked.c/");
  CHECK(written("git checkout .", root) == root + "/");
  CHECK(written("git apply ../x.patch", root + "/dir") ==
        root + "/src/a.c " + root + "/src/a.c " + root + "/new.c " + root + "/old.c " + root + "/renamed.c");
  CHECK(written("patch -p1 < x.patch", root).find(root + "/src/a.c") == 0);
  CHECK(written("patch -p1 -i x.patch", root).find(root + "/src/a.c") == 0);
  CHECK(written("mkdir -p dir dir/new", root) == root + "/dir/new");
  CHECK(written("rsync -a tracked.c copy.c", root) == root + "/copy.c/");
  CHECK(written("rsync -a dir copy", root) == root + "/copy/dir/");
  fs::create_symlink(base / "dir", base / "link");
  CHECK(written("ln -sf x link", root) == root + "/link/x");
  CHECK(written("ln -sfn x link", root) == root + "/link");
  CHECK(written("git restore :/tracked.c", root + "/dir") == root + "/tracked.c/");
  fs::remove_all(base);
}

TEST_CASE("programs with arguments, which no shell reads") {
  auto argv = [](std::vector<std::string> words) {
    std::string out;
    for (const auto& w : paths_written_by(words, {"/r", "/home/ada"}))
      out += (out.empty() ? "" : " ") + w.path;
    return out;
  };
  CHECK(argv({"bash", "-lc", "echo x > a"}) == "/r/a");
  CHECK(argv({"rm", "a b", "$x", "*"}) == "/r/a b /r/$x /r/*");
  CHECK(argv({"echo", ">", "a"}).empty());
  CHECK(argv({}).empty());
}

TEST_CASE("paths of a patch's envelope") {
  using names = std::vector<std::string>;
  CHECK(paths_in_envelope("*** Begin Patch\n*** Add File: a b.c\n+x\n*** Update File: c.c\n*** Move to: d.c\n@@\n-*** Delete File: no\n"
                          "*** Delete File: e.c\r\n*** Move File: f -> g\n*** End Patch") == names{"a b.c", "c.c", "d.c", "e.c", "f", "g"});
  CHECK(paths_in_envelope("").empty());
  CHECK(paths_in_envelope("*** Update File:   \n*** Move File: ->").empty());
}

TEST_CASE("nothing a script says makes the look at it fail or take long") {
  for (const auto* piece : {"'",   "\"", "`", "$(", "((", "[[ ", "<<",    "<<'",         "{a,",       "}", "\\", "$", "${", ">", "<(", "sudo ", "if ",
                            "cd ", "(",  ")", "\n", "a=", "$'",  "<<A\n", "git apply <", "bash -c '", "*", "~",  "&", "|",  ";", "#",  "{a,b}"}) {
    std::string text;
    while (text.size() < 200'000)
      text += piece;
    CHECK(paths_written_by(text, {"/r", ""}).size() <= limits::hook_paths_max + 1);
    CHECK(paths_written_by("rm a" + text, {"/r", ""}).size() <= limits::hook_paths_max + 1);
  }
  // Every beginning of a script that has everything.
  std::string_view whole =
    "cd \"a b\" && x=$(cat <<'E' | sed \"s/a/`b`/\"\nbody $(x) don't\nE\n) ${y:-{z}} $'q\\n' >> {o,p} 2>&1 <<F [[ a > b ]] ((c)) # d\nF\nmv -t d *";
  for (std::size_t n = 0; n <= whole.size(); ++n)
    paths_written_by(whole.substr(0, n), {"/r", "/h"});
  std::string zeros("rm a\0b > c\0 d*\0", 15);
  CHECK(paths_written_by(zeros, {"/r", ""}).empty());
  std::string doubled = "a=xxxxxxxx;";
  for (int i = 0; i < 60; ++i)
    doubled += "a=$a$a;";
  CHECK(written(doubled + "rm $a b") == "/r/b");
  std::string many = "rm";
  for (int i = 0; i < 5000; ++i)
    many += " f" + std::to_string(i);
  CHECK(paths_written_by(many, {"/r", ""}).size() == limits::hook_paths_max + 1);
}
