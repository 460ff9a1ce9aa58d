#include "tests/fault/conversation_world.hpp"

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include <poll.h>

#include "gateway/json/conversation.hpp"
#include "tests/support/scripted_agent.hpp"

namespace swarm::testing {

namespace {

using namespace std::chrono_literals;

constexpr auto call_deadline = 60s;

/// The first process below `parent` whose command line has these two words in it.
pid_t child_with(pid_t parent, const std::string& program, const std::string& word) {
  if (parent == 0)
    return 0;
  std::error_code error;
  for (fs::directory_iterator at{"/proc", error}; !error && at != fs::directory_iterator{}; at.increment(error)) {
    const auto name = at->path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos)
      continue;
    std::istringstream fields{[&] {
      auto stat = file_text(at->path() / "stat");
      return stat.substr(std::min(stat.rfind(')') + 1, stat.size()));
    }()};
    char state = 0;
    pid_t of = 0;
    fields >> state >> of;
    if (!fields || of != parent || state == 'Z')
      continue;
    const auto words = file_text(at->path() / "cmdline");
    if (words.substr(0, words.find('\0')).ends_with(program) && words.find(word) != words.npos)
      return static_cast<pid_t>(std::stol(name));
  }
  return 0;
}

template <class Ask>
v1::Answer ask_for(node_client& client, const Ask& fill) {
  auto q = client.query();
  fill(q);
  return ask_patiently(client, q);
}

std::string shown(const v1::Prompt& p) { return v1::Prompt::State_Name(p.state()) + (p.reason().empty() ? "" : " (" + p.reason() + ")"); }

} // namespace

// -- what the agents have written ------------------------------------------------------------

struct fault_talk::journal {
  struct answer {
    std::string driver, choice;
  };
  std::map<std::string, std::vector<std::string>> prompts; // by id: the drivers that have given it
  std::map<std::string, std::vector<answer>> answers;      // by request
  std::map<std::string, int> said;                         // by name of the prompt: texts
  std::vector<std::string> order;                          // ids of prompts

  explicit journal(const std::string& path) {
    for (const auto& line : lines_of(file_text(path))) {
      std::istringstream words{line};
      std::string what, a, b, c;
      words >> what >> a >> b >> c;
      if (what == "prompt") {
        prompts[b].push_back(a);
        order.push_back(b);
      } else if (what == "answer") {
        answers[b].push_back({a, c});
      } else if (what == "said") {
        said[a] = std::stoi(b);
      }
    }
  }
};

struct fault_talk::turn {
  std::string end; // empty: none
  std::vector<std::string> texts;
};

// -- one conversation ------------------------------------------------------------------------

fault_talk::fault_talk(const test_node& node, fault_client& client, const std::string& name)
  : node_(node), client_(client), operator_(node), name_(name), journal_(node.work() + "/journal." + name) {
  auto c = client.command();
  c.clear_actor();
  auto& start = *c.mutable_start_conversation();
  start.set_harness("claude");
  start.add_argv(program("scripted_agent").string());
  start.add_argv(journal_);
  const auto r = client.execute(c, call_deadline);
  if (!r || r->has_refusal())
    throw std::runtime_error("no conversation: " + (r ? r->refusal().text() : std::string{"no answer"}));
  id_ = r->conversation().conversation().id();
}

void fault_talk::send(int texts, int asks, int pause_ms) {
  said_prompt p{{}, name_ + std::to_string(prompts_.size() + 1), {}, texts, asks};
  auto c = client_.command();
  c.clear_actor();
  c.mutable_send_prompt()->set_conversation_id(id_);
  std::ostringstream text;
  text << p.name << ' ' << texts << ' ' << asks << ' ' << pause_ms;
  c.mutable_send_prompt()->set_prompt(text.str());
  const auto r = client_.execute(c, call_deadline);
  if (!r || r->has_refusal())
    throw std::runtime_error("the prompt was not taken: " + (r ? r->refusal().text() : std::string{"no answer"}));
  p.id = r->conversation().prompt().id();
  prompts_.push_back(std::move(p));
}

v1::Conversation fault_talk::row() {
  const auto a = ask_for(operator_, [&](v1::Query& q) { q.mutable_list_conversations()->set_id(id_); });
  if (a.conversations().conversations_size() != 1)
    throw std::runtime_error("the conversation is lost");
  return a.conversations().conversations(0);
}

