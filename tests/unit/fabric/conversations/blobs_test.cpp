#include "actors/fabric/conversations/blobs.hpp"

#include <sys/stat.h>

#include <fstream>

#include "actors/store/apply.hpp"
#include "tests/support/fabric_world.hpp"

using namespace swarm;
using namespace std::chrono_literals;
using test::asked;
using test::fabric_world;
namespace fs = std::filesystem;

namespace {

template <class T>
struct with_limit {
  with_limit(limits::bound<T>& which, T value) : which_(which), before_(which()) { REQUIRE(which.set(value)); }
  ~with_limit() { which_.set(before_); }
  with_limit(const with_limit&) = delete;
  with_limit& operator=(const with_limit&) = delete;

private:
  limits::bound<T>& which_;
  T before_;
};

struct blob_world {
  fabric_world f;
  std::string id = start();

  ~blob_world() { f.stop(); }

  /// One without a prompt, so that no driver runs.
  std::string start() {
    auto c = f.command();
    auto& s = *c.mutable_start_conversation();
    s.set_harness("claude");
    s.add_argv("/bin/true");
    s.set_directory("/repo");
    s.set_node_id("node-1");
    const auto r = f.run(c);
    REQUIRE_MESSAGE(!r.has_refusal(), r.refusal().text());
    return r.conversation().conversation().id();
  }
  conversation_blobs_actor blobs() { return f.board->get().conversation_blobs; }
  fs::path directory(const std::string& of) { return f.state.dir.root / "conversations" / of; }
  fs::path file(const std::string& bytes) { return directory(id) / "blobs" / to_hex(sha256(bytes)); }

  asked<blob_kept_ptr> keep(const std::string& bytes, const std::string& of) {
    auto a = f.request<blob_kept_ptr>(blobs(), std::make_shared<const blob_keeping>(blob_keeping{of, bytes}));
    f.w.settle();
    return a;
  }
  asked<blob_kept_ptr> keep(const std::string& bytes) { return keep(bytes, id); }
  asked<blob_kept_ptr> part(const std::string& upload, const std::string& data, bool first, bool last) {
    auto a = f.request<blob_kept_ptr>(blobs(), std::make_shared<const blob_upload>(blob_upload{upload, id, data, first, last}));
    f.w.settle();
    return a;
  }
  asked<blob_page_ptr> read(const std::string& digest, std::uint64_t offset, std::uint64_t max_bytes, const std::string& of) {
    auto a = f.request<blob_page_ptr>(blobs(), std::make_shared<const blob_reading>(blob_reading{of, digest, offset, max_bytes}));
    f.w.settle();
    return a;
  }
  asked<blob_page_ptr> read(const std::string& digest, std::uint64_t offset = 0, std::uint64_t max_bytes = 100) {
    return read(digest, offset, max_bytes, id);
  }
  void remove() {
    auto c = f.command();
    c.mutable_delete_conversation()->set_conversation_id(id);
    const auto r = f.run(c);
    REQUIRE_MESSAGE(!r.has_refusal(), r.refusal().text());
  }
  asked<log_state_ptr> log(const std::string& text, const std::string& of) {
    auto frames = std::make_shared<log_frames>();
    frames->log = {of, 0};
    frames->sync = true;
    v1::ConversationItem item;
    item.set_kind(v1::CONVERSATION_TEXT);
    item.set_body(text);
    frames->frames.push_back({.generation = 1, .at_ms = f.w.clock.unix_ms(), .kind = v1::CONVERSATION_TEXT, .body = item.SerializeAsString()});
    auto a = f.request<log_state_ptr>(f.board->get().conversation_logs, log_frames_ptr{frames});
    f.w.settle();
    return a;
  }
  std::size_t entries() {
    auto r = std::make_shared<log_reading>();
    r->log = {id, 0};
    auto a = f.request<log_pages_ptr>(f.board->get().conversation_logs, log_reading_ptr{r});
    f.w.settle();
    return a.get()->entries.size();
  }
  /// By the world's clock, so long ago.
  void set_age(const fs::path& path, std::chrono::milliseconds age) {
    const auto at = f.w.clock.unix_ms() - age.count();
    const timespec time{at / 1'000, at % 1'000 * 1'000'000};
    const timespec both[] = {time, time};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), both, 0) == 0);
  }
  /// A row, as a node of whatever version may have it.
  template <class Row>
  void put(const Row& row) {
    sqlite::connection file{f.state.dir.database().string(), sqlite::open_options{}};
    write_row(file, domain::table<Row>::key(row), row, std::optional<Row>{});
  }
};

bool holds_nothing(const fs::path& directory) { return !fs::exists(directory) || fs::is_empty(directory); }

} // namespace

