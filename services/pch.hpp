// Precompiled for services: the actors' interfaces, gRPC, and the stubs of our services.
#include "actors/fabric/pch.hpp"

#include <grpcpp/grpcpp.h>

#include "services/api/coordination_service.hpp"
#include "swarm/v1/cluster.grpc.pb.h"
#include "swarm/v1/federation.grpc.pb.h"
#include "swarm/v1/node.grpc.pb.h"
#include "swarm/v1/pty.grpc.pb.h"