std::vector<v1::Prompt> fault_talk::prompt_rows() {
  std::vector<v1::Prompt> out;
  std::string page;
  do {
    const auto a = ask_for(operator_, [&](v1::Query& q) {
      q.mutable_list_prompts()->set_conversation_id(id_);
      q.mutable_list_prompts()->mutable_page()->set_token(page);
    });
    out.insert(out.end(), a.prompts().prompts().begin(), a.prompts().prompts().end());
    page = a.prompts().page().token();
  } while (!page.empty());
  return out;
}

std::string fault_talk::come_to_rest() {
  v1::Conversation c;
  std::string waits;
  const auto rests = eventually(
    [&] {
      c = row();
      const auto stands = c.state() == v1::Conversation::SUSPENDED && c.queued() > 0 && !c.reason().empty() && c.open_turn().empty();
      if (stands && c.reason().find("times") != std::string::npos) {
        auto go_on = client_.command();
        go_on.clear_actor();
        go_on.mutable_resume_conversation()->set_conversation_id(id_);
        client_.execute(go_on, call_deadline);
        return false;
      }
      if (!c.open_turn().empty() || c.queued() > 0 || (c.state() != v1::Conversation::IDLE && c.state() != v1::Conversation::SUSPENDED))
        return false;
      waits.clear();
      for (const auto& p : prompt_rows())
        if (p.state() < v1::Prompt::CONSUMED)
          waits += " " + p.id() + ": " + shown(p);
      return waits.empty();
    },
    60s);
  return rests ? std::string{} : name_ + " does not come to rest:" + waits + " " + c.ShortDebugString();
}

void fault_talk::was_harmed(const std::string& what, bool loses_words) {
  for (auto p = prompts_.rbegin(); p != prompts_.rend() && p->harm.empty(); ++p) {
    p->harm = what;
    if (loses_words)
      lossy_.insert(p->name);
  }
}

pid_t fault_talk::driver(pid_t keeper) const { return child_with(keeper, "swarm-driver", journal_); }

pid_t fault_talk::agent(pid_t keeper) const { return child_with(driver(keeper), "scripted_agent", journal_); }

// -- afterwards --------------------------------------------------------------------------------