TEST_CASE("bytes of a conversation are kept under their digest and come back in parts") {
  blob_world w;
  const std::string body(300 * limits::kib, 'b');
  const auto kept = w.keep(body);
  CHECK(kept.get()->digest == sha256(body));
  CHECK(kept.get()->bytes == body.size());
  CHECK(w.read(kept.get()->digest, 0, 5).get()->data == "bbbbb");
  CHECK(w.read(kept.get()->digest, 0, ~0ull).get()->data.size() == limits::conversation_frame_bytes_max);
  const auto rest = w.read(kept.get()->digest, limits::conversation_frame_bytes_max, ~0ull);
  CHECK(rest.get()->data.size() == body.size() - limits::conversation_frame_bytes_max);
  CHECK(rest.get()->total == body.size());
  CHECK(w.read(kept.get()->digest, body.size()).get()->data.empty());
  CHECK(w.read(sha256("another")).error() == errc::not_found);
  CHECK(w.read(kept.get()->digest, 0, 5, w.start()).error() == errc::not_found);
  w.f.restart();
  CHECK(w.read(kept.get()->digest).get()->total == body.size());
}

TEST_CASE("a blob that was damaged on the disk is not given to a reader") {
  blob_world w;
  const auto kept = w.keep("what is approved");
  std::ofstream{w.file("what is approved"), std::ios::app} << "!";
  CHECK(w.read(kept.get()->digest).error() == errc::store_failed);
}

TEST_CASE("an upload in parts is kept with its last, and nothing is left of one that breaks off") {
  blob_world w;
  CHECK(w.part("u1", "ab", true, false).get()->bytes == 0);
  CHECK(w.part("u1", "c", false, false).get()->bytes == 0);
  CHECK_FALSE(fs::exists(w.file("abc")));
  CHECK(w.part("u1", "", false, true).get()->digest == sha256("abc"));
  CHECK(fs::exists(w.file("abc")));

  w.part("u2", "half", true, false);
  w.f.w.tell(w.blobs(), abort_atom_v, std::string{"u2"});
  w.f.w.settle();
  CHECK(w.part("u2", "", false, true).error() == errc::unavailable);
  w.part("u3", "half", true, false);
  w.f.restart();
  CHECK(w.part("u3", "of it", false, true).error() == errc::unavailable);
  fs::remove(w.file("abc"));
  CHECK(holds_nothing(w.directory(w.id) / "blobs"));
}

TEST_CASE("what was kept for a caller who went without the answer is taken back, unless somebody else has kept the same") {
  blob_world w;
  w.part("u1", "abc", true, true);
  w.f.w.tell(w.blobs(), abort_atom_v, std::string{"u1"});
  w.f.w.settle();
  CHECK_FALSE(fs::exists(w.file("abc")));

  w.part("u2", "abc", true, true);
  w.keep("abc");
  w.f.w.tell(w.blobs(), abort_atom_v, std::string{"u2"});
  w.f.w.settle();
  CHECK(fs::exists(w.file("abc")));

  w.part("u3", "abc", true, true);
  w.f.w.tell(w.blobs(), abort_atom_v, std::string{"u3"});
  w.f.w.settle();
  CHECK(fs::exists(w.file("abc")));
}

TEST_CASE("one blob and all blobs of a conversation are bounded") {
  blob_world w;
  with_limit one{limits::conversation_blob_bytes_max, limits::conversation_blob_bytes_max.lowest()};
  with_limit all{limits::conversation_blobs_bytes_max, limits::conversation_blobs_bytes_max.lowest()};
  CHECK(w.keep(std::string(limits::conversation_blob_bytes_max() + 1, 'x')).error() == errc::invalid);
  w.part("u1", std::string(limits::conversation_blob_bytes_max(), 'x'), true, false);
  CHECK(w.part("u1", "x", false, false).error() == errc::invalid);
  CHECK(w.part("u1", "", false, true).error() == errc::unavailable);
  CHECK(holds_nothing(w.directory(w.id) / "blobs"));

  // However small they are.
  const auto smallest = limits::conversation_blobs_bytes_max() / (64 * limits::kib);
  for (std::size_t i = 0; i < smallest; ++i)
    REQUIRE_FALSE(w.keep(std::to_string(i)).failed());
  CHECK(w.keep("one more").error() == errc::overloaded);
  CHECK(w.part("u2", "one more", true, false).error() == errc::overloaded);
  CHECK(w.keep("7").get()->bytes == 1);
  CHECK_FALSE(w.keep("one more", w.start()).failed());
}

TEST_CASE("nothing is kept on a disk that is nearly full") {
  blob_world w;
  w.f.free_disk_bytes = limits::disk_low_bytes() - 1;
  CHECK(w.keep("abc").error() == errc::low_disk);
  CHECK(w.part("u1", "abc", true, true).error() == errc::low_disk);
  w.f.free_disk_bytes = limits::disk_low_bytes();
  CHECK_FALSE(w.keep("abc").failed());
}

