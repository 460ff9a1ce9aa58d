// Precompiled for mcp: JSON, the messages, and what tools are made of.
#include "actors/base/pch.hpp"

#include <nlohmann/json.hpp>

#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/member.hpp"
#include "gateway/mcp/tool.hpp"
#include "gateway/mcp/tool_schemas.hpp"
