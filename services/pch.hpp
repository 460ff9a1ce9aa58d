// Precompiled: CAF and gRPC, nothing of ours.
#include "actors/runtime/pch.hpp"

#include <grpcpp/grpcpp.h>