std::vector<v1::ConversationItem> fault_talk::items() {
  auto stub = v1::Conversations::NewStub(grpc::CreateChannel("unix:" + node_.dir().socket().string(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  operator_.prepare(context);
  v1::ReadConversationRequest q;
  q.set_scope(node_.work());
  q.set_conversation_id(id_);
  auto stream = stub->Read(&context, q);
  std::vector<v1::ConversationItem> out;
  mcp::whole_items parts;
  std::optional<v1::ConversationItem> open;
  const auto is_of = [](const v1::ConversationItem& a, const v1::ConversationItem& b) {
    return a.id() == b.id() && a.kind() == b.kind() && a.generation() == b.generation();
  };
  v1::ConversationChunk c;
  while (stream->Read(&c)) {
    if (c.has_resumed() && !c.resumed().gap().empty())
      throw std::runtime_error("the log has a gap: " + c.ShortDebugString());
    if (!c.has_item())
      continue;
    if (open && !is_of(*open, c.item()))
      found("item " + open->id() + " of generation " + std::to_string(open->generation()) + " has no end");
    open = c.item().last() ? std::nullopt : std::optional{c.item()};
    if (auto whole = parts.take(c.item()))
      out.push_back(*std::move(whole));
  }
  if (open)
    found("item " + open->id() + " of generation " + std::to_string(open->generation()) + " has no end");
  const auto status = stream->Finish();
  if (!status.ok())
    throw std::runtime_error("the log cannot be read: " + status.error_message());
  return out;
}

/// Turns of the log by their prompts; what is wrong about their order is found on the way.
std::map<std::string, fault_talk::turn> fault_talk::turns_of(const std::vector<v1::ConversationItem>& all) {
  std::map<std::string, turn> turns;
  std::set<std::string> keys;
  turn* open = nullptr;
  turn of_nobody;
  std::string open_name;
  for (const auto& item : all) {
    const auto name = item.id() + " of generation " + std::to_string(item.generation());
    const auto is_once = item.kind() != v1::CONVERSATION_NOTICE;
    if (is_once && !keys.insert(std::to_string(item.kind()) + " " + name + " " + item.state()).second)
      found("item " + name + " stands twice: " + v1::ConversationItemKind_Name(item.kind()) + " " + item.state());
    if (item.kind() == v1::CONVERSATION_TURN && item.state() == "started") {
      if (open)
        found("turn " + name + " begins before turn " + open_name + " has ended");
      open = &of_nobody;
      of_nobody = {};
      for (const auto& p : item.prompts()) {
        const auto [at, is_new] = turns.try_emplace(p);
        if (!is_new)
          found("turn " + name + " is about a prompt that another one was about");
        open = &at->second;
      }
      open_name = name;
    } else if (item.kind() == v1::CONVERSATION_TURN) {
      if (!open || name != open_name)
        found("turn " + name + " ends without a begin");
      if (open)
        open->end = item.state();
      open = nullptr;
    } else if (item.kind() == v1::CONVERSATION_TEXT && item.last() && !item.aborted()) {
      if (!open)
        found("text " + name + " stands in no turn");
      else
        open->texts.push_back(item.body());
    }
  }
  if (open)
    found("turn " + open_name + " has no end");
  return turns;
}

void fault_talk::found(const std::string& what) {
  constexpr std::size_t shown_most = 8;
  if (++wrongs_ <= shown_most)
    wrong_ += (wrong_.empty() ? "" : "\n") + name_ + ": " + what;
}

std::string fault_talk::check() {
  const journal said{journal_};
  const auto all = items();
  const auto turns = turns_of(all);
  const auto rows = prompt_rows();
  for (const auto& item : all)
    for (const auto& id : item.prompts()) {
      user_items_[id] += item.kind() == v1::CONVERSATION_USER && !item.aborted();
      lost_notices_[id] += item.kind() == v1::CONVERSATION_NOTICE && item.title() == "outcome-unknown";
    }
  for (const auto& p : prompts_) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.id() == p.id; });
    if (auto wrong = check_prompt(p, row == rows.end() ? nullptr : &*row, said, turns); !wrong.empty())
      found("prompt " + p.name + ", before the end of the " + (p.harm.empty() ? "test" : p.harm) + ": " + wrong);
  }
  auto next = said.order.begin();
  for (const auto& p : prompts_)
    if (next != said.order.end() && *next == p.id)
      ++next;
  if (next != said.order.end())
    found("its agent has read prompts in another order, or others: " + *next);
  if (auto wrong = check_decisions(said, all); !wrong.empty())
    found(wrong);
  if (wrongs_ > 0)
    wrong_ += "\n" + std::to_string(wrongs_) + " in all";
  return wrong_;
}

std::string fault_talk::check_prompt(const said_prompt& p, const v1::Prompt* row, const journal& j, const std::map<std::string, turn>& turns) {
  if (!row)
    return "there is no row";
  const auto given = j.prompts.find(p.id);
  const auto times = given == j.prompts.end() ? 0 : given->second.size();
  if (times > 1)
    return "agents have read it " + std::to_string(times) + " times";
  const auto at = turns.find(p.id);
  switch (row->state()) {
    case v1::Prompt::CONSUMED:
      ++consumed;
      if (times != 1)
        return "no agent has read what counts as consumed";
      if (at == turns.end())
        return "no turn is about it";
      if (const auto n = user_items_[p.id]; n != 1)
        return "the log has what was said " + std::to_string(n) + " times";
      return check_texts(p, at->second, j);
    case v1::Prompt::UNDELIVERABLE:
      ++undeliverable;
      return times != 0 ? "an agent has read what counts as undeliverable" : row->reason().empty() ? "nothing says why it is undeliverable" : "";
    case v1::Prompt::UNKNOWN:
      ++unknown;
      if (const auto n = lost_notices_[p.id]; n != 1)
        return "the log says " + std::to_string(n) + " times that its outcome is unknown";
      return row->reason().empty() ? "nothing says why its outcome is unknown" : "";
    default: return "it stays " + shown(*row);
  }
}