TEST_CASE("a blob that no prompt and no approval names goes after a day, and one that is named stays") {
  blob_world w;
  for (const auto* bytes : {"attached", "asked", "nobody's", "young"})
    REQUIRE_FALSE(w.keep(bytes).failed());
  w.f.stop();
  v1::Prompt p;
  p.set_id(random_uuid());
  p.set_scope("s");
  p.set_conversation_id(w.id);
  p.set_number(1);
  p.set_state(v1::Prompt::CONSUMED);
  p.set_changed_at_ms(w.f.w.clock.unix_ms());
  p.add_attachments()->set_digest(sha256("attached"));
  w.put(p);
  v1::Approval a;
  a.set_id(random_uuid());
  a.set_scope("s");
  a.set_subject("conversation/" + w.id);
  a.set_conversation_id(w.id);
  a.set_created_at_ms(w.f.w.clock.unix_ms());
  a.set_action_digest(sha256("asked"));
  a.set_body_bytes(5);
  w.put(a);
  for (const auto* bytes : {"attached", "asked", "nobody's"})
    w.set_age(w.file(bytes), 25h);
  w.set_age(w.file("young"), 23h);

  w.f.start();
  w.f.w.settle();
  CHECK_FALSE(fs::exists(w.file("nobody's")));
  for (const auto* bytes : {"attached", "asked", "young"})
    CHECK(fs::exists(w.file(bytes)));
  w.f.w.advance(1h);
  CHECK(fs::exists(w.file("young")));
  w.f.w.advance(1h);
  CHECK_FALSE(fs::exists(w.file("young")));
  CHECK(fs::exists(w.file("attached")));
}

TEST_CASE("a conversation that is deleted takes its log and its blobs along, and nobody makes them again") {
  blob_world w;
  REQUIRE_FALSE(w.keep("abc").failed());
  REQUIRE_FALSE(w.log("said", w.id).failed());
  w.part("u1", "half", true, false);
  w.remove();
  CHECK_FALSE(fs::exists(w.directory(w.id)));
  CHECK(w.log("too late", w.id).error() == errc::not_found);
  CHECK(w.keep("abc").error() == errc::not_found);
  CHECK(w.part("u1", "", false, true).error() == errc::not_found);
  CHECK(w.part("u2", "abc", true, true).error() == errc::not_found);
  CHECK(w.read(sha256("abc")).error() == errc::not_found);
  CHECK_FALSE(fs::exists(w.directory(w.id)));
}

TEST_CASE("what a crash has left of a deleted conversation goes at the next start") {
  blob_world w;
  REQUIRE_FALSE(w.log("said", w.id).failed());
  const auto gone = random_uuid();
  REQUIRE_FALSE(w.log("said", gone).failed());
  REQUIRE_FALSE(w.keep("abc", gone).failed());
  fs::create_directories(w.directory("no.conversation"));
  w.f.restart();
  CHECK_FALSE(fs::exists(w.directory(gone)));
  CHECK(fs::exists(w.directory("no.conversation")));
  CHECK(w.entries() == 1);
}

TEST_CASE("a log that nobody writes any more loses what is too old") {
  blob_world w;
  REQUIRE_FALSE(w.log("long ago", w.id).failed());
  const auto age = limits::conversation_log_retention() + 1h;
  REQUIRE(w.entries() == 1);
  w.f.w.advance(age);
  for (const auto& f : fs::directory_iterator{w.directory(w.id)})
    w.set_age(f.path(), age);
  w.f.w.advance(1h);
  CHECK(w.entries() == 0);
  REQUIRE_FALSE(w.log("now", w.id).failed());
  CHECK(w.entries() == 1);
}

TEST_CASE("who reads a log from its begin is told what is not kept any more") {
  blob_world w;
  const auto end = w.log("said", w.id).get()->end.at.offset;
  w.f.stop();
  for (const auto& f : fs::directory_iterator{w.directory(w.id)})
    fs::remove_all(f.path());
  w.f.start();
  w.f.w.settle();
  auto r = std::make_shared<log_reading>();
  r->log = {w.id, end};
  auto a = w.f.request<log_pages_ptr>(w.f.board->get().conversation_logs, log_reading_ptr{r});
  w.f.w.settle();
  CHECK(a.get()->entries.empty());
  CHECK(a.get()->gap == log_gap{0, end, log_gap::why::damaged});
}

TEST_CASE("an id that is no plain name reaches no file") {
  blob_world w;
  const auto secret = w.f.state.dir.root / "secret";
  fs::create_directories(secret);
  for (const auto& id : {std::string{"../secret"}, std::string{".."}, std::string{"."}, std::string{}, std::string{"a/b"}, std::string{"a.b"},
                         std::string("a\0b", 3), std::string(300, 'a')}) {
    CAPTURE(id);
    CHECK(w.log("x", id).failed());
    CHECK(w.keep("x", id).error() == errc::not_found);
    CHECK(w.read(sha256("x"), 0, 1, id).error() == errc::not_found);
    w.f.w.tell(w.blobs(), forget_atom_v, id);
    w.f.w.tell(w.f.board->get().conversation_logs, forget_atom_v, id);
    w.f.w.settle();
  }
  CHECK(holds_nothing(secret));
  CHECK(fs::exists(w.f.state.dir.database()));
  CHECK(holds_nothing(w.f.state.dir.root / "conversations"));
}
