#include "tests/support/mcp_client.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace swarm::testing {

namespace {

std::pair<unique_fd, unique_fd> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(std::string{"pipe2: "} + std::strerror(errno));
  return {unique_fd{ends[0]}, unique_fd{ends[1]}};
}

bool has_id(const json& message, const json& id) {
  auto i = message.find("id");
  return i != message.end() && *i == id && !message.contains("method");
}

} // namespace

json tool_reply::value() const { return json::parse(text()); }

std::string tool_reply::keys() const { return keys_of(nlohmann::ordered_json::parse(text())); }

std::string keys_of(const nlohmann::ordered_json& object) {
  std::string out;
  for (const auto& [name, value] : object.items())
    out += (out.empty() ? "" : " ") + name;
  return out;
}

mcp_client::mcp_client(const test_node& node, const run_options& options, const std::vector<std::string>& arguments)
  : directory_(options.directory.empty() ? node.work() : options.directory) {
  std::vector<std::string> words{program("swarmctl").string(), "mcp"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables;
  for (const auto& [name, value] : node.env(options.env))
    variables.push_back(name + "=" + value);
  std::vector<char*> argv, envp;
  for (auto& w : words)
    argv.push_back(w.data());
  for (auto& v : variables)
    envp.push_back(v.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  auto [out_read, out_write] = make_pipe();
  auto [err_read, err_write] = make_pipe();
  std::tie(in_read_, in_) = make_pipe();
  fcntl(in_.get(), F_SETFL, O_NONBLOCK);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, directory_.c_str());
  posix_spawn_file_actions_adddup2(&actions, in_read_.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out_write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err_write.get(), STDERR_FILENO);
  auto failed = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    throw std::runtime_error(std::string{"posix_spawn: "} + std::strerror(failed));
  out_ = std::move(out_read);
  err_ = std::move(err_read);
}

mcp_client::~mcp_client() {
  if (status_)
    return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void mcp_client::fail(const std::string& what) const {
  std::string said;
  auto from = received_.size() > 5 ? received_.size() - 5 : 0;
  for (auto i = from; i < received_.size(); ++i)
    said += "\n" + received_[i].dump().substr(0, 2000);
  throw std::runtime_error(what + "; its last messages:" + said + "\nstderr: " + err_text_);
}

// -- lines -----------------------------------------------------------------------------------

bool mcp_client::pump(clock::time_point until) {
  if (!out_ && !err_)
    return false;
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
  pollfd fds[] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}, {to_send_.empty() ? -1 : in_.get(), POLLOUT, 0}};
  if (poll(fds, 3, static_cast<int>(std::max<std::int64_t>(left, 0))) <= 0)
    return clock::now() < until;
  char buffer[65536];
  auto take = [&](const pollfd& p, unique_fd& fd, std::string& into) {
    if (p.revents == 0)
      return;
    auto n = read(fd.get(), buffer, sizeof buffer);
    if (n > 0)
      into.append(buffer, static_cast<std::size_t>(n));
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
      fd.reset();
  };
  take(fds[0], out_, partial_);
  take(fds[1], err_, err_text_);
  if (fds[2].revents != 0) {
    auto n = write(in_.get(), to_send_.data(), to_send_.size());
    if (n > 0)
      to_send_.erase(0, static_cast<std::size_t>(n));
  }
  take_lines();
  return true;
}

void mcp_client::take_lines() {
  std::size_t from = 0;
  for (auto end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n', from)) {
    auto line = partial_.substr(from, end - from);
    from = end + 1;
    auto message = json::parse(line, nullptr, false);
    if (!message.is_object() || message.value("jsonrpc", "") != "2.0")
      fail("the server said what is no message: " + line);
    received_.push_back(std::move(message));
  }
  partial_.erase(0, from);
}

void mcp_client::send_line(const std::string& line) {
  to_send_ += line + "\n";
  auto until = clock::now() + patience;
  while (!to_send_.empty())
    if (!pump(until))
      fail("the server did not read");
}

bool mcp_client::send_unheard(const std::string& lines) {
  pollfd p{in_.get(), POLLOUT, 0};
  return poll(&p, 1, static_cast<int>(patience.count())) == 1 && write(in_.get(), lines.data(), lines.size()) == static_cast<ssize_t>(lines.size());
}

