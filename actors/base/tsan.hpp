// Orders between threads that the thread sanitizer cannot see, because a library it does not instrument makes them (gRPC: the end of a
// call comes after everything else of the call).
#pragma once

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace swarm {

/// What this thread has done so far comes before whatever follows comes_after() of the same object.
inline void comes_before([[maybe_unused]] void* object) noexcept {
#ifdef __SANITIZE_THREAD__
  __tsan_release(object);
#endif
}

inline void comes_after([[maybe_unused]] void* object) noexcept {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(object);
#endif
}

} // namespace swarm
