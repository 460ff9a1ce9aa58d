#include "services/call/path_view.hpp"

#include <functional>

#include <nlohmann/json.hpp>

#include "actors/base/paths.hpp"
#include "actors/base/worktree.hpp"
#include "swarm/v1/command.pb.h"
#include "swarm/v1/options.pb.h"

namespace swarm {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using json = nlohmann::json;
using translation = std::function<std::string(const std::string&)>;

/// How one call's texts are rewritten.
struct wording {
  translation path;
  translation scope = nullptr; // null: as it is
};

void translate(json& payload, const char* name, const translation& as) {
  auto found = payload.find(name);
  if (found == payload.end())
    return;
  if (found->is_string())
    *found = as(found->get<std::string>());
  else if (found->is_array())
    for (auto& item : *found)
      if (item.is_string())
        item = as(item.get<std::string>());
}

std::string text_of(const json& payload) { return payload.dump(-1, ' ', false, json::error_handler_t::replace); }

/// What a completed task gave is a text, too, and names the files it changed.
std::string translated_result(const std::string& result, const translation& as) {
  if (result.find("\"files_changed\"") == result.npos)
    return result;
  auto said = json::parse(result, nullptr, false);
  if (!said.is_object())
    return result;
  translate(said, "files_changed", as);
  return text_of(said);
}

/// Its subject and payload are texts; which of them are paths docs/events.md says.
void translate(v1::Event& e, const translation& as) {
  if (e.type().rfind("context.lock_", 0) == 0)
    return e.set_subject(as(e.subject()));
  if (e.type() != "instance.registered" && e.type() != "task.created" && e.type() != "task.updated")
    return;
  auto payload = json::parse(e.payload(), nullptr, false);
  if (!payload.is_object())
    return;
  for (auto name : {"directory", "root", "file_root", "files"})
    translate(payload, name, as);
  translate(payload, "result", [&](const std::string& result) { return translated_result(result, as); });
  e.set_payload(text_of(payload));
}

void translate(Message& m, const wording& as) {
  if (auto* event = dynamic_cast<v1::Event*>(&m)) {
    translate(*event, as.path);
    if (as.scope)
      event->set_scope(as.scope(event->scope()));
    return;
  }
  if (auto* task = dynamic_cast<v1::Task*>(&m); task && !task->result().empty())
    task->set_result(translated_result(task->result(), as.path));
  const auto& r = *m.GetReflection();
  std::vector<const FieldDescriptor*> set;
  r.ListFields(m, &set);
  for (const auto* f : set) {
    if (f->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!f->is_repeated())
        translate(*r.MutableMessage(&m, f), as);
      else
        for (int i = 0; i < r.FieldSize(m, f); ++i)
          translate(*r.MutableRepeatedMessage(&m, f, i), as);
    } else if (f->cpp_type() == FieldDescriptor::CPPTYPE_STRING && f->options().GetExtension(v1::in_scope)) {
      if (!f->is_repeated())
        r.SetString(&m, f, as.path(r.GetString(m, f)));
      else
        for (int i = 0; i < r.FieldSize(m, f); ++i)
          r.SetRepeatedString(&m, f, i, as.path(r.GetRepeatedString(m, f, i)));
    } else if (as.scope && f->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !f->is_repeated() && f->name() == "scope") {
      r.SetString(&m, f, as.scope(r.GetString(m, f)));
    }
  }
}

/// The checkout around the caller's directory; around the repository of the worktree it is in; the one it named; else the first. Empty = none.
std::string root_of_caller(const checkouts& shared, const std::string& scope, const std::string& named, const std::string& directory) {
  auto around = [&](const std::string& place) {
    auto root = place.starts_with('/') ? shared.root_for(scope, place) : std::string{};
    return !root.empty() && is_inside(root, place) ? root : std::string{};
  };
  if (auto root = around(directory); !root.empty())
    return root;
  if (auto root = directory.empty() ? std::string{} : around(repository_path(directory)); !root.empty())
    return root;
  auto root = around(named);
  return root.empty() ? shared.root_for(scope, {}) : root;
}

} // namespace

path_view::path_view(const checkouts& shared, std::string& scope, const std::string& directory) {
  if (shared.empty())
    return;
  named_ = std::exchange(scope, shared.scope_of(scope));
  if (!is_named_scope(scope))
    return;
  shared_ = &shared;
  scope_ = scope;
  root_ = root_of_caller(shared, scope, named_, directory);
}

/// Where a worker works that may not do so in any other checkout; as the scope holds paths, they are all one. Empty = in whichever.
template <class Body>
std::string path_view::own_directory(const Body& body) const {
  if (!body.on().empty() || !body.where().empty())
    return {};
  const auto root = shared_->root_for(scope_, body.directory());
  const bool is_meant_anyway = root == root_ && root == shared_->root_for(scope_, {});
  return is_inside(root, body.directory()) && !is_meant_anyway ? body.directory() : std::string{};
}

bool path_view::to_store(Message& m, bool works_here) {
  if (!shared_)
    return false;
  auto* cmd = root_.empty() || !works_here ? nullptr : dynamic_cast<v1::Command*>(&m);
  std::string own;
  if (cmd && cmd->has_dispatch())
    own = own_directory(cmd->dispatch());
  else if (cmd && cmd->has_request_spawn())
    own = own_directory(cmd->request_spawn());
  translate(m, {[this](const std::string& path) {
              auto stored = shared_->stored(scope_, path);
              if (stored != path)
                asked_.insert(stored);
              return stored;
            }});
  if (own.empty())
    return false;
  if (cmd->has_dispatch())
    cmd->mutable_dispatch()->set_directory(own);
  else
    cmd->mutable_request_spawn()->set_directory(own);
  return true;
}

void path_view::to_caller(Message& m) const {
  if (!shared_ || (root_.empty() && named_ == scope_))
    return;
  wording as{[this](const std::string& path) { return path_from(root_, path); }};
  if (named_ != scope_)
    as.scope = [this](const std::string& scope) { return scope == scope_ ? named_ : scope; };
  translate(m, as);
  // What is refused may be a file.
  if (auto* reply = dynamic_cast<v1::Reply*>(&m); reply && asked_.contains(reply->refusal().subject()))
    reply->mutable_refusal()->set_subject(path_from(root_, reply->refusal().subject()));
}

} // namespace swarm
