#include "cli/verbs/passphrase.hpp"

#include <fstream>
#include <iostream>

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include "actors/base/limits.hpp"
#include "actors/base/unique_fd.hpp"
#include "gateway/client/failure.hpp"

namespace swarm::cli {

namespace {

/// What is typed is not shown while this lives.
class no_echo {
public:
  explicit no_echo(int fd) : fd_(fd), known_(tcgetattr(fd, &before_) == 0) {
    auto quiet = before_;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (known_)
      tcsetattr(fd_, TCSAFLUSH, &quiet);
  }
  ~no_echo() {
    if (known_)
      tcsetattr(fd_, TCSAFLUSH, &before_);
  }
  no_echo(const no_echo&) = delete;
  no_echo& operator=(const no_echo&) = delete;

private:
  int fd_;
  termios before_{};
  bool known_;
};

constexpr const char* use_a_file = "there is no terminal to type a passphrase at; use --passphrase-file FILE";

} // namespace

std::string typed_passphrase(const std::string& question, const std::string& without_terminal) {
  unique_fd terminal{open("/dev/tty", O_RDWR | O_CLOEXEC)};
  if (!terminal)
    throw failure(code::usage, without_terminal);
  auto say = [&](std::string_view text) { (void)!write(terminal.get(), text.data(), text.size()); };
  std::string out;
  out.reserve(limits::passphrase_bytes_max + 1); // growing would leave copies behind
  {
    no_echo quiet{terminal.get()}; // before anybody is asked to type
    say(question);
    char c = 0;
    while (out.size() <= limits::passphrase_bytes_max && read(terminal.get(), &c, 1) == 1 && c != '\n')
      out += c;
  }
  say("\n");
  if (out.size() > limits::passphrase_bytes_max)
    throw failure(code::usage, "the passphrase is longer than 1 KiB");
  return out;
}

std::string read_line_of(std::istream& in, std::size_t bytes_max) {
  std::string out;
  for (char c = 0; in.get(c) && c != '\n';) {
    out += c;
    if (out.size() > bytes_max)
      throw failure(code::usage, "the line is longer than " + std::to_string(bytes_max) + " bytes");
  }
  if (!out.empty() && out.back() == '\r')
    out.pop_back();
  return out;
}

std::string read_passphrase(const std::string& file, const std::string& question) {
  if (file.empty())
    return typed_passphrase(question, use_a_file);
  if (file == "-")
    return read_line_of(std::cin, limits::passphrase_bytes_max);
  std::ifstream in{file};
  if (!in)
    throw failure(code::usage, "the file " + file + " cannot be read");
  return read_line_of(in, limits::passphrase_bytes_max);
}

std::string new_passphrase(const std::string& file) {
  auto out = read_passphrase(file, "New passphrase for the cluster's authority: ");
  if (out.empty())
    throw failure(code::usage, "the passphrase is empty; --insecure-ca keeps the key without one");
  if (file.empty() && typed_passphrase("Once more: ", use_a_file) != out)
    throw failure(code::usage, "the two passphrases differ");
  return out;
}

} // namespace swarm::cli
