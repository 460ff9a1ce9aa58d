#include "tests/fault/host_streams.hpp"

#include <algorithm>

#include <poll.h>

namespace swarm::testing {

namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr auto longest_call = 60s; // beyond every harm: a call that has no answer by then makes no progress
constexpr auto attempt = 4s;
constexpr int pause_ms = 20;
constexpr std::size_t unread_most = 40;
constexpr std::size_t line_bytes = 80;
constexpr std::string_view greeting = "ready\n";

// Numbers of one width, one in a line: the offset says which byte it is. More of them than a node may grow by.
constexpr std::uint64_t first_number = 1'000'000'000'000'000;
constexpr std::uint64_t number_bytes = 17;
constexpr std::uint64_t numbers = 24'000'000;
constexpr auto longest_flood = 240s;

std::string flood_text(std::uint64_t from, std::size_t bytes) {
  std::string out;
  for (auto n = from / number_bytes; out.size() < from % number_bytes + bytes; ++n)
    out += std::to_string(first_number + n) + '\n';
  return out.substr(from % number_bytes, bytes);
}

std::string who(const char* what, std::size_t from, std::size_t to) { return what + host_world::name(from) + "-" + host_world::name(to); }

} // namespace

// -- mail ----------------------------------------------------------------------------------

mail_flow::mail_flow(const host_world& w, history::recorder& h, std::size_t from, std::size_t to)
  : name_(who("mail-", from, to)), history_(h), sender_(w.node(from), h, name_ + "-sender", shared_scope),
    recipient_(w.node(to), h, name_ + "-recipient", shared_scope), sending_([this] { send_all(); }), taking_([this] { take_all(); }) {}

mail_flow::~mail_flow() {
  stop_ = over_ = true;
  if (sending_.joinable())
    sending_.join();
  if (taking_.joinable())
    taking_.join();
}

void mail_flow::send_all() {
  for (std::size_t n = 1; !stop_; ++n) {
    while (!stop_ && sent_ - taken_ >= unread_most)
      poll(nullptr, 0, pause_ms);
    auto cmd = sender_.command();
    cmd.mutable_send_message()->set_recipient(recipient_.session());
    cmd.mutable_send_message()->set_content(std::to_string(n));
    auto id = history_.invoke("append", name_, {"append", sender_.session(), std::to_string(n), 0});
    try {
      auto r = sender_.execute(cmd, longest_call);
      if (!r || r->has_refusal()) {
        history_.unknown(id);
        failed_ = name_ + ": message " + std::to_string(n) + (r ? " was refused: " + r->refusal().text() : " had no answer");
        return;
      }
    } catch (const std::exception& e) {
      failed_ = name_ + ": " + e.what();
      return;
    }
    history_.ok(id, "", n);
    sent_ = n;
    poll(nullptr, 0, pause_ms);
  }
}

void mail_flow::take_all() {
  auto cmd = recipient_.command();
  cmd.mutable_consume_messages()->set_limit(10);
  for (auto last = false; !last;) {
    last = over_;
    try {
      auto r = recipient_.execute(cmd, longest_call);
      if (!r || r->has_refusal()) {
        failed_to_take_ = name_ + ": mail cannot be taken: " + (r ? r->refusal().text() : "no answer");
        return;
      }
      // The scope tells everybody of sessions that have ended and of what they had to do.
      for (const auto& m : r->messages().messages())
        if (m.sender() == sender_.session())
          found_.push_back(m.content());
      taken_ = found_.size();
      last = last && r->messages().messages_size() == 0;
    } catch (const std::exception& e) {
      failed_to_take_ = name_ + ": " + e.what();
      return;
    }
    if (!last)
      poll(nullptr, 0, pause_ms);
  }
}

std::string mail_flow::finish() {
  stop_ = true;
  sending_.join();
  over_ = true;
  taking_.join();
  if (!failed_.empty() || !failed_to_take_.empty())
    return failed_ + failed_to_take_;
  std::vector<history::operation> mine;
  for (const auto& o : history_.operations())
    if (o.model == "append" && o.object == name_)
      mine.push_back(o);
  auto wrong = history::check_appends(mine, found_);
  return wrong.empty() ? "" : name_ + ": " + wrong + " (" + std::to_string(sent_) + " sent, " + std::to_string(found_.size()) + " taken)";
}

// -- events --------------------------------------------------------------------------------

watch_flow::watch_flow(const host_world& w, std::size_t host)
  : name_("watch-" + host_world::name(host)), client_(w.node(host), {}, shared_scope), thread_([this] { follow(); }) {}

