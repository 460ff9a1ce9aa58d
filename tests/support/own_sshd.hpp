// A real sshd on loopback that belongs to the test, and the ssh that leads to it.
#pragma once

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/free_ports.hpp"
#include "tests/support/node_process.hpp"

namespace swarm::testing {

class own_sshd {
public:
  /// `before_key`: options of the key in authorized_keys. `variables`: what its sessions have besides. missing() says why it does not run.
  explicit own_sshd(const std::string& before_key, const environment& variables) {
    if (access(sshd_path, X_OK) != 0 || access(ssh_path, X_OK) != 0) {
      missing_ = "there is no OpenSSH here (packages openssh-server and openssh-client)";
      return;
    }
    std::error_code ec;
    if (geteuid() == 0)
      fs::create_directories("/run/sshd", ec); // where a privileged sshd puts its children; a service makes it otherwise
    for (auto key : {"host_key", "user_key", "wrong_key"})
      if (auto made = run({"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path(key)}); made.status != 0)
        throw std::runtime_error("ssh-keygen: " + made.err);
    port_ = free_ports();
    write(path("authorized_keys"), before_key + file_text(path("user_key.pub")));
    std::string set;
    for (const auto& [name, value] : variables)
      set += std::string{set.empty() ? "SetEnv " : " "} + "\"" + name + "=" + value + "\"";
    write(path("sshd_config"), "Port " + std::to_string(port_) + "\nListenAddress 127.0.0.1\nHostKey " + path("host_key") + "\nAuthorizedKeysFile " +
                                 path("authorized_keys") +
                                 "\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                                 "PermitRootLogin prohibit-password\n" +
                                 set + "\n");
    if (auto valid = run({sshd_path, "-t", "-f", path("sshd_config")}); valid.status != 0) {
      missing_ = "sshd does not run here: " + valid.err;
      return;
    }
    daemon_.emplace(std::vector<std::string>{sshd_path, "-D", "-e", "-f", path("sshd_config")}, environment{}, dir_.text());
    if (!eventually([&] { return answers(); })) {
      missing_ = "sshd does not answer here: " + daemon_->so_far().err;
      return;
    }
    write(path("known_hosts"), "[127.0.0.1]:" + std::to_string(port_) + " " + file_text(path("host_key.pub")));
    use_key("user_key");
    // The real ssh with settings of the test's own instead of the user's.
    fs::create_directories(bin());
    write(client(), "#!/bin/sh\nexec " + std::string{ssh_path} + " -F " + path("ssh_config") + " \"$@\"\n", 0755);
  }

  /// Why there is none; empty = it runs.
  const std::string& missing() const { return missing_; }
  /// "user_key" is let in, "wrong_key" is not.
  void use_key(const std::string& key) const {
    write(path("ssh_config"),
          "Host *\n  IdentityFile " + path(key) + "\n  IdentitiesOnly yes\n  UserKnownHostsFile " + path("known_hosts") + "\n  BatchMode yes\n");
  }
  std::string url() const { return "ssh://" + user_name() + "@127.0.0.1:" + std::to_string(port_); }
  /// Where `ssh` is the one that leads there.
  std::string bin() const { return path("bin"); }
  std::string client() const { return bin() + "/ssh"; }
  static std::string user_name() {
    const auto* user = getpwuid(geteuid());
    return user ? user->pw_name : "root";
  }

private:
  static constexpr const char* sshd_path = "/usr/sbin/sshd";
  static constexpr const char* ssh_path = "/usr/bin/ssh";

  static void write(const std::string& file, const std::string& text, int mode = 0600) {
    std::ofstream{file} << text;
    fs::permissions(file, static_cast<fs::perms>(mode));
  }
  std::string path(const std::string& name) const { return (dir_.path() / name).string(); }
  run_result run(const std::vector<std::string>& argv) const {
    return child_process{argv, {{"PATH", "/usr/bin:/bin:/usr/sbin"}, {"HOME", dir_.text()}}, dir_.text()}.finish();
  }
  bool answers() const {
    unique_fd fd{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<std::uint16_t>(port_));
    return connect(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
  }

  temp_dir dir_;
  std::string missing_;
  int port_ = 0;
  std::optional<child_process> daemon_;
};

} // namespace swarm::testing
