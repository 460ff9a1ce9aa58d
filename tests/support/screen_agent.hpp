// An agent's program of ours: it draws an input line, takes pastes and Enter as the real ones do, and may ask its user in a dialog with Yes
// preselected.
#pragma once

#include <fstream>
#include <string>

#include <sys/stat.h>

namespace swarm::testing {

/// Writes the program to `file`. `work` is the shell script of a turn; the line typed is in $line, and typed.log has all of them. When the turn has
/// left a file `ask` in the directory, a dialog opens: the file `asking` says so, `answers.log` how it was answered, and `answered` is run then.
inline void write_screen_agent(const std::string& file, const std::string& work, const std::string& answered = "true") {
  std::ofstream{file} << R"PERL(#!/usr/bin/perl
use strict;
$| = 1;
my $work = <<'WORK';
)PERL" << work << R"PERL(
WORK
my $answered = <<'ANSWERED';
)PERL" << answered << R"PERL(
ANSWERED
system('stty', '-icanon', '-echo', '-icrnl', 'min', '1');
sub note { my ($file, $text) = @_; open(my $out, '>>', $file); print $out "$text\n"; close($out); }
my ($line, $asks) = ('', 0);
sub turn {
  note('typed.log', "typed: $line");
  print "typed: $line\n";
  $ENV{line} = $line;
  $line = '';
  system('bash', '-c', $work);
  return print "\e[32m>\e[0m " unless -e 'ask';
  unlink('ask');
  $asks = 1;
  print "\e[?25l\nMay I?\n\xe2\x9d\xaf 1. Yes\n  2. No\e[1A\r";
  note('asking', 'yes');
}
sub answer {
  my ($said) = @_;
  $asks = 0;
  note('answers.log', $said);
  unlink('asking');
  print "\e[?25h\e[2J\e[H> $line";
  system('bash', '-c', $answered);
}
print "\e[?2004hwelcome\r\n> ";
while (sysread(STDIN, my $data, 65536)) {
  $data =~ s/\e\[20[01]~//g;
  while ($data =~ /\G([^\r\n\e]+|[\r\n\e])/g) {
    my $piece = $1;
    if ($asks) {
      answer($piece eq "\e" ? 'no' : 'yes') if $piece =~ /[\r\n\e]/;
    } elsif ($piece =~ /[\r\n]/) {
      print "\n";
      turn();
    } else {
      $piece =~ s/[\x00-\x1f]//g;
      $line .= $piece;
      print $piece;
    }
  }
}
)PERL";
  chmod(file.c_str(), 0700);
}

} // namespace swarm::testing
