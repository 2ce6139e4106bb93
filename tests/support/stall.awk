# A stall file in short: what stood still; where each rank was; and a line for each thread that runs or that one of our
# own functions called (name, what it waits in, and its calls, the innermost first).
function value(line) { sub(/^[^:]*: /, "", line); sub(/,$/, "", line); gsub(/"/, "", line); return line }
function end_thread() {
  if (name != "" && (calls ~ /sl_|run\+|ucp_|MPI|starpu_/ || state == "R")) threads = threads substr("  " name " [" inside "]" calls, 1, 400) "\n"
  name = calls = inside = state = ""
}
function end_rank() { end_thread(); if (rank != "") printf "%s\n%s", rank, threads; rank = threads = "" }
/^  "message":/ { print value($0) }
/^      "rank":/ { end_rank(); rank = "rank " value($0) }
/^      "(pid|process|in|still_s|heard_s|what|note)":/ { key = $1; gsub(/[":]/, "", key); rank = rank ", " key " " value($0) }
/^          "name":/ { end_thread(); name = value($0) }
/^          "state":/ { state = value($0) }
/^          "in":/ { inside = value($0) }
/^            "/ { call = $0; gsub(/^ *"|",?$/, "", call); sub(/ \(lib[^)]*\)/, "", call); calls = calls " " call }
END { end_rank() }
