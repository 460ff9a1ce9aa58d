#include "actors/base/log.hpp"

#include <vector>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "actors/base/limits.hpp"

namespace swarm::log {

namespace {

void write(spdlog::level::level_enum level, std::initializer_list<piece> line) {
  auto* logger = spdlog::default_logger_raw();
  if (logger && logger->should_log(level))
    logger->log(level, spdlog::string_view_t{concat(line)});
}

} // namespace

void debug(std::initializer_list<piece> line) { write(spdlog::level::debug, line); }
void info(std::initializer_list<piece> line) { write(spdlog::level::info, line); }
void warn(std::initializer_list<piece> line) { write(spdlog::level::warn, line); }
void error(std::initializer_list<piece> line) { write(spdlog::level::err, line); }
void critical(std::initializer_list<piece> line) { write(spdlog::level::critical, line); }

void open(const destination& to) {
  std::vector<spdlog::sink_ptr> sinks{
    std::make_shared<spdlog::sinks::rotating_file_sink_mt>(to.file, limits::node_log_bytes_max, limits::node_log_files_max)};
  if (to.to_stderr)
    sinks.push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto logger = std::make_shared<spdlog::logger>("swarmd", sinks.begin(), sinks.end());
  logger->set_level(to.verbose ? spdlog::level::debug : spdlog::level::info);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

void flush() {
  if (auto logger = spdlog::default_logger())
    logger->flush();
}

void close() { spdlog::shutdown(); }

struct redirection::earlier {
  std::shared_ptr<spdlog::logger> logger = spdlog::default_logger();
};

redirection::redirection(std::ostream& out) : earlier_(std::make_unique<earlier>()) {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("redirected", std::make_shared<spdlog::sinks::ostream_sink_mt>(out)));
}

redirection::~redirection() { spdlog::set_default_logger(earlier_->logger); }

} // namespace swarm::log
