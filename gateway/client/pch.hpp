// Precompiled for the client of a node: gRPC, and the room's interfaces.
#include "actors/base/pch.hpp"

#include <grpcpp/grpcpp.h>

#include "gateway/client/client.hpp"
#include "swarm/v1/coordination.grpc.pb.h"
