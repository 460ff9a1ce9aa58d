// Orders between threads that the thread sanitizer cannot see, because a library it does not instrument makes them (gRPC: the end of a
// call comes after everything else of the call).
#pragma once

// GCC says it by a macro, clang by a feature.
#if defined(__SANITIZE_THREAD__)
#define SWARM_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SWARM_THREAD_SANITIZER 1
#endif
#endif

#ifdef SWARM_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace swarm {

/// What this thread has done so far comes before whatever follows comes_after() of the same object.
inline void comes_before([[maybe_unused]] void* object) noexcept {
#ifdef SWARM_THREAD_SANITIZER
  __tsan_release(object);
#endif
}

inline void comes_after([[maybe_unused]] void* object) noexcept {
#ifdef SWARM_THREAD_SANITIZER
  __tsan_acquire(object);
#endif
}

} // namespace swarm
