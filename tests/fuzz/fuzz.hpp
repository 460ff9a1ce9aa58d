// What the fuzz targets share: an assertion that libFuzzer sees as a crash, and a way to cut the input into pieces.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include <unistd.h>

#include <google/protobuf/stubs/logging.h>

#include "actors/base/crypto.hpp"
#include "tests/support/domain_world.hpp"

namespace swarm::fuzz {

/// Bytes that are no message are nothing to report; the reports would be most of the log, and of the time.
inline auto* const protobuf_is_silent = google::protobuf::SetLogHandler(nullptr);

[[noreturn]] inline void broken(const char* what, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken: %s\n", file, line, what);
  std::abort();
}

class input {
public:
  input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    if (rest_.empty())
      return 0;
    auto b = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return b;
  }
  /// A piece whose length stands before it in two bytes, little endian; what there is of it.
  std::string piece() {
    std::size_t n = byte();
    n |= static_cast<std::size_t>(byte()) << 8;
    n = std::min(n, rest_.size());
    std::string out{rest_.substr(0, n)};
    rest_.remove_prefix(n);
    return out;
  }
  std::string rest() { return std::string{std::exchange(rest_, {})}; }

private:
  std::string_view rest_;
};

/// A place for files of this process, in memory where the machine has such a place.
class scratch_directory {
public:
  scratch_directory() { std::filesystem::remove_all(path); }
  ~scratch_directory() { std::filesystem::remove_all(path); }
  scratch_directory(const scratch_directory&) = delete;
  scratch_directory& operator=(const scratch_directory&) = delete;

  const std::filesystem::path path =
    (std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path()) / ("swarm-fuzz-" + std::to_string(getpid()));
};

/// Rows in which most commands and queries find something: two sessions of one identity, one of another, tasks, locks with a
/// line, mail, keys, a spawn. Their ids are written "1", "2", ... by the inputs.
class populated : public test::domain_world {
public:
  populated() : domain_world(1) {
    ids.push_back(session("identity:ada role:planner", 100));
    ids.push_back(session("identity:ada", 101));
    ids.push_back(session("identity:bob", 102));
    add_task("one", {});
    add_task("two", {ids[3]});
    auto lock = command(ids[0]);
    lock.mutable_acquire_lock()->set_path("/repo/x");
    run(lock);
    lock.set_actor(ids[1]);
    lock.mutable_acquire_lock()->set_wait_ms(60'000);
    run(lock);
    auto mail = command(ids[0]);
    mail.mutable_send_message()->set_recipient(ids[1]);
    mail.mutable_send_message()->set_content("hello");
    run(mail);
    auto kv = command(ids[0]);
    kv.mutable_set_kv()->set_key("k");
    kv.mutable_set_kv()->set_value("[1,2]");
    run(kv);
    auto spawn = command();
    auto& d = *spawn.mutable_dispatch();
    d.set_title("run");
    d.set_harness("exec");
    d.add_argv("/bin/true");
    d.set_directory("/repo");
    auto made = reply(spawn);
    ids.push_back(made.dispatch().spawn().id());
    ids.push_back(made.dispatch().task().id());
  }

  /// Replaces "1" ... by the id meant.
  void name(std::string* field) const {
    if (field->size() == 1 && *field >= "1" && static_cast<std::size_t>((*field)[0] - '1') < ids.size())
      *field = ids[static_cast<std::size_t>((*field)[0] - '1')];
  }
  /// The same for every text field of a message, however deep.
  void name_all(google::protobuf::Message& m) const {
    const auto* r = m.GetReflection();
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    r->ListFields(m, &fields);
    for (const auto* f : fields) {
      if (f->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
        if (f->is_repeated())
          for (int i = 0; i < r->FieldSize(m, f); ++i)
            name_all(*r->MutableRepeatedMessage(&m, f, i));
        else
          name_all(*r->MutableMessage(&m, f));
      } else if (f->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
        if (f->is_repeated())
          for (int i = 0; i < r->FieldSize(m, f); ++i) {
            auto v = r->GetRepeatedString(m, f, i);
            name(&v);
            r->SetRepeatedString(&m, f, i, v);
          }
        else {
          auto v = r->GetString(m, f);
          name(&v);
          r->SetString(&m, f, v);
        }
      }
    }
  }

  std::vector<std::string> ids;

private:
  void add_task(const std::string& title, std::vector<std::string> after) {
    auto c = command(ids[0]);
    auto& t = *c.mutable_create_tasks()->add_tasks();
    t.set_type("fix");
    t.set_title(title);
    for (auto& id : after)
      t.add_depends_on(id);
    ids.push_back(reply(c).tasks_created().tasks(0).task().id());
  }
};

} // namespace swarm::fuzz

#define SWARM_HOLDS(condition)                                                                                                                       \
  do {                                                                                                                                               \
    if (!(condition))                                                                                                                                \
      ::swarm::fuzz::broken(#condition, __FILE__, __LINE__);                                                                                         \
  } while (false)
