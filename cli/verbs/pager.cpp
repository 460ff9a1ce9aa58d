#include "cli/verbs/pager.hpp"

#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "actors/base/atomic_file.hpp"
#include "actors/base/child_process.hpp"
#include "actors/base/text.hpp"

namespace swarm::cli {

namespace {

/// For this user alone; it goes with this object.
class private_file {
public:
  explicit private_file(const std::string& text) {
    std::error_code ec;
    auto directory = std::filesystem::temp_directory_path(ec);
    path_ = ((ec ? std::filesystem::path{"/tmp"} : directory) / "swarmctl-XXXXXX").string();
    const auto fd = mkostemp(path_.data(), O_CLOEXEC);
    if (fd < 0)
      throw failure(code::refused, concat({"a file for what is to be read cannot be made: ", std::strerror(errno)}));
    const auto error = write_all(fd, text);
    close(fd);
    if (error) {
      unlink(path_.c_str());
      throw failure(code::refused, concat({path_, " cannot be written: ", error.message()}));
    }
  }
  ~private_file() { unlink(path_.c_str()); }
  private_file(const private_file&) = delete;
  private_file& operator=(const private_file&) = delete;
  const std::string& path() const noexcept { return path_; }

private:
  std::string path_;
};

} // namespace

int run_with_file(const std::string& command, const std::filesystem::path& file) {
  child_options o;
  o.arguments = {"/bin/sh", "-c", command + " \"$@\"", command, file.string()};
  for (char** v = environ; v != nullptr && *v != nullptr; ++v)
    o.environment.emplace_back(*v);
  o.own_session = false;
  o.standard = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
  // Ctrl-C in the program is the program's.
  const auto interrupt = signal(SIGINT, SIG_IGN), quit = signal(SIGQUIT, SIG_IGN);
  const auto child = start_child(o);
  const auto status = child.pid > 0 ? wait_for_child(child.pid) : -1;
  signal(SIGINT, interrupt);
  signal(SIGQUIT, quit);
  return status;
}

void show_long(const invocation& cli, const std::string& text, const std::function<void()>& read_on) {
  {
    const private_file file{escape_control(text) + "\n"};
    const auto named = cli.env().get("PAGER");
    const auto pager = named.empty() ? std::string{"less"} : named;
    if (run_with_file(pager, file.path()) == 0)
      return read_on();
    cli.io().error(pager + " could not show the text; here it is:");
  }
  cli.io().line(text);
  read_on();
}

} // namespace swarm::cli
