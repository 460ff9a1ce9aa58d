// What waits in abseil, and so all of gRPC, waits by the monotonic clock.
//
// abseil 20220623 ends its waits at a moment of the wall clock. When that is set back, deadlines, keep-alives and attempts to connect stand still for
// as long, for gRPC keeps all its timers behind such waits. Nothing of that can be chosen; but abseil asks the kernel through syscall(), and
// programs with gRPC are linked with --wrap=syscall (proto/CMakeLists.txt). A wait that begins in the instant in which the clock is set is the
// one that is still wrong.
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>

namespace {

constexpr long second_ns = 1'000'000'000;

/// The same moment on the monotonic clock; one that has passed is the clock's beginning.
timespec monotonic(const timespec& wall) {
  timespec now{}, ticks{};
  clock_gettime(CLOCK_REALTIME, &now);
  clock_gettime(CLOCK_MONOTONIC, &ticks);
  timespec at{wall.tv_sec - now.tv_sec + ticks.tv_sec, wall.tv_nsec - now.tv_nsec + ticks.tv_nsec};
  for (; at.tv_nsec < 0; --at.tv_sec)
    at.tv_nsec += second_ns;
  for (; at.tv_nsec >= second_ns; ++at.tv_sec)
    at.tv_nsec -= second_ns;
  return at.tv_sec < 0 ? timespec{} : at;
}

} // namespace

// The names are the linker's. Arguments that a system call does not have are passed on as they are, which is what syscall() does.
extern "C" {

long __real_syscall(long number, ...); // NOLINT

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) { // NOLINT
  if (number != SYS_futex || (b & FUTEX_CMD_MASK) != FUTEX_WAIT_BITSET || (b & FUTEX_CLOCK_REALTIME) == 0 || d == 0)
    return __real_syscall(number, a, b, c, d, e, f);
  auto until = monotonic(*reinterpret_cast<const timespec*>(d)); // NOLINT(performance-no-int-to-ptr): the kernel takes an address as a number
  return __real_syscall(number, a, b & ~long{FUTEX_CLOCK_REALTIME}, c, &until, e, f);
}
}
