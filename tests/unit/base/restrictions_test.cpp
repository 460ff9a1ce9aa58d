#include "actors/base/restrictions.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

using namespace swarm;

TEST_CASE("what restricts a process is read from the kernel's own words") {
  const auto r = parse_restrictions("Name:\tNoNewPrivs:\nUid:\t1\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n",
                                    "0::/user.slice/user-1000.slice/user@1000.service/app.slice/swarmd.service\n");
  CHECK(r.no_new_privileges);
  CHECK(r.seccomp == 2);
  CHECK(r.unit == "swarmd.service");
  CHECK(parse_restrictions("Name:\tx\n", "") == restrictions{});
  CHECK(parse_restrictions("", "12:pids:/a.service\n1:name=systemd:/system.slice/b.service/sub\n").unit == "b.service");
}

TEST_CASE("the scope of a terminal is no service, so that two terminals are alike") {
  for (const auto* path : {"0::/\n", "0::/user.slice/user-1000.slice/session-3.scope\n",
                           "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.gnome.Terminal.slice/vte-spawn-x.scope\n",
                           "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-konsole@ab.service\n"})
    CHECK(parse_restrictions("", path).unit.empty());
}

TEST_CASE("what differs is named, the other's first") {
  const restrictions free{}, held{.no_new_privileges = true, .seccomp = 2, .unit = "swarmd.service"};
  CHECK(difference_of(held, held).empty());
  CHECK(difference_of(free, held) == "NoNewPrivs 0, here 1; Seccomp 0, here 2; unit none, here swarmd.service");
}

TEST_CASE("this process can be seen, and one that is gone cannot") {
  CHECK(restrictions_of(getpid()));
  CHECK_FALSE(restrictions_of(0x7ffffff0));
}
