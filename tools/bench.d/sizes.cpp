#include <thread>

#include "tools/bench.d/suite.hpp"

namespace swarm::bench {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t few = 1'000;
constexpr std::size_t many = 100'000;
constexpr std::size_t page_rows = 1'000;
constexpr int waiting_clients = 100;

/// Callers that wait for something that does not happen: half for activity, half on a watch.
class waiting_crowd {
public:
  waiting_crowd(const node& n, const std::string& scope) : contexts_(waiting_clients) {
    node_client first{n.socket()};
    auto session = register_session(first, scope);
    for (int i = 0; i < waiting_clients; ++i)
      threads_.emplace_back([&n, scope, session, i, context = &contexts_[static_cast<std::size_t>(i)]] {
        node_client c{n.socket()};
        if (i % 2 == 0) {
          v1::WaitRequest r;
          r.set_scope(scope);
          r.set_session_id(session);
          r.set_timeout_ms(60'000);
          v1::Activity answer;
          c.stub().WaitForActivity(context, r, &answer);
        } else {
          v1::WatchRequest r;
          r.set_scope(scope);
          r.set_from_now(true);
          v1::WatchReply page;
          for (auto stream = c.stub().Watch(context, r); stream->Read(&page);) {
          }
        }
      });
    if (!eventually(30s, [&] { return first.status().calls_in_flight() > waiting_clients; }))
      throw std::runtime_error("the clients do not wait");
  }
  ~waiting_crowd() {
    for (auto& c : contexts_)
      c.TryCancel();
  }

private:
  std::vector<grpc::ClientContext> contexts_;
  std::vector<std::jthread> threads_;
};

/// Per second, over some seconds in which nothing happens, after what the crowd's arrival left to do is done.
double wakeups(const node& n) {
  constexpr auto settling = 2s, span = 10s;
  eventually(settling, [] { return false; });
  auto before = voluntary_switches(n.pid());
  auto start = steady::now();
  eventually(span, [] { return false; });
  return static_cast<double>(voluntary_switches(n.pid()) - before) / (ms_since(start) / 1000);
}

class size_suite final : public suite {
public:
  explicit size_suite(const settings& s) : node_(s.bin, s.dir / "sizes") {
    node_.start();
    node_client c{node_.socket()};
    make_tasks(c, "/bench/few", few);
    make_tasks(c, "/bench/many", many);
  }

  void round() override {
    {
      node_client c{node_.socket()};
      std::vector<double> list;
      for (int i = 0; i < 20; ++i) {
        std::string page;
        list.push_back(page_ms(c, "/bench/few", page));
      }
      samples_.add("list", median(list));
      walk(c);
    }
    {
      waiting_crowd crowd{node_, "/bench/idle"};
      samples_.add("wakeups", wakeups(node_));
    }
    node_.stop();
    samples_.add("restart", start_ms());
    node_.kill();
    samples_.add("restart after kill", start_ms());
  }

  std::vector<row> rows() const override {
    auto m = [&](const std::string& name) { return samples_.median_of(name); };
    return {{"list of 1 000 tasks, the RPC", m("list"), "ms", "", 0, {goal::value_at_most, 5}},
            {"100 000 tasks in pages of 1 000: the last page", m("last page"), "ms", "the first page", m("first page"), {goal::ratio_at_most, 1.5}},
            {"restart with 100 000 live tasks", m("restart") / 1000, "s", "", 0, {goal::value_at_most, 2}},
            {"restart after kill -9, 100 000 live tasks", m("restart after kill") / 1000, "s", "", 0, {goal::value_at_most, 2}},
            {"idle node with 100 waiting clients", m("wakeups"), "wake-ups/s", "", 0, {goal::value_below, 10}}};
  }

private:
  /// Reads one page and moves `page` on.
  double page_ms(node_client& c, const std::string& scope, std::string& page) {
    v1::Query q;
    q.set_scope(scope);
    q.mutable_list_tasks()->mutable_page()->set_size(page_rows);
    q.mutable_list_tasks()->mutable_page()->set_token(page);
    auto began = steady::now();
    auto answer = c.ask(q);
    auto taken = ms_since(began);
    if (answer.tasks().tasks_size() != page_rows)
      throw std::runtime_error("a page of " + std::to_string(answer.tasks().tasks_size()) + " tasks");
    page = answer.tasks().page().token();
    return taken;
  }

  /// All pages; first and last by the median of ten each, since one page is a few milliseconds.
  void walk(node_client& c) {
    constexpr std::size_t edge = 10;
    std::vector<double> taken;
    std::string page;
    do
      taken.push_back(page_ms(c, "/bench/many", page));
    while (!page.empty());
    if (taken.size() != many / page_rows)
      throw std::runtime_error("not all pages were listed");
    samples_.add("first page", median({taken.begin(), taken.begin() + edge}));
    samples_.add("last page", median({taken.end() - edge, taken.end()}));
  }

  /// From exec to the first answered call.
  double start_ms() {
    auto began = steady::now();
    node_.start(); // says itself when it is ready: a channel that finds nobody tries again only after a second
    node_client c{node_.socket()};
    v1::Query q;
    q.set_scope("/bench/many");
    q.mutable_list_tasks()->mutable_page()->set_size(1);
    c.ask(q);
    return ms_since(began);
  }

  node node_;
};

} // namespace

std::unique_ptr<suite> make_size_suite(const settings& s) { return std::make_unique<size_suite>(s); }

} // namespace swarm::bench
