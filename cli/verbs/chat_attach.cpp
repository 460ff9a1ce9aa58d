#include "cli/verbs/chat_attach.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "actors/base/atomic_file.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/domain/json_text.hpp"
#include "cli/profile.hpp"
#include "cli/verbs/chat_follow.hpp"
#include "cli/verbs/chat_session.hpp"
#include "cli/verbs/reference.hpp"
#include "gateway/session/task_follow.hpp"

namespace swarm::cli {

namespace {

// A global, because a signal handler can reach nothing else.
int signal_pipe[2] = {-1, -1};
constexpr char resized = 'w', told_to_stop = 's', key_of_interrupt = '\x03';

void post(char event) {
  auto saved = errno;
  [[maybe_unused]] auto n = write(signal_pipe[1], &event, 1);
  errno = saved;
}

/// Keys come one by one and unseen, and signals as bytes on a pipe, while this lives.
class quiet_terminal {
public:
  quiet_terminal() : active_(tcgetattr(STDIN_FILENO, &saved_) == 0) {
    if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
      throw failure(code::refused, "cannot make a pipe");
    struct sigaction window {
    }, stop{};
    window.sa_handler = [](int) { post(resized); };
    stop.sa_handler = [](int) { post(told_to_stop); };
    for (std::size_t i = 0; i < signals.size(); ++i)
      sigaction(signals[i], signals[i] == SIGWINCH ? &window : &stop, &previous_[i]);
    termios raw = saved_;
    cfmakeraw(&raw);
    if (active_)
      tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  }
  ~quiet_terminal() {
    write_all(STDOUT_FILENO, "\x1b[?2004l");
    if (active_)
      tcsetattr(STDIN_FILENO, TCSADRAIN, &saved_);
    for (std::size_t i = 0; i < signals.size(); ++i)
      sigaction(signals[i], &previous_[i], nullptr);
    for (auto& fd : signal_pipe)
      close(std::exchange(fd, -1));
  }
  quiet_terminal(const quiet_terminal&) = delete;
  quiet_terminal& operator=(const quiet_terminal&) = delete;

private:
  static constexpr std::array signals{SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGQUIT};
  std::array<struct sigaction, signals.size()> previous_{};
  termios saved_{};
  bool active_;
};

std::size_t columns_here() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// Four threads: this one draws and takes keys; one reads what is said; one asks the node, which may take as long as the node is away; and one hears
/// what the agent asks by a tool of ours, which is not in what is said.
class attachment {
public:
  attachment(invocation& cli, const v1::Conversation& c)
    : cli_(cli), conversation_(c), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      reading_(cli.node().finder.connect(cli.env().get("SWARM_TOKEN"), false)),
      watching_(cli.node().finder.connect(cli.env().get("SWARM_TOKEN"), false)), agent_(c.session_id()),
      session_({[](std::string_view bytes) { write_all(STDOUT_FILENO, bytes); }, [this](chat_wish w) { ask(std::move(w)); },
                [this] { return cli_.boot_ms(); }, [this] { return cli_.now_ms(); }},
               short_id(c.id()), columns_here(), cli.env().get("NO_COLOR").empty()) {}
  ~attachment() {
    leave();
    if (reader_.joinable())
      reader_.join();
    if (watcher_.joinable())
      watcher_.join();
    if (asker_.joinable())
      asker_.join();
    close(wake_);
  }
  attachment(const attachment&) = delete;
  attachment& operator=(const attachment&) = delete;

  /// False when something that was typed did not reach the node, as far as is known.
  bool run() {
    quiet_terminal terminal;
    session_.start();
    reader_ = std::thread{[this] { read_all(); }};
    watcher_ = std::thread{[this] { watch_questions(); }};
    asker_ = std::thread{[this] { ask_all(); }};
    carry();
    send_the_rest();
    session_.leave();
    reader_.join();
    if (failed_)
      std::rethrow_exception(failed_);
    return !session_.has_lost();
  }

private:
  using news = std::function<void(chat_session&)>;

  void tell(news n) {
    {
      std::lock_guard guard{mutex_};
      news_.push_back(std::move(n));
    }
    std::uint64_t one = 1;
    [[maybe_unused]] auto written = write(wake_, &one, sizeof one);
  }

  void read_all() {
    v1::ReadConversationRequest request;
    request.set_scope(conversation_.scope());
    request.set_conversation_id(conversation_.id());
    request.set_follow(true);
    request.set_tail_bytes(limits::chat_tail_bytes);
    try {
      read_chunks(
        *reading_, request,
        [this](const v1::ConversationChunk& chunk) {
          if (chunk.has_state())
            agent_is(chunk.state().session_id());
          tell([chunk](chat_session& s) { s.take(chunk); });
          return !leaving_;
        },
        [this] { tell([](chat_session& s) { s.away(true); }); });
    } catch (...) {
      if (!leaving_)
        failed_ = std::current_exception();
    }
    over_ = true;
    tell([](chat_session&) {});
  }

