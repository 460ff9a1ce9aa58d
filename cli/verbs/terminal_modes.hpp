// What a program has changed of the terminal it was shown on, and how that is undone.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace swarm::cli {

/// Watches the bytes that go to a terminal. It knows the modes that outlast a program which is left while it runs: the other screen, mouse,
/// bracketed paste, focus, keypad, keyboard protocols, colours, cursor, scrolling region, character set. Sources: ECMA-48, xterm's ctlseqs, the kitty
/// keyboard protocol.
class terminal_modes {
public:
  void take(std::string_view bytes);
  /// What brings the terminal back to where it was before the bytes; empty when nothing is left to undo.
  std::string undo() const;

private:
  enum class state { ground, escape, charset, control, text, text_escape };
  void take(char c);
  void take_control(char final);
  void take_private(char final);
  void forget(bool keeps_screen);

  state state_ = state::ground;
  std::string parameters_;
  std::map<int, bool> private_modes_; // that are not as they are by default
  bool keypad_ = false;
  bool charset_ = false;
  bool colours_ = false;
  bool region_ = false;
  bool cursor_shape_ = false;
  bool other_keys_ = false;
  int keyboard_pushes_ = 0;
};

} // namespace swarm::cli
