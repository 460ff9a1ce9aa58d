# Of the thread sanitizer's reports, those about accesses of ours: the innermost frame that is not the standard library's stands in this
# project's sources, for both accesses. gRPC is not instrumented, so that what it orders inside looks like races; those have frames of
# gRPC's headers there. Suppressions cannot say this: they match any frame, and every handler has frames of gRPC below it.
# What is not a data race is always shown.

function frame_is_ours(line) { return line ~ / (\.\.\/)*(\/[^ ]*\/)?(actors|services|gateway|cli|tests|tools)\/[^ ]*\.(cpp|hpp):[0-9]+/ }
function frame_is_neutral(line) { return line ~ /\/include\/(x86_64-linux-gnu\/)?c\+\+\/|<null>|#[0-9]+ operator (new|delete)/ }

function finish() {
  if (report != "" && (report !~ /WARNING: ThreadSanitizer: data race/ || (ours[1] && ours[2]))) printf "%s", report
  report = ""
}

/^WARNING: ThreadSanitizer/ { finish(); stack = 1; decided = 0; split("", ours) }
{ if ($0 ~ /^WARNING: ThreadSanitizer/ || report != "") report = report $0 "\n" }
/^$/ { ++stack; decided = 0 }
/^ +#[0-9]+ / && stack <= 2 && !decided && !frame_is_neutral($0) { decided = 1; ours[stack] = frame_is_ours($0) }
END { finish() }