  void agent_is(const std::string& session) {
    std::lock_guard guard{mutex_};
    agent_ = session;
  }
  std::string agent() {
    std::lock_guard guard{mutex_};
    return agent_;
  }
  /// Asked by the agent itself, by ask_person: no conversation's request, but its session's.
  bool is_question_of_agent(const v1::Approval& a) {
    return a.conversation_id().empty() && a.kind() == v1::Approval::QUESTION && a.requested_by().kind() == v1::Principal::SESSION &&
           a.requested_by().id() == agent();
  }

  /// Until the terminal is left. When the node does not come back, the reader says so.
  void watch_questions() try {
    v1::WatchRequest request;
    request.set_scope(conversation_.scope());
    request.add_types("approval.");
    request.set_from_now(true);
    bool has_begun = false;
    while (!leaving_) {
      const auto end = watching_->watch(request, [&](const v1::WatchReply& reply) {
        // What was asked before this is looked for once more, unless it will be anyway.
        if (!std::exchange(has_begun, true))
          tell([this](chat_session& s) {
            if (s.is_live())
              ask({.what = chat_wish::kind::look_open});
          });
        for (const auto& e : reply.events())
          if (domain::text_in(mcp::payload_of(e), "subject") == "session/" + agent())
            ask({.what = chat_wish::kind::look, .approval_id = e.subject()});
        request.set_after(std::max(request.after(), reply.revision()));
        request.set_from_now(request.after() == 0);
        return !leaving_;
      });
      if (end != stream_end::not_kept)
        continue;
      request.set_after(0);
      request.set_from_now(true);
      ask({.what = chat_wish::kind::look_open});
    }
  } catch (const std::exception&) {
  }

  void ask(chat_wish w) {
    {
      std::lock_guard guard{mutex_};
      wishes_.push_back(std::move(w));
    }
    changed_.notify_all();
  }

  void ask_all() {
    for (;;) {
      std::unique_lock lock{mutex_};
      granting_.reset();
      changed_.wait(lock, [this] { return leaving_ || !wishes_.empty(); });
      // What was typed before the person left is sent all the same.
      if (wishes_.empty()) {
        has_asked_all_ = true;
        lock.unlock();
        return tell([](chat_session&) {});
      }
      auto wish = std::move(wishes_.front());
      wishes_.pop_front();
      granting_ = wish.what;
      lock.unlock();
      try {
        if (gives_up_)
          throw failure(code::interrupted, "given up");
        grant(wish);
      } catch (const call_failed& f) {
        const bool may_have_arrived = f.exit_status == code::deadline || f.exit_status == code::interrupted || f.may_have_arrived;
        tell([wish, why = std::string{f.what()}, may_have_arrived](chat_session& s) { s.failed(wish, why, may_have_arrived); });
      } catch (const std::exception& e) {
        tell([wish, why = std::string{e.what()}](chat_session& s) { s.failed(wish, why); });
      }
    }
  }

  static bool is_look(chat_wish::kind k) { return k == chat_wish::kind::look || k == chat_wish::kind::look_open; }

  /// Nothing more is read, and nothing more looked at. Whether something that was typed is still to be sent.
  bool leave() {
    bool out = false;
    {
      std::lock_guard guard{mutex_};
      leaving_ = true;
      std::erase_if(wishes_, [](const auto& w) { return is_look(w.what); });
      out = !wishes_.empty() || (granting_ && !is_look(*granting_));
      const auto is_typed = [](chat_wish::kind k) { return k == chat_wish::kind::prompt || k == chat_wish::kind::decide; };
      sends_typed_ =
        (granting_ && is_typed(*granting_)) || std::any_of(wishes_.begin(), wishes_.end(), [&](const auto& w) { return is_typed(w.what); });
      gives_up_ = gives_up_ || !out;
    }
    changed_.notify_all();
    reading_->cancel();
    watching_->cancel();
    return out;
  }

  void give_up() {
    gives_up_ = true;
    cli_.node().coordination.cancel();
  }

  /// Waits until that has been sent or has failed, or the person gives it up.
  void send_the_rest() {
    const auto is_sending = leave();
    session_.left(is_sending, sends_typed_);
    if (!is_sending)
      cli_.node().coordination.cancel();
    std::array<pollfd, 3> fds{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{signal_pipe[0], POLLIN, 0}, pollfd{wake_, POLLIN, 0}};
    while (!has_asked_all_) {
      if (poll(fds.data(), fds.size(), -1) < 0)
        continue;
      char event = 0, key = 0;
      if (fds[1].revents != 0 && read(signal_pipe[0], &event, 1) == 1 && event == told_to_stop)
        give_up();
      if (fds[0].revents != 0 && read(STDIN_FILENO, &key, 1) != 1)
        fds[0].fd = -1; // the terminal is gone
      if (key == key_of_interrupt)
        give_up();
      if (fds[2].revents != 0)
        hear();
    }
    hear();
  }

  v1::Command command() const {
    auto out = cli_.command();
    out.set_scope(conversation_.scope());
    out.set_actor(actor_);
    return out;
  }

