#include "tools/bench.d/operations.hpp"

#include <stdexcept>

#include <fcntl.h>
#include <unistd.h>

namespace swarm::bench {

namespace {

constexpr std::size_t page = 4096, pages = 4096;

} // namespace

synced_file::synced_file(const std::filesystem::path& file)
  : name_(file.string()), fd_(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)), block_(page, 'x') {
  if (!fd_)
    throw std::runtime_error("cannot write " + name_);
  if (lseek(fd_.get(), 0, SEEK_END) == 0) {
    for (std::size_t i = 0; i < pages; ++i)
      (void)!write(fd_.get(), block_.data(), page);
    fsync(fd_.get());
  }
}

void synced_file::write_page() {
  block_[at_ % page] = static_cast<char>(at_);
  if (pwrite(fd_.get(), block_.data(), page, static_cast<off_t>(at_ % pages * page)) != page || fdatasync(fd_.get()) != 0)
    throw std::runtime_error("cannot write " + name_);
  ++at_;
}

operation sync_operation(const std::filesystem::path& file) {
  return [synced = std::make_shared<synced_file>(file)] {
    synced->write_page();
    return true;
  };
}

operation echo_operation(const echo_server& server) {
  auto stub = std::shared_ptr{server.connect()};
  return [stub] {
    grpc::ClientContext context;
    Payload in, out;
    in.set_data(std::string(160, 'x')); // about a lock command
    check(stub->Say(&context, in, &out), "echo");
    return true;
  };
}

v1::Command acquire(const std::string& scope, const std::string& session, const std::string& path) {
  auto c = command(scope, session);
  c.mutable_acquire_lock()->set_path(path);
  return c;
}

v1::Command release(const std::string& scope, const std::string& session, const std::string& path, std::uint64_t fence) {
  auto c = command(scope, session);
  c.mutable_release_lock()->set_path(path);
  c.mutable_release_lock()->set_fence(fence);
  return c;
}

operation lock_operation(const std::string& socket, const std::string& scope, const std::string& session, const std::string& path) {
  return [c = std::make_shared<node_client>(socket), scope, session, path] {
    auto fence = c->execute(acquire(scope, session, path)).lock().lock().fence();
    c->execute(release(scope, session, path, fence));
    return true;
  };
}

} // namespace swarm::bench
