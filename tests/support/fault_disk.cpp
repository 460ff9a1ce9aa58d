#include "tests/support/fault_disk.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace swarm::test {

namespace fs = std::filesystem;

namespace {

void perform(std::string& bytes, const fault_disk::file::change& c) {
  if (c.size) {
    bytes.resize(*c.size);
    return;
  }
  if (bytes.size() < c.offset)
    bytes.resize(c.offset);
  bytes.replace(c.offset, c.bytes.size(), c.bytes);
}

void lose_unsynced(fault_disk::file& f, std::mt19937_64* dice) {
  f.now = f.synced;
  if (dice != nullptr)
    for (auto& c : f.unsynced) {
      if ((*dice)() % 2 == 0)
        continue;
      if ((*dice)() % 4 == 0)
        c.bytes.resize((*dice)() % (c.bytes.size() + 1));
      perform(f.now, c);
    }
  f.synced = f.now;
  f.unsynced.clear();
}

} // namespace

class open_fault_file final : public disk_file {
public:
  open_fault_file(fault_disk& d, std::shared_ptr<fault_disk::file> data, bool writes) : disk_(&d), data_(std::move(data)), writes_(writes) {}

  disk_result<std::uint64_t> size() override {
    if (!disk_->powered())
      return fault_disk::dead();
    return data_->now.size();
  }

  disk_result<std::size_t> read_at(std::uint64_t offset, std::span<char> to) override {
    if (auto error = disk_->admit_read())
      return error;
    const auto& bytes = data_->now;
    const auto n = offset < bytes.size() ? std::min<std::size_t>(to.size(), bytes.size() - offset) : 0;
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(n == 0 ? 0 : offset), n, to.begin());
    return n;
  }

  std::error_code write_at(std::uint64_t offset, std::string_view bytes) override {
    auto error = writes_ ? disk_->admit() : std::make_error_code(std::errc::bad_file_descriptor);
    if (!error && disk_->full_ && !bytes.empty())
      error = std::make_error_code(std::errc::no_space_on_device);
    if (!disk_->powered())
      return error;
    change({.offset = offset, .bytes = std::string{error ? bytes.substr(0, bytes.size() / 2) : bytes}});
    return error;
  }

  std::error_code resize(std::uint64_t bytes) override {
    auto error = writes_ ? disk_->admit() : std::make_error_code(std::errc::bad_file_descriptor);
    if (!error)
      change({.size = bytes});
    return error;
  }

  std::error_code sync() override {
    auto error = disk_->admit();
    if (!disk_->powered())
      return error;
    if (!error)
      for (const auto& c : data_->unsynced)
        perform(data_->synced, c);
    data_->unsynced.clear();
    return error;
  }

  disk_result<std::int64_t> changed_ms() override {
    if (!disk_->powered())
      return fault_disk::dead();
    return data_->changed_ms;
  }

private:
  void change(fault_disk::file::change c) {
    data_->changed_ms = disk_->now_ms_;
    perform(data_->now, c);
    data_->unsynced.push_back(std::move(c));
  }

  fault_disk* disk_;
  std::shared_ptr<fault_disk::file> data_;
  bool writes_;
};

std::error_code fault_disk::admit() {
  if (!powered_)
    return dead();
  ++operations_;
  if (operations_ == cut_at_) {
    powered_ = false;
    return dead();
  }
  return operations_ == fail_at_ ? std::make_error_code(why_) : std::error_code{};
}

std::error_code fault_disk::admit_read() {
  return !powered_ || ++reads_ == fail_read_at_ ? std::make_error_code(std::errc::io_error) : std::error_code{};
}

disk_result<std::unique_ptr<disk_file>> fault_disk::open(const fs::path& path, how mode) {
  if (!powered_)
    return dead();
  if ((now_.files.count(path.string()) == 0) != (mode == how::make))
    return std::make_error_code(mode == how::make ? std::errc::file_exists : std::errc::no_such_file_or_directory);
  if (mode == how::make) {
    if (!now_.has_directory(path.parent_path()))
      return std::make_error_code(std::errc::no_such_file_or_directory);
    if (auto error = admit())
      return error;
    if (full_)
      return std::make_error_code(std::errc::no_space_on_device);
    auto data = std::make_shared<file>();
    data->changed_ms = now_ms_;
    change_names(path.parent_path(), [name = path.string(), data](tree& all) { all.files[name] = data; });
  }
  return std::unique_ptr<disk_file>{std::make_unique<open_fault_file>(*this, now_.files.at(path.string()), mode != how::read)};
}