  void grant(const chat_wish& wish) {
    auto c = command();
    switch (wish.what) {
      case chat_wish::kind::prompt:
        c.mutable_send_prompt()->set_conversation_id(conversation_.id());
        c.mutable_send_prompt()->set_prompt(wish.text);
        break;
      case chat_wish::kind::interrupt: c.mutable_interrupt_conversation()->set_conversation_id(conversation_.id()); break;
      case chat_wish::kind::decide: *c.mutable_decide_approval() = wish.decision; break;
      case chat_wish::kind::look: return look(wish.approval_id);
      case chat_wish::kind::look_open: return look_at_open();
    }
    cli_.execute(c, wish.what == chat_wish::kind::prompt ? environment_ : environment_list{});
  }

  void look_at_open() {
    for (const auto& a : open_approvals(cli_, conversation_.scope(), actor_))
      if (a.conversation_id() == conversation_.id() || is_question_of_agent(a))
        a.body_left_out() ? look(a.id()) : tell([a](chat_session& s) { s.found(a); });
  }

  void look(const std::string& approval_id) {
    auto q = cli_.query();
    q.set_scope(conversation_.scope());
    q.set_viewer(actor_);
    q.mutable_list_approvals()->set_id(approval_id);
    const auto answer = cli_.ask(q);
    for (const auto& a : answer.approvals().approvals())
      if (a.conversation_id() == conversation_.id() || is_question_of_agent(a))
        tell([a](chat_session& s) { s.found(a); });
    if (answer.approvals().approvals().empty())
      tell([approval_id](chat_session& s) { s.not_found(approval_id); });
  }

  void hear() {
    std::uint64_t n = 0;
    [[maybe_unused]] auto got = read(wake_, &n, sizeof n);
    std::deque<news> all;
    {
      std::lock_guard guard{mutex_};
      all.swap(news_);
    }
    for (const auto& one : all)
      one(session_);
  }

  bool take_keys() {
    char buffer[4096];
    const auto n = read(STDIN_FILENO, buffer, sizeof buffer);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
      return true;
    return n > 0 && session_.type({buffer, static_cast<std::size_t>(n)});
  }

  void carry() {
    std::array<pollfd, 3> fds{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{signal_pipe[0], POLLIN, 0}, pollfd{wake_, POLLIN, 0}};
    while (!over_) {
      const auto due = session_.due_ms();
      const int patience = due ? static_cast<int>(std::max<std::int64_t>(*due - cli_.boot_ms(), 0)) : -1;
      const auto ready = poll(fds.data(), fds.size(), patience);
      if (ready < 0)
        continue; // interrupted by a signal: its event is in the pipe
      // A key that is there already was pressed before.
      if (ready == 0)
        session_.pass();
      char event = 0;
      if (fds[1].revents != 0 && read(signal_pipe[0], &event, 1) == 1) {
        if (event == told_to_stop)
          return;
        session_.resize(columns_here());
      }
      if (fds[2].revents != 0)
        hear();
      if (fds[0].revents != 0 && !take_keys())
        return;
    }
  }

  invocation& cli_;
  const v1::Conversation conversation_;
  const std::string actor_ = cli_.named_actor_id();
  /// A prompt may have to start the agent, which inherits what a worker does.
  const environment_list environment_ = settings_of_worker(cli_, cli_.named_actor(), {}, conversation_.harness(), {}).environment;
  int wake_;
  std::unique_ptr<node_line> reading_, watching_;
  std::string agent_; // guarded by mutex_; its session
  chat_session session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<news> news_;                   // guarded by mutex_
  std::deque<chat_wish> wishes_;            // guarded by mutex_
  std::optional<chat_wish::kind> granting_; // guarded by mutex_
  bool sends_typed_ = false;                // of leave()
  std::atomic<bool> leaving_ = false;
  std::atomic<bool> gives_up_ = false;
  std::atomic<bool> has_asked_all_ = false;
  std::atomic<bool> over_ = false;
  std::exception_ptr failed_; // of the reader, before over_
  std::thread reader_, watcher_, asker_;
};

} // namespace

bool can_attach(const invocation& cli) { return isatty(STDIN_FILENO) == 1 && cli.io().out_is_terminal() && cli.env().get("TERM") != "dumb"; }

int attach_conversation(invocation& cli, const v1::Conversation& c) {
  if (!can_attach(cli))
    throw failure(code::usage, "attaching needs a terminal; to read: swarmctl chat read " + short_id(c.id()) +
                                 " --follow; to say something: swarmctl chat send " + short_id(c.id()) + " TEXT");
  cli.io().line(concat({"conversation ", short_id(c.id()), " with ", c.harness(), ": ", c.title()}));
  cli.io().painted_line(cli.io().paint(colour::dim, "Enter sends, ^J is a new line, ^C interrupts the turn, ^D leaves and it goes on"));
  const auto is_all_sent = attachment{cli, c}.run();
  cli.io().line(concat({"left conversation ", short_id(c.id()), ", which goes on; come back: swarmctl chat ", short_id(c.id())}));
  return is_all_sent ? code::ok : code::refused;
}

} // namespace swarm::cli
