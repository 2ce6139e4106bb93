#!/bin/sh
# Lines have at most 120 characters in C and in comments of scripts, and 100 in the prose of pages. Tables, headings and
# code blocks of pages may be longer, and so may a line of one word, such as an address.
cd "${top_srcdir:-$(dirname "$0")/../..}" || exit 99
echo 1..4
number=0
report() { # NAME, file with the offences
  number=$((number + 1))
  if [ -s "$2" ]; then echo "not ok $number - $1"; sed 's/^/# /' "$2"; else echo "ok $number - $1"; fi
}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
folders='runtime tasks codelets models tools tests examples'

# Characters, not bytes: the bytes that continue a character of UTF-8 are left out.
long() { # awk program that prints FNR; names of files on standard input
  while read -r file; do LC_ALL=C tr -d '\200-\277' <"$file" | awk "$1" | sed "s,^,$file:,"; done
}
# shellcheck disable=SC2086
long_code() { # not what the build makes
  find $folders -type f ! -name lists.h ! -name data_kinds.h ! -name networks.h ! -name formats.h ! -name case_files.h \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \) 2>/dev/null |
    sort | long 'length > 120 { print FNR }'
}
# shellcheck disable=SC2086
long_comments() {
  { ls quickstart configure.ac Makefile.am .ci/* 2>/dev/null
    find $folders docs -type f \( -name '*.sh' -o -name '*.shlib' -o -name '*.py' -o -name Makefile -o -name '*.yaml' -o -name run-program -o -name build-starpu -o -name faults \) 2>/dev/null
  } | sort | long '/^[ \t]*# / && length > 120 { print FNR }'
}
long_prose() {
  { ls ./*.md; find docs examples -name '*.md'; } 2>/dev/null | sed 's,^\./,,' | sort |
    long '/^ *```/ { code = !code } !code && length > 100 && !/^ *[|#]/ && /[^ ] +[^ ]+ / { print FNR }'
}

long_code >"$work/found"
report 'lines of C' "$work/found"
long_comments >"$work/found"
report 'comments of scripts' "$work/found"
long_prose >"$work/found"
report 'prose of pages' "$work/found"

# ---- planted faults --------------------------------------------------------------------------------------------------
mkdir -p "$work/copy/tasks" "$work/copy/docs"
cd "$work/copy" || exit 99
code=tasks/a page=docs/a
words() { awk -v n="$1" 'BEGIN { for (i = 0; i < n / 2; i++) printf "a " }'; } # n characters
{ words 120; echo; words 118; echo 'éé'; words 120; echo b; } >$code.c
{ echo "# $(words 116)bc"; echo "# $(words 118)b"; words 130; echo; } >$page.sh
{ echo "| $(words 110)|"; echo "# $(words 110)"; words 100; echo; words 100; echo b; echo '```'; words 110; echo; echo '```'; echo "  $(words 98)b"; } >$page.md
{ long_code; long_comments; long_prose; } >"$work/all"
printf '%s\n' $code.c:3 $page.sh:2 $page.md:4 $page.md:8 | diff - "$work/all" >"$work/found"
report 'planted faults are found, and nothing else' "$work/found"