watch_flow::~watch_flow() {
  {
    std::lock_guard guard{mutex_};
    stop_ = true;
    if (current_)
      current_->TryCancel();
  }
  if (thread_.joinable())
    thread_.join();
}

bool watch_flow::read(node_client& client, grpc::ClientContext& context, seen& into, std::mutex& mutex, bool to_now, std::string& wrong) {
  v1::WatchRequest request;
  request.set_scope(shared_scope);
  {
    std::lock_guard guard{mutex};
    request.set_after(into.empty() ? 0 : into.rbegin()->first);
  }
  auto stream = client.coordination().Watch(&context, request);
  v1::WatchReply page;
  while (stream->Read(&page)) {
    if (to_now && page.events().empty())
      return true;
    std::lock_guard guard{mutex};
    for (const auto& e : page.events()) {
      auto last = into.empty() ? e.revision() - 1 : into.rbegin()->first;
      if (e.revision() != last + 1) {
        wrong = "after event " + std::to_string(last) + " came " + std::to_string(e.revision());
        return false;
      }
      into.emplace(e.revision(), e.type() + " " + e.subject() + " " + e.actor());
    }
  }
  auto status = stream->Finish();
  if (status.error_code() != grpc::StatusCode::OUT_OF_RANGE && status.error_code() != grpc::StatusCode::INVALID_ARGUMENT)
    return true;
  wrong = status.error_message();
  return false;
}

void watch_flow::follow() {
  for (;;) {
    grpc::ClientContext context;
    client_.prepare(context, 24h);
    {
      std::lock_guard guard{mutex_};
      if (stop_)
        return;
      current_ = &context;
    }
    std::string wrong;
    auto go_on = read(client_, context, seen_, mutex_, false, wrong);
    {
      std::lock_guard guard{mutex_};
      current_ = nullptr;
      if (!go_on)
        wrong_ = name_ + ": " + wrong;
      if (stop_ || !go_on)
        return;
    }
    ++breaks_;
    poll(nullptr, 0, pause_ms);
  }
}

std::size_t watch_flow::events() const {
  std::lock_guard guard{mutex_};
  return seen_.size();
}

std::string watch_flow::finish(const host_world& w) {
  node_client at_home{w.node(host_world::home), {}, shared_scope};
  seen all;
  std::mutex none;
  std::string wrong;
  grpc::ClientContext context;
  at_home.prepare(context, longest_call);
  if (!read(at_home, context, all, none, true, wrong))
    return "the events at the home: " + wrong;
  context.TryCancel();
  auto last = all.empty() ? 0 : all.rbegin()->first;
  auto caught_up = eventually([&] {
    std::lock_guard guard{mutex_};
    return !wrong_.empty() || (!seen_.empty() && seen_.rbegin()->first >= last);
  });
  std::lock_guard guard{mutex_};
  if (!wrong_.empty())
    return wrong_;
  if (!caught_up || all.empty())
    return name_ + " has seen events up to " + std::to_string(seen_.empty() ? 0 : seen_.rbegin()->first) + " of " + std::to_string(last);
  for (const auto& [revision, what] : all)
    if (auto i = seen_.find(revision); i == seen_.end() || i->second != what)
      return name_ + ": event " + std::to_string(revision) + " is " + what + " at the home, and was seen as " +
             (i == seen_.end() ? "none" : i->second);
  return {};
}

// -- terminals -----------------------------------------------------------------------------

terminal_flow::terminal_flow(const host_world& w, std::size_t on, std::size_t typed_on, std::size_t read_on)
  : world_(w), on_(on),
    name_("terminal on " + host_world::name(on) + ", typed to on " + host_world::name(typed_on) + ", read on " + host_world::name(read_on)),
    maker_(w.node(on)), typist_(w.node(typed_on)), reader_(w.node(read_on)), typing_([this] { type_all(); }) {}

terminal_flow::~terminal_flow() {
  stop_ = true;
  if (typing_.joinable())
    typing_.join();
}

void terminal_flow::type_all() {
  try {
    while (!stop_ && type_one())
      ;
  } catch (const std::exception& e) {
    std::lock_guard guard{mutex_};
    wrong_ = name_ + ": " + e.what();
  }
}

