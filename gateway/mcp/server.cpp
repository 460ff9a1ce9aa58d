#include "gateway/mcp/server.hpp"

#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/domain/rights.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/resources.hpp"
#include "gateway/mcp/schema.hpp"

namespace swarm::mcp {

namespace {

constexpr const char* server_name = "swarm";
constexpr const char* newest_legacy = "2025-11-25";
constexpr const char* legacy_versions[] = {"2024-11-05", "2025-03-26", "2025-06-18", newest_legacy};
constexpr const char* modern_version = "2026-07-28";
constexpr const char* not_registered = "Not registered. Call register first.";

constexpr const char* meta_version = "io.modelcontextprotocol/protocolVersion";
constexpr const char* meta_capabilities = "io.modelcontextprotocol/clientCapabilities";
constexpr const char* meta_server = "io.modelcontextprotocol/serverInfo";
constexpr const char* meta_subscription = "io.modelcontextprotocol/subscriptionId";

/// The row of the bound session has gone while a call was under way.
struct session_gone {};

/// Tells the loss of the session from everything else a call may bring.
class attentive final : public connection {
  template <class Call>
  static auto checked(Call call) {
    try {
      auto out = call();
      if constexpr (requires { out.refusal(); })
        if (out.refusal().code() == v1::Refusal::NOT_REGISTERED)
          throw session_gone{};
      return out;
    } catch (const call_failed& f) {
      if (f.unknown_token)
        throw session_gone{};
      throw;
    }
  }

public:
  explicit attentive(connection& node) : node_(node) {}
  v1::Reply execute(const v1::Command& c, const environment_list& e, std::int64_t extra_ms) override {
    return checked([&] { return node_.execute(c, e, extra_ms); });
  }
  v1::Answer ask(const v1::Query& q) override {
    return checked([&] { return node_.ask(q); });
  }
  v1::Activity wait_for_activity(const v1::WaitRequest& r) override {
    return checked([&] { return node_.wait_for_activity(r); });
  }
  void watch(v1::WatchRequest r, std::int64_t timeout_ms, const std::function<bool(const v1::WatchReply&)>& on) override {
    checked([&] {
      node_.watch(std::move(r), timeout_ms, on);
      return true;
    });
  }
  v1::PtyList list_ptys(const v1::ListPtysRequest& r) override {
    return checked([&] { return node_.list_ptys(r); });
  }
  void read_pty(v1::ReadPtyRequest r, std::int64_t timeout_ms, const std::function<bool(const v1::PtyChunk&)>& on) override {
    checked([&] {
      node_.read_pty(std::move(r), timeout_ms, on);
      return true;
    });
  }
  void read_conversation(v1::ReadConversationRequest r, std::int64_t timeout_ms,
                         const std::function<bool(const v1::ConversationChunk&)>& on) override {
    checked([&] {
      node_.read_conversation(std::move(r), timeout_ms, on);
      return true;
    });
  }
  v1::SendPtyReply send_to_pty(const v1::SendPtyRequest& r) override {
    return checked([&] { return node_.send_to_pty(r); });
  }
  void cancel() override { node_.cancel(); }

private:
  connection& node_;
};

json capabilities() {
  const json changes = {{"listChanged", true}};
  return {{"tools", changes}, {"resources", changes}, {"prompts", changes}};
}

json server_info() { return {{"name", server_name}, {"version", SWARM_VERSION}}; }

json content_of(const tool_result& r) {
  auto blocks = json::array();
  for (const auto& text : r.texts)
    blocks.push_back({{"type", "text"}, {"text", text}});
  json out = {{"content", std::move(blocks)}};
  if (r.is_error)
    out["isError"] = true;
  return out;
}

/// Gemini CLI takes a first text that is JSON for structured content, and fails the call when that is no object: a list of messages would be
/// read, and lost. What comes as structured content already it leaves alone.
bool needs_objects(const std::string& client) { return client.starts_with("gemini-cli"); }

void add_object(json& result) {
  auto content = result.find("content");
  if (content == result.end() || content->empty())
    return;
  auto value = json::parse(content->front().value("text", ""), nullptr, false);
  if (!value.is_discarded() && !value.is_object())
    result["structuredContent"] = {{"result", std::move(value)}};
}

/// Whether the request is of the stateless protocol; throws when it is one of it that cannot be taken.
bool is_modern(const rpc::message& m) {
  auto meta = m.params.find("_meta");
  if (meta == m.params.end() || !meta->is_object() || !meta->contains(meta_version)) {
    if (m.method == "server/discover" || m.method == "subscriptions/listen")
      throw rpc::error{rpc::invalid_params, std::string{"_meta must name "} + meta_version};
    return false;
  }
  const auto& version = (*meta)[meta_version];
  if (!version.is_string() || version.get_ref<const std::string&>() != modern_version)
    throw rpc::error{
      rpc::unsupported_version, "Unsupported protocol version", {{"supported", json::array({modern_version})}, {"requested", version}}};
  if (!meta->contains(meta_capabilities) || !(*meta)[meta_capabilities].is_object())
    throw rpc::error{rpc::invalid_params, std::string{"_meta must name "} + meta_capabilities};
  return true;
}

std::string text_param(const json& params, const char* name) {
  auto i = params.find(name);
  if (i == params.end() || !i->is_string())
    throw rpc::error{rpc::invalid_params, std::string{"params need a text \""} + name + "\""};
  return i->get<std::string>();
}

std::string key_of(const json& id) { return id.dump(-1, ' ', false, json::error_handler_t::replace); }

bool in_order(const std::string& method) { return method == "tools/call" || method == "resources/read"; }

json progress_token(const json& params) {
  auto meta = params.find("_meta");
  if (meta == params.end() || !meta->is_object() || !meta->contains("progressToken"))
    return nullptr;
  const auto& token = (*meta)["progressToken"];
  return token.is_string() || token.is_number_integer() ? token : json(nullptr);
}

/// Clients commonly give a call up that they have not heard about for a minute.
std::int64_t progress_period_ms() { return limits::server_wait_max().count() / 4; }

/// It has to grow with each word, be it within the same millisecond.
constexpr double progress_step = 0.001;

/// The tools of "pty" are for those as well who may use only some terminals ("pty:agents"): the node says which.
bool has_right(const tool& t, const binding_ptr& bound, std::int64_t now_ms) {
  if (t.right.empty())
    return true;
  if (!bound)
    return false;
  const auto held = domain::grants_at(bound->session.grants(), bound->session.grant_ends(), now_ms);
  return std::any_of(held.begin(), held.end(), [&](const auto& g) { return g == t.right || g.rfind(t.right + ":", 0) == 0; });
}

} // namespace

server::server(const host& h, tool_table& t, sink out, std::function<void()> room)
  : host_(h), tools_(t), out_(std::move(out)), room_(std::move(room)), me_(h) {
  me_.on_change([this](const binding_ptr& b) { watch(b); });
  tools_.on_change([this] { tools_changed(); });
  worker_ = std::thread{[this] { work(); }};
}

server::~server() {
  stop();
  tools_.on_change(nullptr);
}

// -- what the client sends -------------------------------------------------------------------

void server::receive(std::string_view line) {
  auto parsed = rpc::parse(line);
  if (parsed.answer)
    send(*parsed.answer);
  if (parsed.received)
    handle(std::move(*parsed.received), line.size());
}

void server::refuse_line(const std::string& why) { send(rpc::error_of(nullptr, rpc::error{rpc::invalid_request, why})); }

bool server::has_too_many() const { return queue_.size() >= limits::mcp_requests_queued_max || queued_bytes_ >= limits::mcp_queued_bytes_max; }

bool server::is_full() {
  std::lock_guard lock{mutex_};
  return !stopped_ && has_too_many();
}

void server::handle(rpc::message m, std::size_t bytes) {
  if (m.method == "notifications/cancelled")
    return cancel(m.params);
  if (m.is_notification())
    return;
  try {
    auto modern = is_modern(m);
    std::unique_lock lock{mutex_};
    if (is_in_use(m.id))
      throw rpc::error{rpc::invalid_request, "There is a request of that id already"};
    if (!in_order(m.method)) {
      lock.unlock();
      return answer_now(m, modern);
    }
    under_way r;
    r.progress_token = progress_token(m.params);
    r.began_ms = r.told_ms = host_.boot_ms();
    requests_.emplace(key_of(m.id), std::move(r));
    queue_.push_back({std::move(m), modern, bytes});
    queued_bytes_ += bytes;
    filled_.notify_one();
  } catch (const rpc::error& e) {
    send(rpc::error_of(m.id, e));
  }
}

/// Of a call, or of a subscription that is open.
bool server::is_in_use(const json& id) const {
  return requests_.contains(key_of(id)) || std::any_of(listeners_.begin(), listeners_.end(), [&](const listener& l) { return l.id == id; });
}

void server::answer_now(const rpc::message& m, bool modern) {
  const auto& method = m.method;
  if (modern && method == "server/discover")
    return send(rpc::result_of(m.id, decorated(discover(), true, true)));
  if (modern && method == "subscriptions/listen")
    return listen(m);
  if (!modern && method == "initialize")
    return send(rpc::result_of(m.id, initialize(m.params)));
  if (!modern && method == "ping")
    return send(rpc::result_of(m.id, json::object()));
  if (method == "tools/list")
    return send(rpc::result_of(m.id, decorated({{"tools", tools(modern)}}, modern, true)));
  if (method == "resources/list")
    return send(rpc::result_of(m.id, decorated({{"resources", resource_list()}}, modern, true)));
  if (method == "resources/templates/list")
    return send(rpc::result_of(m.id, decorated({{"resourceTemplates", resource_templates()}}, modern, true)));
  if (method == "prompts/list")
    return send(rpc::result_of(m.id, decorated({{"prompts", prompt_list()}}, modern, true)));
  if (method == "prompts/get") {
    auto name = text_param(m.params, "name");
    auto prompt = get_prompt(name);
    if (!prompt)
      throw rpc::error{rpc::invalid_params, "MCP error -32602: Prompt " + name + " not found"};
    return send(rpc::result_of(m.id, decorated(std::move(*prompt), modern, false)));
  }
  throw rpc::error{rpc::method_not_found, "Method not found"};
}

json server::initialize(const json& params) {
  auto wanted =
    params.contains("protocolVersion") && params["protocolVersion"].is_string() ? params["protocolVersion"].get<std::string>() : std::string{};
  auto known = std::find(std::begin(legacy_versions), std::end(legacy_versions), wanted) != std::end(legacy_versions);
  {
    std::lock_guard lock{mutex_};
    legacy_ = true;
    if (auto client = params.find("clientInfo"); client != params.end() && client->is_object() && client->contains("name"))
      objects_ = (*client)["name"].is_string() && needs_objects((*client)["name"].get<std::string>());
  }
  return {{"protocolVersion", known ? wanted : newest_legacy}, {"capabilities", capabilities()}, {"serverInfo", server_info()}};
}

json server::discover() const {
  return {{"supportedVersions", json::array({modern_version})}, {"capabilities", capabilities()}, {"serverInfo", server_info()}};
}

json server::tools(bool modern) const {
  auto bound = me_.bound();
  auto out = json::array();
  for (const auto& t : tools_.list()) {
    if (!has_right(*t, bound, host_.now_ms()))
      continue;
    json row = {{"name", t->name}, {"description", t->description}, {"inputSchema", t->input_schema}};
    if (!t->annotations.is_null())
      row["annotations"] = t->annotations;
    if (!modern)
      row["execution"] = {{"taskSupport", "forbidden"}};
    out.push_back(std::move(row));
  }
  return out;
}

json server::decorated(json result, bool modern, bool cached) const {
  if (!modern)
    return result;
  result["resultType"] = "complete";
  if (cached) {
    // The lists change with the session's rights, which is told to those who listen.
    result["ttlMs"] = 0;
    result["cacheScope"] = "private";
  }
  result["_meta"] = {{meta_server, server_info()}};
  return result;
}

void server::listen(const rpc::message& m) {
  auto wanted = m.params.contains("notifications") && m.params["notifications"].is_object() ? m.params["notifications"] : json::object();
  {
    std::lock_guard lock{mutex_};
    if (listeners_.size() >= limits::mcp_listeners_max)
      throw rpc::error{rpc::invalid_request, "At most " + std::to_string(limits::mcp_listeners_max) + " subscriptions are open at once"};
    listeners_.push_back({m.id, wanted});
  }
  send(rpc::notification("notifications/subscriptions/acknowledged", {{"_meta", {{meta_subscription, m.id}}}, {"notifications", wanted}}));
}

void server::cancel(const json& params) {
  auto id = params.find("requestId");
  if (id == params.end())
    return;
  std::lock_guard lock{mutex_};
  std::erase_if(listeners_, [&](const listener& l) { return l.id == *id; });
  // One that is answered already is gone from requests_.
  auto i = requests_.find(key_of(*id));
  if (i == requests_.end())
    return;
  // Once: what a wait does to leave its line is not to be given up.
  if (std::exchange(i->second.cancelled, true))
    return;
  if (i->second.waits_on)
    i->second.waits_on->cancel();
  else if (i->second.in_order)
    me_.cancel();
}

// -- working -----------------------------------------------------------------------------------

void server::work() {
  try {
    // A worker is registered before it says a word.
    me_.ensure();
  } catch (const std::exception& e) {
    std::lock_guard lock{mutex_};
    if (!stopped_)
      host_.note(e.what());
  }
  for (;;) {
    job next;
    {
      std::unique_lock lock{mutex_};
      idle_ = queue_.empty();
      if (idle_)
        became_idle_.notify_all();
      filled_.wait(lock, [&] { return stopped_ || !queue_.empty(); });
      if (stopped_)
        return;
      const auto was_full = has_too_many();
      next = std::move(queue_.front());
      queue_.pop_front();
      queued_bytes_ -= next.bytes;
      idle_ = false;
      if (was_full && !has_too_many() && room_)
        room_();
      auto i = requests_.find(key_of(next.request.id));
      if (i->second.cancelled) {
        requests_.erase(i);
        continue;
      }
      i->second.in_order = true;
    }
    work_off(next);
  }
}

void server::work_off(const job& j) {
  bool later = false;
  auto answer = [&] {
    if (j.request.method == "resources/read")
      return rpc::result_of(j.request.id, decorated(read(j), j.modern, true));
    auto result = call_tool(j, later);
    return later ? json(nullptr) : rpc::result_of(j.request.id, decorated(std::move(result), j.modern, false));
  };
  finish(j, answer);
}

void server::finish(const job& j, const std::function<json()>& answer) {
  json out;
  try {
    out = answer();
  } catch (const rpc::error& e) {
    out = rpc::error_of(j.request.id, e);
  } catch (const std::exception& e) {
    // A failure of the call, as a tool tells it.
    out = j.request.method == "tools/call" ? rpc::result_of(j.request.id, decorated(content_of({{e.what()}, true}), j.modern, false))
                                           : rpc::error_of(j.request.id, rpc::error{rpc::internal_error, e.what()});
  }
  if (out.is_null())
    return; // goes on beside
  bool wanted = true, renew = false, objects = false;
  {
    std::lock_guard lock{mutex_};
    objects = objects_;
    auto i = requests_.find(key_of(j.request.id));
    wanted = !stopped_ && i != requests_.end() && !i->second.cancelled;
    if (i != requests_.end()) {
      renew = i->second.cancelled && i->second.in_order;
      requests_.erase(i);
    }
  }
  // The cancellation may have come too late for this request, and must not hit the next.
  if (renew)
    me_.renew();
  if (wanted && objects && j.request.method == "tools/call" && out.contains("result"))
    add_object(out["result"]);
  if (wanted)
    send(out);
}

json server::read(const job& j) {
  auto uri = text_param(j.request.params, "uri");
  std::optional<std::string> text;
  try {
    attentive node{me_.connection()};
    text = read_resource(uri, host_, node, me_.bound());
  } catch (const session_gone&) {
    me_.forget();
    text = read_resource(uri, host_, me_.connection(), nullptr);
  }
  if (!text)
    throw rpc::error{rpc::invalid_params, "MCP error -32602: Resource " + uri + " not found"};
  return {{"contents", json::array({{{"uri", uri}, {"mimeType", "application/json"}, {"text", std::move(*text)}}})}};
}

json server::call_tool(const job& j, bool& later) {
  auto name = text_param(j.request.params, "name");
  auto t = tools_.find(name);
  if (!t || !has_right(*t, me_.bound(), host_.now_ms()))
    return content_of({{"MCP error -32602: Tool " + name + " not found"}, true});
  const auto& params = j.request.params;
  auto given = params.contains("arguments") ? params["arguments"] : json(json::value_t::discarded);
  if (auto issues = issues_with(t->input_schema, given); !issues.empty())
    return content_of({{validation_error(name, issues)}, true});
  auto arguments = accepted(t->input_schema, given);
  // Once more when the session had gone and the process has found another: a worker whose row was removed is there again.
  for (int attempt = 0;; ++attempt) {
    try {
      return call_tool_once(j, *t, arguments, later);
    } catch (const session_gone&) {
      me_.forget();
      if (attempt > 0)
        return content_of(said(not_registered));
    }
  }
}

json server::call_tool_once(const job& j, const tool& t, const json& arguments, bool& later) {
  if (t.bind) {
    // Given up halfway, nobody would know which session there is.
    {
      std::lock_guard lock{mutex_};
      requests_[key_of(j.request.id)].in_order = false;
    }
    return content_of(t.bind(me_, arguments));
  }
  if (t.before)
    t.before(me_, arguments);
  if (!me_.ensure())
    return content_of(said(not_registered));
  auto bound = me_.bound();
  attentive node{me_.connection()};
  auto report = [this, key = key_of(j.request.id)](const std::string& how_far) { tell_progress_of(key, how_far); };
  auto outcome = t.run({host_, node, bound->session, arguments, report});
  if (auto* result = std::get_if<tool_result>(&outcome))
    return content_of(*result);
  auto& waiting = std::get<tool_waiting>(outcome);
  try {
    begin_wait(j, std::move(waiting.rest), bound, arguments);
  } catch (const std::exception& e) {
    if (!waiting.otherwise)
      throw;
    return content_of(waiting.otherwise(e.what()));
  }
  later = true;
  return nullptr;
}

void server::begin_wait(const job& j, std::function<tool_result(const tool_call&)> rest, const binding_ptr& bound, json arguments) {
  std::shared_ptr<connection> own = host_.connect(bound->token);
  bool cancelled = false;
  {
    std::lock_guard lock{mutex_};
    if (stopped_)
      return;
    if (waits_ >= limits::mcp_waits_max)
      throw std::runtime_error("This session waits " + std::to_string(waits_) + " times already; let some of these calls end first");
    ++waits_;
    auto& r = requests_[key_of(j.request.id)];
    r.in_order = false;
    r.waits_on = own.get();
    cancelled = r.cancelled;
  }
  if (cancelled) {
    own->cancel();
    me_.renew();
  }
  auto run = [this, j, rest = std::move(rest), own, bound, arguments = std::move(arguments)]() mutable {
    finish(j, [&] {
      attentive node{*own};
      try {
        auto report = [this, &j](const std::string& how_far) { tell_progress_of(key_of(j.request.id), how_far); };
        return rpc::result_of(j.request.id, decorated(content_of(rest({host_, node, bound->session, arguments, report})), j.modern, false));
      } catch (const session_gone&) {
        return rpc::result_of(j.request.id, decorated(content_of(said(not_registered)), j.modern, false));
      }
    });
    own.reset();
    std::lock_guard lock{mutex_};
    --waits_;
    waits_over_.notify_all();
  };
  try {
    std::thread{std::move(run)}.detach();
  } catch (const std::system_error&) {
    std::lock_guard lock{mutex_};
    --waits_;
    requests_[key_of(j.request.id)].waits_on = nullptr;
    throw;
  }
}

// -- progress ------------------------------------------------------------------------------------

std::optional<std::chrono::milliseconds> server::tell_progress() {
  std::vector<std::string> due;
  std::optional<std::int64_t> next_ms;
  {
    std::lock_guard lock{mutex_};
    const auto now = host_.boot_ms();
    for (auto& [key, r] : requests_) {
      if (r.progress_token.is_null() || r.cancelled)
        continue;
      auto left = r.told_ms + progress_period_ms() - now;
      if (left <= 0) {
        due.push_back(key);
        left = progress_period_ms();
      }
      next_ms = std::min(next_ms.value_or(left), left);
    }
  }
  for (const auto& key : due)
    tell_progress_of(key);
  return next_ms ? std::optional{std::chrono::milliseconds{*next_ms}} : std::nullopt;
}

void server::tell_progress_of(const std::string& key, const std::string& how_far) {
  // Held from the look on: the answer may be made meanwhile, and is written after this.
  std::lock_guard out{out_mutex_};
  std::string line;
  {
    std::lock_guard lock{mutex_};
    auto i = requests_.find(key);
    if (stopped_ || i == requests_.end() || i->second.cancelled || i->second.progress_token.is_null())
      return;
    auto& r = i->second;
    if (!how_far.empty())
      r.how_far = how_far;
    r.told_ms = host_.boot_ms();
    r.progress = std::max(static_cast<double>(r.told_ms - r.began_ms) / 1000, r.progress + progress_step);
    line = rpc::to_line(
      rpc::notification("notifications/progress", {{"progressToken", r.progress_token}, {"progress", r.progress}, {"message", r.how_far}}));
  }
  out_(line);
}

// -- news ----------------------------------------------------------------------------------------

void server::watch(const binding_ptr& bound) {
  if (watcher_.joinable()) {
    watching_->cancel();
    watcher_.join();
  }
  auto all = tools_.list();
  if (std::any_of(all.begin(), all.end(),
                  [&, now = host_.now_ms()](const auto& t) { return has_right(*t, bound, now) != has_right(*t, listed_for_, now); }))
    tools_changed();
  listed_for_ = bound;
  {
    std::lock_guard lock{mutex_};
    if (stopped_ || !bound)
      return;
  }
  watching_ = host_.connect(bound->token, host::start::never);
  watcher_ = std::thread{[this, bound] {
    v1::WatchRequest request;
    request.set_scope(bound->session.scope());
    request.set_after(bound->since);
    request.set_from_now(bound->since == 0);
    for (const auto* type : {"message.", "task.", "instance.", "context.lock_"})
      request.add_types(type);
    auto concerns_me = [&](const v1::Event& e) {
      return e.type().starts_with("message.") && (e.subject().empty() || e.subject() == bound->session.id());
    };
    auto on = [&](const v1::WatchReply& reply) {
      bool inbox = false, tasks = false, instances = false, locks = false;
      for (const auto& e : reply.events()) {
        inbox = inbox || concerns_me(e);
        tasks = tasks || e.type().starts_with("task.");
        instances = instances || e.type().starts_with("instance.");
        locks = locks || e.type().starts_with("context.lock_");
      }
      if (inbox)
        changed(inbox_uri);
      if (tasks)
        changed(tasks_uri);
      if (instances)
        changed(instances_uri);
      if (inbox || tasks || instances || locks)
        changed(context_uri);
      return true;
    };
    try {
      watching_->watch(request, 0, on);
    } catch (const std::exception& e) {
      // A session that has ended hears nothing; the next call finds out.
      auto* f = dynamic_cast<const call_failed*>(&e);
      if (f == nullptr || (f->exit_status != code::interrupted && !f->unknown_token))
        host_.note(std::string{"no news of changes any more: "} + e.what());
    }
  }};
}

void server::notify(const char* method, const json& params, const std::function<bool(const json& wanted)>& wants) {
  std::vector<json> out;
  {
    std::lock_guard lock{mutex_};
    if (stopped_)
      return;
    if (legacy_)
      out.push_back(rpc::notification(method, params));
    for (const auto& l : listeners_)
      if (wants(l.wanted)) {
        auto mine = params.is_null() ? json::object() : params;
        mine["_meta"] = {{meta_subscription, l.id}};
        out.push_back(rpc::notification(method, std::move(mine)));
      }
  }
  for (const auto& message : out)
    send(message);
}

void server::changed(const char* uri) {
  notify("notifications/resources/updated", {{"uri", uri}}, [&](const json& wanted) {
    auto uris = wanted.find("resourceSubscriptions");
    return uris != wanted.end() && uris->is_array() && std::find(uris->begin(), uris->end(), json(uri)) != uris->end();
  });
}

void server::tools_changed() {
  notify("notifications/tools/list_changed", nullptr,
         [](const json& wanted) { return wanted.contains("toolsListChanged") && wanted["toolsListChanged"] == true; });
}

// -- ends ----------------------------------------------------------------------------------------

void server::send(const json& message) {
  auto line = rpc::to_line(message);
  std::lock_guard lock{out_mutex_};
  out_(line);
}

void server::finish_queue(std::chrono::milliseconds patience) {
  std::unique_lock lock{mutex_};
  became_idle_.wait_for(lock, patience, [&] { return stopped_ || (idle_ && queue_.empty()); });
}

void server::stop() {
  {
    std::unique_lock lock{mutex_};
    if (std::exchange(stopped_, true))
      return;
    queue_.clear();
    queued_bytes_ = 0;
    for (auto& [id, r] : requests_)
      if (r.waits_on && !r.cancelled)
        r.waits_on->cancel();
    me_.cancel();
    filled_.notify_all();
  }
  worker_.join();
  {
    std::unique_lock lock{mutex_};
    waits_over_.wait(lock, [&] { return waits_ == 0; });
  }
  if (watcher_.joinable()) {
    watching_->cancel();
    watcher_.join();
  }
  me_.leave();
}

} // namespace swarm::mcp
