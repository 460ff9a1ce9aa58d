# Turns the output of `--help` into the body of a manual page. heading: text of a .SS before it; part=options: only the table of options.
function escaped(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  sub(/^[.']/, "\\\\\\&&", text)
  return text
}
function said(text) { if (part != "options") print text }
function flush_entry() {
  if (name != "" && !(part != "options" && name ~ /--help/)) {
    print ".TP"
    print "\\fB" escaped(name) "\\fR"
    print explained == "" ? "\\&" : escaped(explained)
  }
  name = explained = ""
}
BEGIN {
  if (heading != "") print ".SS " escaped(heading)
  place = "about"
}
{ sub(/[ \t]+$/, "") }
/^Usage: / {
  usage = substr($0, 8)
  # By its name, wherever it was started from.
  sub(/^[^ ]*\//, "", usage)
  said(".PP"); said(".nf"); said("\\fB" escaped(usage) "\\fR"); said(".fi")
  place = "after"
  next
}
# The page has the global options once, from the help of swarmctl itself.
/^Global options:$/ { flush_entry(); place = "left out"; next }
/^[A-Z][a-z ]*:$/ && $0 != "Examples:" {
  flush_entry()
  place = part == "options" && $0 != "Options:" ? "left out" : "table"
  next
}
# A table without a heading.
part == "options" && place == "after" && /^  -/ { place = "table" }
/^Examples:$/ {
  flush_entry()
  said(".PP"); said("Examples:"); said(".PP"); said(".nf"); said(".RS 4")
  place = "examples"
  next
}
place == "about" && $0 != "" { said(escaped($0)); next }
place == "table" && /^  [^ ]/ {
  flush_entry()
  text = substr($0, 3)
  if (match(text, /  +/)) {
    name = substr(text, 1, RSTART - 1)
    explained = substr(text, RSTART + RLENGTH)
  } else
    name = text
  next
}
place == "table" && /^   / {
  sub(/^ +/, "")
  explained = explained (explained == "" ? "" : " ") $0
  next
}
place == "examples" && /^  / { said(escaped(substr($0, 3))); next }
place == "examples" && $0 != "" { said(".RE"); said(".fi"); said(".PP"); said(escaped($0)); place = "notes"; next }
place == "notes" && $0 != "" { said(escaped($0)) }
END {
  flush_entry()
  if (place == "examples") { said(".RE"); said(".fi") }
}