/// A terminal that is gone with its keeper is followed by a new one; every other end is wrong.
bool terminal_flow::type_one() {
  keepers_ = world_.keeper_kills(on_);
  v1::CreatePtyRequest make;
  *make.mutable_id() = maker_.next_id();
  make.set_scope(world_.node(on_).work());
  make.set_directory(world_.node(on_).work());
  for (const auto* word : {"sh", "-c", "stty raw -echo; echo ready; exec cat"})
    make.add_argv(word);
  v1::PtyInfo info;
  grpc::Status status;
  for (auto until = steady::now() + longest_call; steady::now() < until;) {
    grpc::ClientContext context;
    maker_.prepare(context, attempt);
    context.set_wait_for_ready(true);
    status = maker_.ptys().Create(&context, make, &info);
    if (status.ok() || keeper_is_gone())
      break;
    poll(nullptr, 0, pause_ms);
  }
  if (!status.ok())
    return keeper_is_gone() ? true : throw std::runtime_error("no terminal: " + status.error_message());
  {
    std::lock_guard guard{mutex_};
    typed_ = greeting;
  }
  all_typed_ = false;
  std::thread reading([&] { read_one(info.id()); });
  // What is typed before the program has set its terminal would be echoed.
  auto ready = eventually([&] { return bytes_ > 0 || keeper_is_gone(); });
  std::string failed = ready ? "" : "the program does not begin";
  for (std::size_t n = 1; !stop_ && failed.empty() && !keeper_is_gone(); ++n) {
    auto line = std::to_string(n) + " ";
    line.resize(line_bytes - 1, static_cast<char>('a' + n % 26));
    line += '\n';
    v1::SendPtyRequest send;
    *send.mutable_id() = typist_.next_id();
    send.set_pty_id(info.id());
    send.set_data(line);
    {
      std::lock_guard guard{mutex_};
      typed_ += line;
    }
    v1::SendPtyReply reply;
    auto until = steady::now() + longest_call;
    do {
      grpc::ClientContext context;
      typist_.prepare(context, attempt);
      context.set_wait_for_ready(true);
      status = typist_.ptys().Send(&context, send, &reply);
      if (status.ok() || keeper_is_gone())
        break;
      poll(nullptr, 0, pause_ms);
    } while (steady::now() < until);
    if (!status.ok() && !keeper_is_gone())
      failed = "line " + std::to_string(n) + " is not taken: " + status.error_message();
    lines_ += status.ok();
    poll(nullptr, 0, pause_ms);
  }
  all_typed_ = true;
  reading.join();
  std::lock_guard guard{mutex_};
  if (!failed.empty() && wrong_.empty())
    wrong_ = name_ + ": " + failed;
  return wrong_.empty();
}

/// Reads from where the last stream broke, until everything typed has come or the terminal is gone with its keeper.
void terminal_flow::read_one(const std::string& id) {
  std::uint64_t at = 0;
  auto fail = [this](const std::string& text) {
    std::lock_guard guard{mutex_};
    wrong_ = name_ + ": " + text;
  };
  auto complete = [&] {
    std::lock_guard guard{mutex_};
    return all_typed_ && at == typed_.size();
  };
  bytes_ = 0;
  auto late = steady::time_point::max();
  while (!complete() && !(all_typed_ && keeper_is_gone())) {
    if (all_typed_ && late == steady::time_point::max())
      late = steady::now() + longest_call;
    if (steady::now() > late)
      return fail("only " + std::to_string(at) + " bytes have come");
    grpc::ClientContext context;
    reader_.prepare(context, all_typed_ ? 1s : 5s);
    v1::ReadPtyRequest request;
    request.set_id(id);
    request.set_from(at);
    request.set_follow(true);
    auto stream = reader_.ptys().Read(&context, request);
    v1::PtyChunk chunk;
    while (stream->Read(&chunk)) {
      std::lock_guard guard{mutex_};
      gaps_ += chunk.gap();
      if (!chunk.data().empty() && (chunk.offset() != at + chunk.gap() || typed_.compare(chunk.offset(), chunk.data().size(), chunk.data()) != 0)) {
        wrong_ = name_ + ": at " + std::to_string(at) + " came " + std::to_string(chunk.data().size()) + " bytes from " +
                 std::to_string(chunk.offset()) + ", which are not what was typed: " + chunk.data().substr(0, 200) + " instead of " +
                 typed_.substr(std::min<std::size_t>(chunk.offset(), typed_.size()), 200);
        context.TryCancel();
        return;
      }
      if (!chunk.data().empty())
        at = chunk.offset() + chunk.data().size();
      bytes_ = at;
      if (chunk.ended() && !keeper_is_gone()) {
        wrong_ = name_ + ": the program ended with " + std::to_string(chunk.exit_status()) + ", signal " + std::to_string(chunk.signal());
        return;
      }
    }
    if (auto ended = stream->Finish(); ended.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED)
      ++breaks_;
    poll(nullptr, 0, pause_ms);
  }
}