disk_result<std::vector<std::string>> fault_disk::list(const fs::path& directory) {
  if (!powered_)
    return dead();
  if (!now_.has_directory(directory))
    return std::make_error_code(std::errc::no_such_file_or_directory);
  std::vector<std::string> out;
  for (const auto& [name, data] : now_.files)
    if (fs::path{name}.parent_path() == directory)
      out.push_back(fs::path{name}.filename().string());
  return out;
}

std::error_code fault_disk::rename(const fs::path& from, const fs::path& to) {
  if (auto error = admit())
    return error;
  if (now_.files.count(from.string()) == 0)
    return std::make_error_code(std::errc::no_such_file_or_directory);
  if (from.parent_path() != to.parent_path())
    return std::make_error_code(std::errc::cross_device_link);
  change_names(to.parent_path(), [from = from.string(), to = to.string()](tree& all) {
    all.files[to] = all.files[from];
    all.files.erase(from);
  });
  return {};
}

std::error_code fault_disk::remove(const fs::path& path) {
  if (!powered_)
    return dead();
  if (now_.files.count(path.string()) == 0)
    return {};
  if (auto error = admit())
    return error;
  change_names(path.parent_path(), [name = path.string()](tree& all) { all.files.erase(name); });
  return {};
}

std::error_code fault_disk::make_one_directory(const fs::path& path) {
  if (!powered_)
    return dead();
  if (now_.has_directory(path) || now_.files.count(path.string()) > 0)
    return std::make_error_code(std::errc::file_exists);
  if (!now_.has_directory(path.parent_path()))
    return std::make_error_code(std::errc::no_such_file_or_directory);
  if (auto error = admit())
    return error;
  if (full_)
    return std::make_error_code(std::errc::no_space_on_device);
  change_names(path.parent_path(), [name = path.string()](tree& all) { all.directories.insert(name); });
  return {};
}

std::error_code fault_disk::sync_directory(const fs::path& path) {
  if (auto error = admit())
    return error;
  if (!now_.has_directory(path))
    return std::make_error_code(std::errc::no_such_file_or_directory);
  std::vector<change> others;
  for (auto& c : unsynced_)
    if (c.directory == path.string())
      c.perform(synced_);
    else
      others.push_back(std::move(c));
  unsynced_ = std::move(others);
  return {};
}

void fault_disk::change_names(const fs::path& directory, std::function<void(tree&)> change) {
  change(now_);
  unsynced_.push_back({directory.string(), std::move(change)});
}

bool fault_disk::tree::has_directory(const fs::path& path) const { return path == path.root_path() || directories.count(path.string()) > 0; }

void fault_disk::tree::remove_orphans() {
  auto is_orphan = [this](const std::string& name) { return !has_directory(fs::path{name}.parent_path()); };
  // One sorts before what stands in it.
  for (auto i = directories.begin(); i != directories.end();)
    i = is_orphan(*i) ? directories.erase(i) : std::next(i);
  std::erase_if(files, [&is_orphan](const auto& f) { return is_orphan(f.first); });
}

void fault_disk::reboot(std::optional<std::uint64_t> seed) {
  std::mt19937_64 dice{seed.value_or(0)};
  auto survive = seed ? dice() % (unsynced_.size() + 1) : 0;
  for (std::size_t i = 0; i < survive; ++i)
    unsynced_[i].perform(synced_);
  unsynced_.clear();
  synced_.remove_orphans();
  now_ = synced_;
  for (auto& [name, data] : now_.files)
    lose_unsynced(*data, seed ? &dice : nullptr);
  operations_ = reads_ = cut_at_ = fail_at_ = fail_read_at_ = 0;
  full_ = false;
  powered_ = true;
}

void fault_disk::damage(const std::string& path, const std::function<void(std::string&)>& change) {
  auto found = now_.files.find(path);
  if (found == now_.files.end())
    return;
  auto& data = *found->second;
  change(data.now);
  data.synced = data.now;
  data.unsynced.clear();
}

} // namespace swarm::test
