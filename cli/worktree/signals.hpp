// SIGINT, SIGTERM and SIGHUP between two steps that belong together.
#pragma once

namespace swarm::cli {

/// While it exists, SIGINT, SIGTERM and SIGHUP wait, whichever thread the kernel gives them to: nothing is left half done. The last one to go lets
/// the first signal that came do what it does otherwise, which is to end the process. On one thread only.
class signals_held {
public:
  signals_held();
  ~signals_held();
  signals_held(const signals_held&) = delete;
  signals_held& operator=(const signals_held&) = delete;

  /// A descriptor that is readable as soon as one has come; -1 when the system has none left.
  int arrival() const noexcept;
  /// Whether one has come. The caller answers for it, and it ends nothing any more.
  bool take() noexcept;
};

} // namespace swarm::cli
