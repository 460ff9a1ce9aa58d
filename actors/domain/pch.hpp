// Precompiled: the standard library and protobuf, nothing of ours.
#include "actors/base/pch.hpp"

#include <google/protobuf/message.h>
#include <nlohmann/json.hpp>