void mcp_client::notify(const std::string& method, const json& params) { send({{"jsonrpc", "2.0"}, {"method", method}, {"params", params}}); }

json mcp_client::await(const std::function<bool(const json&)>& wanted, std::size_t from, std::chrono::milliseconds deadline) {
  auto until = clock::now() + deadline;
  for (;; ++from) {
    while (from >= received_.size())
      if (!pump(until))
        fail("what is waited for did not come");
    if (wanted(received_[from]))
      return received_[from];
  }
}

json mcp_client::await_notification(const std::string& method, const json& params, std::size_t from) {
  return await([&](const json& m) { return !m.contains("id") && m.value("method", "") == method && m.value("params", json{}) == params; }, from);
}

// -- requests --------------------------------------------------------------------------------

int mcp_client::request(const std::string& method, const json& params) {
  send({{"jsonrpc", "2.0"}, {"id", ++last_id_}, {"method", method}, {"params", params}});
  return last_id_;
}

json mcp_client::answer_to(const json& id) {
  return await([&](const json& m) { return has_id(m, id); });
}

json mcp_client::result(const std::string& method, const json& params) {
  auto answer = answer_to(request(method, params));
  if (!answer.contains("result"))
    fail(method + " brought " + answer.dump());
  return answer["result"];
}

json mcp_client::error(const std::string& method, const json& params) {
  auto answer = answer_to(request(method, params));
  if (!answer.contains("error"))
    fail(method + " brought " + answer.dump());
  return answer["error"];
}

bool mcp_client::is_answered(const json& id) {
  while (pump(clock::now()))
    ;
  return std::any_of(received_.begin(), received_.end(), [&](const json& m) { return has_id(m, id); });
}

json mcp_client::initialize(const std::string& version) {
  auto out =
    result("initialize", {{"protocolVersion", version}, {"capabilities", json::object()}, {"clientInfo", {{"name", "test"}, {"version", "1"}}}});
  notify("notifications/initialized");
  return out;
}

// -- tools -----------------------------------------------------------------------------------

int mcp_client::call_later(const std::string& tool, const json& arguments) {
  return request("tools/call", {{"name", tool}, {"arguments", arguments}});
}

tool_reply mcp_client::reply_to(const json& id) {
  auto answer = answer_to(id);
  if (!answer.contains("result"))
    fail("a tool call brought " + answer.dump());
  tool_reply out;
  for (const auto& block : answer["result"].at("content")) {
    if (block.at("type") != "text" || block.size() != 2)
      fail("a block that is no text: " + block.dump());
    out.texts.push_back(block.at("text"));
  }
  out.is_error = answer["result"].value("isError", false);
  return out;
}

json mcp_client::ask(const std::string& tool, const json& arguments) {
  auto reply = call(tool, arguments);
  auto value = json::parse(reply.text(), nullptr, false);
  if (reply.is_error || value.is_discarded())
    fail(tool + " " + arguments.dump() + " brought " + reply.text());
  return value;
}

json mcp_client::enroll(const std::string& label, json more) {
  more["directory"] = directory_;
  if (!label.empty())
    more["label"] = label;
  auto instance = ask("register", more);
  id_ = instance.at("id");
  return instance;
}

// -- ends ------------------------------------------------------------------------------------

void mcp_client::signal(int number) const { kill(pid_, number); }

void mcp_client::close_input() {
  in_.reset();
  in_read_.reset();
}

void mcp_client::close_output() { out_.reset(); }

int mcp_client::finish(std::chrono::milliseconds deadline) {
  auto until = clock::now() + deadline;
  constexpr std::chrono::milliseconds slice{20};
  while (!status_) {
    auto more = pump(std::min(until, clock::now() + slice));
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_)
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    else if (clock::now() >= until)
      fail("the server did not end");
    else if (!more)
      poll(nullptr, 0, 1); // it has closed its ends, or the slice is over
  }
  // A child of it may hold the ends open; what it has written itself is there already.
  while (pump(clock::now()))
    ;
  return *status_;
}

} // namespace swarm::testing
