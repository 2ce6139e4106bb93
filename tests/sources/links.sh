#!/bin/sh
# No link is dead: every target of a link in a page exists, anchors included. Every file and folder of this repository
# exists that a page names in `quotes` or code blocks, or that a comment of the sources names. Makefile.am installs all
# pages and pictures of docs. Finally, the test finds faults that it plants in a copy.
cd "${top_srcdir:-$(dirname "$0")/../..}" || exit 99
echo 1..6
number=0
report() { # NAME, file with the offences
  number=$((number + 1))
  if [ -s "$2" ]; then echo "not ok $number - $1"; sed 's/^/# /' "$2"; else echo "ok $number - $1"; fi
}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
folders='runtime|tasks|codelets|models|tools|tests|examples|docs|man'
endings='c|h|cu|cuh|def|sh|shlib|py|js|css|html|md|svg|list'

pages() { find README.md CONTRIBUTING.md SECURITY.md docs examples -name '*.md' 2>/dev/null | sort; }

# The anchor of each heading as GitHub makes it: lower case, letters, digits, - and _, blanks as -, a number for
# repeats.
anchors() { # page
  awk '/^ *```/ { code = !code } code || !/^#+ / { next }
    { sub(/^#+ +/, ""); gsub(/\]\([^)]*\)/, ""); $0 = tolower($0); gsub(/[^a-z0-9_ -]/, ""); gsub(/ /, "-")
      print $0 (seen[$0]++ ? "-" seen[$0] - 1 : "") }' "$1"
}

# Links of all pages, as "page:line target".
links() {
  pages | while read -r page; do
    awk -v page="$page" '/^ *```/ { code = !code } code { next }
      { gsub(/`[^`]*`/, ""); while (match($0, /\]\([^) ]+\)/)) { print page ":" FNR " " substr($0, RSTART + 2, RLENGTH - 3); $0 = substr($0, RSTART + RLENGTH) } }' "$page"
  done
}

dead_links() {
  links | while read -r place target; do
    page=${place%:*}
    case $target in *://*|mailto:*) continue ;; esac
    file=${target%%#*}
    if [ -z "$file" ]; then file=$page; else file=$(dirname "$page")/$file; fi
    if [ ! -e "$file" ]; then echo "$place: there is no $target"; continue; fi
    case $target in *#*) anchors "$file" | grep -qxF -e "${target#*#}" || echo "$place: $file has no heading for #${target#*#}" ;; esac
  done
}

# Whether a path is one of ours: a file, a folder, several by * or {a,b}, a test program, or what the build makes.
there() { # path
  if [ -e "$1" ] || [ -e "$1.c" ] || grep -q "[[:space:]]$1\>" Makefile.am; then return 0; fi
  case $1 in
    *\**) for one in $1; do [ -e "$one" ] && return 0; done ;;
    *\{*\}*)
      rest=${1#*\{}
      for one in $(echo "${rest%%\}*}" | tr , ' '); do [ -e "${1%%\{*}$one${rest#*\}}" ] || return 1; done
      return 0 ;;
  esac
  return 1
}

# Paths in quotes and code blocks, as "page:line path"; words in capitals stand for others.
paths() {
  pages | while read -r page; do
    awk -v page="$page" '/^ *```/ { code = !code; next }
      { text = ""; if (code) text = $0; else { n = split($0, part, "`"); for (i = 2; i <= n; i += 2) text = text " " part[i] }
        n = split(text, word, /[][ \t()"=;:|]+/); for (i = 1; i <= n; i++) print page ":" FNR, word[i] }' "$page"
  done | sed -nE "s#^([^ ]+) (\./|\.\./\.\./)?(build/)?(($folders)/[A-Za-z0-9_./*{},-]*)\$#\1 \4#p" | sed 's/[.,]*$//' |
    grep -vE ' .*(NAME|DIR|NN|\.log$)'
}

dead_paths() { paths | while read -r place path; do there "$path" || echo "$place: there is no $path"; done; }

# Bare names of sources in quotes, such as `program.c`: some folder has the file.
dead_names() {
  find . -path ./build -prune -o -type f -print 2>/dev/null | sed 's,.*/,,' | sort -u >"$work/files"
  grep -ohE '[a-z_]+\.h' Makefile.am >>"$work/files" # those that the build makes too
  pages | while read -r page; do
    awk -v page="$page" '/^ *```/ { code = !code } code { next }
      { n = split($0, part, "`"); for (i = 2; i <= n; i += 2) print page ":" FNR, part[i] }' "$page"
  done | grep -E '^[^ ]+ [a-z][a-z0-9_.-]*\.(c|h|cu|cuh|def|js|css|list)$' | grep -v ' starpu' | while read -r place name; do
    grep -qxF "$name" "$work/files" || echo "$place: no file is named $name"
  done
}

# Paths with a known ending that sources name anywhere but in an include.
dead_mentions() {
  find runtime tasks codelets models tools tests examples Makefile.am configure.ac quickstart .ci -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.sh' -o -name '*.def' -o -name '*.am' -o -name '*.ac' -o -name '*.shlib' -o -name quickstart -o -name run \) \
    -exec grep -HnE "(^|[^A-Za-z0-9_/.\$}\"-])($folders)/[A-Za-z0-9_/-]+\.($endings)" {} + 2>/dev/null | grep -vE '^[^:]+:[0-9]+: *# *include|^tests/sources/links.sh' |
    awk -v rule="($folders)/[A-Za-z0-9_/-]+[.]($endings)" '{ place = $0; sub(/:[^:]*$/, "", place); split($0, part, ":"); text = $0; sub(/^[^:]*:[^:]*:/, "", text)
      while (match(text, "(^|[^A-Za-z0-9_/.$}\"-])" rule)) { found = substr(text, RSTART, RLENGTH); after = substr(text, RSTART + RLENGTH, 1); sub(/^[^a-z]/, "", found)
        if (after !~ /[A-Za-z0-9_]/) print part[1] ":" part[2], found; text = substr(text, RSTART + RLENGTH) } }' |
    grep -vE ' .*(NAME|DIR|NN)' | while read -r place path; do there "$path" || echo "$place: there is no $path"; done
}

# Pages and pictures that Makefile.am doesn't name; a lesson's solutions stay out.
not_installed() {
  find docs -path docs/lessons/solutions -prune -o \( -name '*.md' -o -name '*.svg' \) -print | sort | while read -r file; do
    grep -qF "	$file" Makefile.am || echo "Makefile.am: it doesn't install $file"
  done
}

dead_links >"$work/found"
report 'what pages link to exists: files, folders and headings' "$work/found"
dead_paths >"$work/found"
report 'files and folders that pages name exist' "$work/found"
dead_names >"$work/found"
report 'names of sources that pages quote are those of files' "$work/found"
dead_mentions >"$work/found"
report 'files that sources mention exist' "$work/found"
not_installed >"$work/found"
report 'Makefile.am installs every page and picture' "$work/found"

# ---- planted faults --------------------------------------------------------------------------------------------------
copy=$work/copy
mkdir -p "$copy/docs/how-to" "$copy/tasks/graph"
touch "$copy/tasks/graph/plan.h" "$copy/docs/how-to/b.svg"
printf 'PAGES = \\\n\tdocs/a.md\n' >"$copy/Makefile.am"
cat >"$copy/README.md" <<'END'
# Title, `quoted` & odd
## Again
## Again
[good](docs/a.md), [good](docs/), [good](#title-quoted--odd), [good](docs/a.md#again-1), [web](https://example.org/none)
[dead](docs/none.md)
[dead](docs/a.md#nowhere), [dead](nowhere/)
`[no link](none.md)`, `tasks/graph/plan.h`, `tasks/{graph}`, `tasks/*/plan.h`, `tasks/NAME.c`, `plan.h`
`tasks/graph/gone.h`, `gone.c`
```sh
ls tasks/gone docs/a.md # and [no link](none.md)
# no heading
```
[dead](#no-heading)
END
printf '## Again\n## Again\n[up](../README.md#again-1) [dead](README.md)\n' >"$copy/docs/a.md"
printf '/* tasks/graph/plan.h, docs/b.md#x, tasks/graph/NAME.c, xtasks/none.c */\n#include "tasks/none.h"\n' >"$copy/tasks/graph/a.c"
cat >"$work/wanted" <<'END'
README.md:5: there is no docs/none.md
README.md:6: docs/a.md has no heading for #nowhere
README.md:6: there is no nowhere/
README.md:13: README.md has no heading for #no-heading
docs/a.md:3: there is no README.md
README.md:8: there is no tasks/graph/gone.h
README.md:10: there is no tasks/gone
README.md:8: no file is named gone.c
tasks/graph/a.c:1: there is no docs/b.md
Makefile.am: it doesn't install docs/how-to/b.svg
END
cd "$copy" || exit 99
{ dead_links; dead_paths; dead_names; dead_mentions; not_installed; } | sed 's, \./, ,' | diff "$work/wanted" - >"$work/found"
report 'planted faults are found, and nothing else' "$work/found"
