// Precompiled: nothing of ours.
#include "actors/domain/pch.hpp"

#include <CLI/CLI.hpp>
#include <grpcpp/grpcpp.h>