std::string fault_talk::check_texts(const said_prompt& p, const turn& t, const journal& j) const {
  for (std::size_t i = 0; i < t.texts.size(); ++i)
    if (t.texts[i] != said_by(p.name, static_cast<int>(i) + 1))
      return "text " + std::to_string(i + 1) + " of its turn is " + t.texts[i].substr(0, 60) + " of " + std::to_string(t.texts[i].size()) + " bytes";
  const auto known = j.said.find(p.name);
  const auto said = known == j.said.end() ? 0 : static_cast<std::size_t>(known->second);
  const auto expected = t.end == "ended" ? static_cast<std::size_t>(p.texts) : said;
  const auto may_lack = t.end != "ended" && lossy_.contains(p.name);
  // Between the socket and the journal the agent may have been killed.
  if (t.texts.size() > std::max<std::size_t>(expected, said + 1) || (t.texts.size() < expected && !may_lack))
    return "its turn has " + t.end + " with " + std::to_string(t.texts.size()) + " texts, its agent has said " + std::to_string(said);
  return {};
}

std::string fault_talk::check_decisions(const journal& j, const std::vector<v1::ConversationItem>& all) {
  std::map<std::string, std::vector<std::string>> lines; // by approval
  for (const auto& item : all)
    if (!item.approval_id().empty())
      lines[item.approval_id()].push_back(item.state());
  const auto a = ask_for(operator_, [&](v1::Query& q) { q.mutable_list_approvals(); });
  std::map<std::string, std::size_t> answers;
  for (const auto& [request, given] : j.answers)
    answers[request] = given.size();
  for (const auto& row : a.approvals().approvals()) {
    if (row.conversation_id() != id_)
      continue;
    const auto what = "request " + row.native_id() + " (" + row.id() + "): ";
    if (row.decided_at_ms() == 0)
      return what + "it is open";
    if (row.delivery() == v1::Approval::PENDING)
      return what + "its decision stays pending";
    const auto& seen = lines[row.id()];
    if (seen.size() != 2 || seen.front() != "asked")
      return what + "it has " + std::to_string(seen.size()) + " lines in the log, the last is " + (seen.empty() ? "none" : seen.back());
    if (row.delivery() == v1::Approval::DELIVERED && seen.back() != row.decision())
      return what + "it was decided " + row.decision() + ", the log says " + seen.back();
    const auto given = j.answers.find(row.native_id());
    const auto times = given == j.answers.end() ? 0 : given->second.size();
    answers.erase(row.native_id());
    if (times > 1)
      return what + "its agent was answered " + std::to_string(times) + " times";
    if (times == 1 && given->second.front().choice != row.decision())
      return what + "it was decided " + row.decision() + ", its agent has heard " + given->second.front().choice;
    if (times == 1 && row.delivery() != v1::Approval::DELIVERED && row.delivery() != v1::Approval::OUTCOME_UNKNOWN)
      return what + "its agent has heard what counts as " + v1::Approval::Delivery_Name(row.delivery());
    decisions += times;
  }
  return answers.empty() ? std::string{} : "its agent was answered what no row knows: " + answers.begin()->first;
}

// -- people -------------------------------------------------------------------------------------

deciders::deciders(const test_node& node, history::recorder& history, unsigned seed) {
  for (unsigned i = 0; i < 2; ++i) {
    clients_.push_back(std::make_unique<fault_client>(node, history, "person" + std::to_string(i)));
    threads_.emplace_back([this, &node, i, seed, me = clients_.back().get()] {
      std::mt19937 rng(seed + i);
      node_client eyes{node};
      std::set<std::string> seen;
      me->speak_through(&node);
      while (!stop_) {
        try {
          const auto a = ask_for(eyes, [](v1::Query& q) { q.mutable_list_approvals()->set_open_only(true); });
          for (const auto& open : a.approvals().approvals()) {
            if (seen.insert(open.id()).second)
              me->may_be_withdrawn(open.id());
            me->decide(open.id(), rng() % 3 == 0 ? "deny" : "allow", open.action_digest(), 10s);
          }
        } catch (const std::runtime_error&) {
          continue; // the node is away for long: the next one answers
        }
        poll(nullptr, 0, 5);
      }
    });
  }
}

deciders::~deciders() {
  stop_ = true;
  for (auto& t : threads_)
    t.join();
}

} // namespace swarm::testing
