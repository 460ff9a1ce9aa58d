// Deaths are the subject here, not news: what actors log goes into a string while one of these lives.
#pragma once

#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

namespace swarm::test {

class quiet {
public:
  quiet() { spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_))); }
  ~quiet() { spdlog::set_default_logger(before_); }
  quiet(const quiet&) = delete;
  quiet& operator=(const quiet&) = delete;

  std::string text() const { return text_.str(); }

private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

} // namespace swarm::test
