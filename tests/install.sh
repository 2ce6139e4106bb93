#!/bin/sh
# make install leaves a complete installation: a program that uses only starling.pc compiles with every installed
# header, as C and as C++, links and runs; all pages are there.
build=${top_builddir:-.}
[ -e "$build/starling.pc" ] || { echo '1..0 # SKIP no build here'; exit 0; }
command -v pkg-config >/dev/null || { echo '1..0 # SKIP no pkg-config'; exit 0; }
echo 1..7
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
number=0
check() { # name, command...
  name=$1
  number=$((number + 1))
  shift
  if "$@" >"$work/out" 2>&1; then echo "ok $number - $name"; else
    echo "not ok $number - $name"
    tail -n 20 "$work/out" | sed 's/^/# /'
  fi
}
made_of() { sed -n "s/^$1 = //p" "$build/Makefile"; }
pc() { PKG_CONFIG_PATH=$work/lib/pkgconfig:${PKG_CONFIG_PATH-} pkg-config --define-variable=prefix="$work" "$@" starling; }

# shellcheck disable=SC2317 # reached by name
install() { env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$build" install prefix="$work"; }
check 'make install' install
flags="$(made_of CFLAGS) $(made_of SANITIZE_CFLAGS)"
(cd "$work/include/starling" && find . -name '*.h' | sort | sed 's,^\./\(.*\),#include "\1",') >"$work/a.c"
cat >>"$work/a.c" <<'EOF'
#include <stdio.h>
int main(void) {
  sl_shape shape = {2, {64, 784}};
  char text[SL_SHAPE_TEXT];
  return puts(sl_shape_text(&shape, text, sizeof text)) < 0;
}
EOF
# shellcheck disable=SC2046,SC2086 # words
compile() { $(made_of CC) -std=gnu11 $flags "$work/a.c" -o "$work/a" $(pc --cflags --libs); }
check 'a program with every installed header compiles and links' compile
check 'the program runs' "$work/a"
sed 's/{2, {64, 784}}/{}/' "$work/a.c" >"$work/a.cc"
if command -v c++ >/dev/null; then
  # shellcheck disable=SC2046 # words
  cxx() { c++ -std=c++17 -fsyntax-only "$work/a.cc" $(pc --cflags); }
  check 'the headers compile as C++ too' cxx
else
  number=$((number + 1))
  echo "ok $number # SKIP no C++ compiler"
fi
check 'the command is installed' test -x "$work/bin/starling"
pages() { (cd "$1" && find . -path ./lessons/solutions -prune -o \( -name '*.md' -o -name '*.svg' \) -print | sort); }
pages "${top_srcdir:-$(dirname "$0")/..}/docs" >"$work/wanted"
pages "$(pc --variable=lessons)/.." >"$work/got"
check 'all pages are installed, with their pictures' cmp "$work/wanted" "$work/got"

sed -i "s,^prefix=.*,prefix=$work," "$work/lib/pkgconfig/starling.pc"
# shellcheck disable=SC2317 # reached by name
lesson() {
  PKG_CONFIG_PATH=$work/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
  export PKG_CONFIG_PATH
  examples=$(pkg-config --variable=examples starling) &&
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$examples/03-graph" CC="$(made_of CC)" CFLAGS="$flags" && test -x "$examples/03-graph/graph"
}
check 'an installed lesson builds' lesson
