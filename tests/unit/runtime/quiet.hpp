// Deaths are the subject here, not news: what actors log goes into a string while one of these lives.
#pragma once

#include <sstream>
#include <string>

#include "actors/base/log.hpp"

namespace swarm::test {

class quiet {
public:
  std::string text() const { return text_.str(); }

private:
  std::ostringstream text_;
  log::redirection redirection_{text_};
};

} // namespace swarm::test
