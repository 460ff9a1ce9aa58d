# Turns the options in the output of `--help` into the entries of a manual page.
function escaped(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  sub(/^[.']/, "\\\\\\&&", text)
  return text
}
function flush_entry() {
  if (name != "" && name !~ /--help/) {
    print ".TP"
    print "\\fB" escaped(name) "\\fR"
    print explained == "" ? "\\&" : escaped(explained)
  }
  name = explained = ""
}
{ sub(/[ \t]+$/, "") }
/^Options:$/ { in_table = 1; next }
# swarm-keeper and swarm-driver have a table without a heading.
/^Usage: / { may_begin = 1; next }
may_begin && /^  -/ { in_table = 1 }
/^[^ ]/ { flush_entry(); in_table = 0; if (/:$/) may_begin = 0; next }
in_table && /^  [^ ]/ {
  flush_entry()
  text = substr($0, 3)
  if (match(text, /  +/)) {
    name = substr(text, 1, RSTART - 1)
    explained = substr(text, RSTART + RLENGTH)
  } else
    name = text
  next
}
in_table && /^   / {
  sub(/^ +/, "")
  explained = explained (explained == "" ? "" : " ") $0
}
END { flush_entry() }
