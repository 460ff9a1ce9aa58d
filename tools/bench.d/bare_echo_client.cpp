// bare-echo-client SOCKET    one call and out: the reference for `swarmctl` as a whole process
#include <cstdlib>
#include <cstring>
#include <iostream>

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "echo.grpc.pb.h"

int main(int argc, char** argv) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (argc != 2 || std::strlen(argv[1]) >= sizeof address.sun_path) {
    std::cerr << "usage: bare-echo-client SOCKET\n";
    return 2;
  }
  std::strcpy(address.sun_path, argv[1]);
  auto fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    std::cerr << "bare-echo-client: nobody listens on " << argv[1] << "\n";
    return 1;
  }
  fcntl(fd, F_SETFL, O_NONBLOCK);
  auto stub = swarm::bench::Echo::NewStub(grpc::CreateInsecureChannelFromFd("echo", fd));
  grpc::ClientContext context;
  swarm::bench::Payload in, out;
  in.set_data(std::string(64, 'x'));
  auto status = stub->Say(&context, in, &out);
  // As swarmctl does: tearing gRPC down would cost more than the call.
  std::quick_exit(status.ok() && out.data() == in.data() ? 0 : 1);
}
