# A stall file in short: what stood still, where each rank was, and a line for each thread that runs or that one of our
# own functions called (name, what it waits in, and its calls, the innermost first).
function value(line) { sub(/^[^:]*: /, "", line); sub(/,$/, "", line); gsub(/"/, "", line); return line }
function end_thread() {
  if (name != "" && (calls ~ /sl_|run\+|ucp_|MPI|starpu_/ || state == "R")) print substr("  " name " [" inside "]" calls, 1, 400)
  name = calls = inside = state = ""
}
/^  "message":/ { print value($0) }
/^      "rank":/ { end_thread(); rank = "rank " value($0) }
/^      "(pid|in|still_s|heard_s|what)":/ { key = $1; gsub(/[":]/, "", key); rank = rank ", " key " " value($0) }
/^      "threads":/ { print rank }
/^          "name":/ { end_thread(); name = value($0) }
/^          "state":/ { state = value($0) }
/^          "in":/ { inside = value($0) }
/^            "/ { call = $0; gsub(/^ *"|",?$/, "", call); sub(/ \(lib[^)]*\)/, "", call); calls = calls " " call }
END { end_thread() }
