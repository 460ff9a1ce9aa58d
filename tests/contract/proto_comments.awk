# Messages, enums, their values, services, calls and fields of .proto files without a comment: one line "file:line: name" each.
# A comment stands on a line of the statement itself or is the line directly above it; a ruler such as "// ---- tasks ----" is not one.
# *_UNSPECIFIED needs none. With -v all=1 every statement is printed, commented or not. Portable awk (mawk and gawk).

function kind_of(text) {
  if (text ~ /^(message|enum|service|oneof|extend)[ \t]/) return substr(text, 1, match(text, /[ \t]/) - 1)
  if (text ~ /^rpc[ \t]/) return "rpc"
  if (text ~ /^(syntax|package|import|option|reserved|extensions)[ \t="(]/) return "none"
  if (inside[depth] == "enum" && text ~ /^[A-Za-z_][A-Za-z0-9_]*[ \t]*=/) return "value"
  if (inside[depth] ~ /^(message|oneof|extend)$/ && text ~ /=[ \t]*[0-9]+[ \t]*(\[|$)/) return "field"
  return "none"
}

function name_of(kind, text, word, n) {
  if (kind == "value" || kind == "field") sub(/[ \t]*=.*/, "", text)
  else sub(/^[a-z]+[ \t]+/, "", text)
  if (kind == "rpc") sub(/[ \t]*\(.*/, "", text)
  n = split(text, word, /[ \t]+/)
  return word[n]
}

# The statement gathered so far is complete.
function judge(kind, name) {
  sub(/^[ \t]+/, "", statement)
  sub(/[ \t]+$/, "", statement)
  kind = kind_of(statement)
  name = name_of(kind, statement)
  if (kind ~ /^(message|enum|value|service|rpc|field)$/ && name !~ /_UNSPECIFIED$/ && (all || !has_comment))
    print FILENAME ":" first_line ": " name
  statement = ""
  return kind
}

FNR == 1 {
  depth = 0
  inside[0] = "file"
  statement = ""
  comment_above = 0
}

{
  text = $0
  gsub(/"([^"\\]|\\.)*"/, "\"\"", text)
  at = index(text, "//")
  comment = at > 0 ? substr(text, at + 2) : ""
  is_comment = comment ~ /[A-Za-z0-9]/ && comment !~ /^[ \t]*--/
  code = at > 0 ? substr(text, 1, at - 1) : text
  # What goes on from the line before has a second line for its comment.
  if (statement ~ /[^ \t]/ && is_comment) has_comment = 1
  for (i = 1; i <= length(code); i++) {
    c = substr(code, i, 1)
    if (statement !~ /[^ \t]/ && c !~ /[ \t]/) {
      first_line = FNR
      has_comment = is_comment || comment_above
    }
    if (c == "{") {
      kind = judge()
      inside[++depth] = kind
    } else if (c == "}") {
      statement = ""
      depth--
    } else if (c == ";") judge()
    else statement = statement c
  }
  if (statement ~ /[^ \t]/) statement = statement " "
  comment_above = is_comment && code !~ /[^ \t]/
}