std::string terminal_flow::finish() {
  stop_ = true;
  typing_.join();
  std::lock_guard guard{mutex_};
  return wrong_;
}

// -- floods --------------------------------------------------------------------------------

flood_flow::flood_flow(const host_world& w, std::size_t on, std::size_t read_on)
  : world_(w), on_(on), name_("flood on " + host_world::name(on) + ", read on " + host_world::name(read_on)), maker_(w.node(on)),
    reader_(w.node(read_on)), thread_([this] { flood(); }) {}

flood_flow::~flood_flow() {
  stop_ = true;
  if (thread_.joinable())
    thread_.join();
}

void flood_flow::flood() {
  try {
    while (!stop_ && !flood_once())
      ;
  } catch (const std::exception& e) {
    wrong_ = name_ + ": " + e.what();
  }
}

bool flood_flow::flood_once() {
  keepers_ = world_.keeper_kills(on_);
  v1::CreatePtyRequest make;
  *make.mutable_id() = maker_.next_id();
  make.set_scope(world_.node(on_).work());
  make.set_directory(world_.node(on_).work());
  auto program = "stty raw -echo; exec seq " + std::to_string(first_number) + " " + std::to_string(first_number + numbers - 1);
  for (const auto& word : {std::string{"sh"}, std::string{"-c"}, program})
    make.add_argv(word);
  v1::PtyInfo info;
  grpc::Status status;
  for (auto until = steady::now() + longest_call; !stop_ && steady::now() < until; poll(nullptr, 0, pause_ms)) {
    grpc::ClientContext context;
    maker_.prepare(context, attempt);
    context.set_wait_for_ready(true);
    status = maker_.ptys().Create(&context, make, &info);
    if (status.ok() || keeper_is_gone())
      break;
  }
  if (info.id().empty() && !keeper_is_gone())
    throw std::runtime_error("no terminal: " + status.error_message());
  if (info.id().empty())
    return false;
  // Once along with it, and once when most of it is not there any more.
  return read_all(info.id()) && read_all(info.id());
}

bool flood_flow::read_all(const std::string& id) {
  std::uint64_t at = 0;
  auto ended = false;
  for (auto until = steady::now() + longest_flood; !ended; poll(nullptr, 0, pause_ms)) {
    if (keeper_is_gone())
      return false;
    if (stop_ || steady::now() > until)
      throw std::runtime_error("it does not end; " + std::to_string(at) + " bytes have come or are reported as lost");
    if (!read_on(id, at, ended) && keeper_is_gone())
      return false;
  }
  if (at != numbers * number_bytes)
    throw std::runtime_error("it ends after " + std::to_string(at) + " of " + std::to_string(numbers * number_bytes) + " bytes");
  return true;
}

bool flood_flow::read_on(const std::string& id, std::uint64_t& at, bool& ended) {
  grpc::ClientContext context;
  reader_.prepare(context, 5s);
  v1::ReadPtyRequest request;
  request.set_id(id);
  request.set_from(at);
  request.set_follow(true);
  auto stream = reader_.ptys().Read(&context, request);
  v1::PtyChunk chunk;
  std::string wrong;
  while (wrong.empty() && !ended && stream->Read(&chunk)) {
    if (chunk.ended() && (chunk.exit_status() != 0 || chunk.signal() != 0)) {
      wrong = "the program ended with " + std::to_string(chunk.exit_status()) + ", signal " + std::to_string(chunk.signal());
    } else if (!chunk.data().empty() || chunk.gap() > 0) {
      if (chunk.offset() != at + chunk.gap() || chunk.data() != flood_text(chunk.offset(), chunk.data().size()))
        wrong = "at " + std::to_string(at) + ", with a gap of " + std::to_string(chunk.gap()) + ", came " + std::to_string(chunk.data().size()) +
                " bytes from " + std::to_string(chunk.offset()) + ", which are not what was written: " + chunk.data().substr(0, 100);
      gaps_ += chunk.gap();
      bytes_ += chunk.data().size();
      at = chunk.offset() + chunk.data().size();
    }
    ended = wrong.empty() && chunk.ended();
  }
  context.TryCancel();
  (void)stream->Finish();
  if (wrong.empty())
    return true;
  if (keeper_is_gone())
    return false;
  throw std::runtime_error(wrong);
}

std::string flood_flow::finish() {
  thread_.join();
  if (!wrong_.empty())
    return wrong_;
  return gaps_ > 0 ? "" : name_ + ": all of " + std::to_string(bytes_) + " bytes are kept: there was nothing to announce";
}

} // namespace swarm::testing
