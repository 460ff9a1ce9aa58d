#include "actors/fabric/entity.hpp"

#include "actors/domain/rows.hpp"

namespace swarm {

std::string wait_key(const v1::Principal& principal, const v1::RequestId& id) {
  return domain::key(domain::principal_key(principal), id.client(), id.seq());
}

} // namespace swarm
