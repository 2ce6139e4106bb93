# Reads tests/figures/mutants/*.list, whose form tests/figures/mutants.sh describes, in the sources' top folder. Prints
# a line for each entry that is wrong: its text is not in its file, or there more than once, or stays as it is; its test
# is missing.
# With to=DIR, the right entries whose "file: what" matches wanted get a folder each, DIR/001 on: file, test, what, at (the
# list's name and line), and the mutated file.
function wrong(why) { print at ": " file ": " what ": " why; bad = 1 }
function readable(name,  line, answer) { answer = (getline line <name) >= 0; close(name); return answer }
function slurp(name,  text, line) {
  while ((getline line <name) > 0) text = text line "\n"
  close(name)
  return text
}
function put(name, text) { printf "%s", text >(folder "/" name); close(folder "/" name) }
function finish(  program, text, place) { # the entry that has been read
  if (what == "") return
  program = test; sub(/ .*/, "", program)
  if (program !~ /\.sh$/) program = program ".c"
  text = slurp(file); place = index(text, old)
  if (text == "") wrong("no such file")
  else if (old == "" || !place) wrong("its text is not there")
  else if (index(substr(text, place + 1), old)) wrong("its text is there more than once")
  else if (old == new) wrong("changes nothing")
  else if (!readable(program)) wrong("there is no " program)
  else if (to != "" && (file ": " what) ~ wanted) {
    folder = sprintf("%s/%03d", to, ++n); system("mkdir " folder)
    put("file", file); put("test", test); put("what", what); put("at", at)
    put("mutated", substr(text, 1, place - 1) new substr(text, place + length(old)))
  }
  what = ""
}
FNR == 1 { finish(); file = test = "" }
/^file / { finish(); file = substr($0, 6); next }
/^test / { finish(); test = substr($0, 6); next }
/^mutant / { finish(); what = substr($0, 8); at = FILENAME ":" FNR; old = new = ""; next }
/^- / { old = old (old == "" ? "" : "\n") substr($0, 3); next }
/^\+/ { new = new (new == "" ? "" : "\n") substr($0, 3); next }
/^#/ || /^$/ { next }
{ print FILENAME ":" FNR ": not understood: " $0; bad = 1 }
END { finish(); exit bad }
