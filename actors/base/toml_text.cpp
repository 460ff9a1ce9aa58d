#include "actors/base/toml_text.hpp"

#include <cctype>
#include <string_view>

#include "actors/base/text.hpp"

namespace swarm {

namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
constexpr std::size_t key_parts_max = 100;

class characters {
public:
  explicit characters(std::string& text) : text_(text) {}

  std::optional<toml_objection> check() {
    if (!is_utf8(text_))
      return toml_objection{0, "the file is no UTF-8 text"};
    if (starts(byte_order_mark)) {
      text_.replace(0, byte_order_mark.size(), byte_order_mark.size(), ' ');
      at_ = byte_order_mark.size();
    }
    while (at_ < text_.size())
      if (auto wrong = one())
        return wrong;
    return std::nullopt;
  }

private:
  enum class state { plain, comment, basic, literal, long_basic, long_literal };

  bool ascii() const { return static_cast<unsigned char>(text_[at_]) < 0x80; }
  bool starts(std::string_view what) const { return std::string_view{text_}.substr(at_, what.size()) == what; }
  toml_objection objection(std::string text) const { return {line_, std::move(text)}; }

  std::optional<toml_objection> one() {
    char c = text_[at_];
    if (c == '\n') {
      ++line_;
      if (state_ == state::comment || state_ == state::basic || state_ == state::literal)
        state_ = state::plain;
    }
    if (!ascii() && (state_ == state::plain || (state_ != state::comment && misplaced_)))
      return objection("only comments and texts in quotes may hold characters beyond ASCII");
    switch (state_) {
      case state::plain: return plain(c);
      case state::comment:
        if (!ascii())
          text_[at_] = '?';
        break;
      case state::basic: return escaped_or_end("\"", false);
      case state::long_basic: return escaped_or_end("\"\"\"", true);
      case state::literal: close("'"); return std::nullopt;
      case state::long_literal: close("'''"); return std::nullopt;
    }
    ++at_;
    return std::nullopt;
  }

  std::optional<toml_objection> plain(char c) {
    if (std::string_view{"\n=[]{},#"}.find(c) != std::string_view::npos)
      dots_ = 0;
    else if (c == '.' && ++dots_ >= key_parts_max)
      return objection("a key has more than " + std::to_string(key_parts_max) + " parts");
    if (c == '"' || c == '\'') {
      // Where none is expected it belongs to a word that is read to its end before it is refused.
      misplaced_ = std::string_view{in_value_ ? "=[," : "\n[{,."}.find(last_) == std::string_view::npos;
      open(c);
      last_ = c;
      return std::nullopt;
    }
    structure(c);
    if (c == '#')
      state_ = state::comment;
    else if (c == '\n' ? brackets_.empty() : !std::isspace(static_cast<unsigned char>(c)))
      last_ = c;
    ++at_;
    return std::nullopt;
  }

  /// Whether a key or a value comes next.
  void structure(char c) {
    switch (c) {
      case '=': in_value_ = true; break;
      case '[':
        if (in_value_)
          brackets_ += c;
        break;
      case '{':
        brackets_ += c;
        in_value_ = false;
        break;
      case ']':
      case '}':
        if (!brackets_.empty())
          brackets_.pop_back();
        in_value_ = true;
        break;
      case ',': in_value_ = brackets_.empty() || brackets_.back() == '['; break;
      case '\n': in_value_ = !brackets_.empty() && in_value_; break;
      default: break;
    }
  }

  void open(char c) {
    bool three = starts(c == '"' ? "\"\"\"" : "'''");
    state_ = c == '"' ? (three ? state::long_basic : state::basic) : (three ? state::long_literal : state::literal);
    at_ += three ? 3 : 1;
  }

  void close(std::string_view quotes) {
    if (!starts(quotes)) {
      ++at_;
      return;
    }
    at_ += quotes.size();
    // A long text may end in up to two quotes of its own.
    for (int more = 0; quotes.size() == 3 && more < 2 && at_ < text_.size() && text_[at_] == quotes.front(); ++more)
      ++at_;
    state_ = state::plain;
  }

  std::optional<toml_objection> escaped_or_end(std::string_view quotes, bool lines) {
    if (text_[at_] != '\\') {
      close(quotes);
      return std::nullopt;
    }
    ++at_;
    if (at_ < text_.size() && !ascii())
      return objection("behind \\ stands a character beyond ASCII");
    if (!lines || at_ == text_.size() || !std::isspace(static_cast<unsigned char>(text_[at_]))) {
      if (at_ < text_.size() && text_[at_] != '\n')
        ++at_;
      return std::nullopt;
    }
    // The end of the line does not count, nor does the white space that follows: the parser looks for more of it.
    for (; at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])); ++at_)
      line_ += text_[at_] == '\n';
    if (at_ < text_.size() && !ascii())
      return objection("a line after one that ends in \\ must begin with a character of ASCII");
    return std::nullopt;
  }

  std::string& text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t dots_ = 0;  // of the key, or number, that is being read
  std::string brackets_;  // open ones of values
  bool in_value_ = false; // not in a key
  bool misplaced_ = false;
  char last_ = '\n'; // that was no blank
  state state_ = state::plain;
};

} // namespace

std::optional<toml_objection> make_fit_for_toml(std::string& text) { return characters{text}.check(); }

} // namespace swarm
