#include "actors/fabric/terminals/pty_log.hpp"

#include <algorithm>
#include <chrono>

#include <caf/send.hpp>

#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/tree.hpp"

namespace fs = std::filesystem;

namespace swarm {

namespace {

constexpr std::chrono::hours clean_up_every{1};

using self_ptr = pty_log_actor::stateful_pointer<pty_log_state>;

pty_log_files& files_of(self_ptr self, const std::string& id) {
  auto& open = self->state.open;
  if (auto i = open.find(id); i != open.end())
    return i->second;
  if (open.size() >= limits::pty_logs_open_max)
    open.erase(open.begin());
  return open.emplace(id, pty_log_files{self->state.node->facts.dir.pty_dir() / id}).first->second;
}

pty_info_ptr kept_terminal(const fs::path& dir, v1::PtyInfo info) {
  pty_log_files files{dir};
  info.set_start(files.start());
  info.set_end(files.end());
  return std::make_shared<const v1::PtyInfo>(std::move(info));
}

/// Those that have ended, and those whose end nobody has noted.
std::vector<pty_info_ptr> kept_terminals(self_ptr self) {
  std::vector<std::pair<fs::file_time_type, fs::path>> kept;
  std::vector<pty_info_ptr> out;
  std::error_code ec;
  for (fs::directory_iterator i{self->state.node->facts.dir.pty_dir(), ec}, last; !ec && i != last; i.increment(ec)) {
    std::error_code none;
    if (auto at = fs::last_write_time(i->path() / terminal_record_name, none); !none)
      kept.emplace_back(at, i->path());
    else if (auto info = read_terminal_record(i->path(), terminal_started_name)) {
      info->set_running(true);
      out.push_back(kept_terminal(i->path(), std::move(*info)));
    }
  }
  std::sort(kept.begin(), kept.end());
  if (auto n = limits::ended_terminals_max(); kept.size() > n)
    kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(n));
  for (const auto& [at, dir] : kept)
    if (auto info = read_terminal_record(dir)) {
      info->set_running(false);
      out.push_back(kept_terminal(dir, std::move(*info)));
    }
  return out;
}

void clean_up(self_ptr self) {
  auto oldest = fs::file_time_type::clock::now() - limits::pty_retention();
  std::error_code ec;
  for (fs::directory_iterator i{self->state.node->facts.dir.pty_dir(), ec}, last; !ec && i != last; i.increment(ec)) {
    fs::file_time_type newest = fs::file_time_type::min();
    std::error_code inner;
    if (fs::exists(i->path() / terminal_started_name, inner))
      continue; // its program runs and has been silent for long
    for (fs::directory_iterator f{i->path(), inner}, end; !inner && f != end; f.increment(inner))
      newest = std::max(newest, f->last_write_time(inner));
    if (!inner && newest < oldest) {
      self->state.open.erase(i->path().filename().string());
      fs::remove_all(i->path(), inner);
    }
  }
}

} // namespace

pty_log_actor::behavior_type pty_log(self_ptr self, node_environment_ptr node) {
  runtime::install_defaults(self);
  self->state.node = std::move(node);
  self->delayed_send(self, clean_up_every, tick_atom_v);
  return {
    [self](log_atom, const log_slice_ptr& s) {
      if (!is_plain_name(s->id))
        return true;
      try {
        auto& files = files_of(self, s->id);
        if (s->fresh)
          files.clear();
        files.append(s->offset, s->bytes);
      } catch (const std::exception& e) {
        // Output that cannot be kept becomes a gap; the program and its readers go on.
        log::warn({"terminal ", s->id, ": output at ", s->offset, " is not kept: ", e.what()});
        self->state.open.erase(s->id);
      }
      return true;
    },
    [self](log_atom, const std::string& id, std::uint64_t from, std::uint64_t max) -> caf::result<log_slice_ptr> {
      if (!is_plain_name(id))
        return fail(errc::not_found, "no terminal " + id);
      auto out = std::make_shared<log_slice>();
      out->id = id;
      try {
        auto& files = files_of(self, id);
        if (files.empty())
          return fail(errc::not_found, "nothing is kept of terminal " + id);
        out->offset = files.read(from, std::min<std::uint64_t>(max, limits::pty_chunk_bytes_max), out->bytes);
        out->start = files.start();
        out->end = files.end();
      } catch (const std::exception& e) {
        self->state.open.erase(id);
        return fail(errc::store_failed, e.what());
      }
      return log_slice_ptr{out};
    },
    [self](log_atom, const pty_info_ptr& info) {
      try {
        if (is_plain_name(info->id()))
          write_terminal_record(self->state.node->facts.dir.pty_dir() / info->id(), *info);
      } catch (const std::exception& e) {
        log::warn({"terminal ", info->id(), ": its ", info->running() ? "start" : "end", " is not kept: ", e.what()});
      }
    },
    [self](forget_atom, const std::string& id) {
      if (is_plain_name(id))
        remove_terminal_records(self->state.node->facts.dir.pty_dir() / id);
    },
    [self](list_atom) { return kept_terminals(self); },
    [self](tick_atom) {
      clean_up(self);
      self->delayed_send(self, clean_up_every, tick_atom_v);
    },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up")}; },
  };
}

} // namespace swarm
