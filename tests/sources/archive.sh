#!/bin/sh
# make dist packs every file of the repository; a header that is missing from the lists of Makefile.am shows only
# there. The archive's name must be relative to the build folder.
cd "${top_srcdir:-$(dirname "$0")/../..}" || exit 99
build=${top_builddir:-.}
command -v git >/dev/null && git ls-files >/dev/null 2>&1 || { echo '1..0 # SKIP no git checkout'; exit 0; }
[ -e "$build/Makefile" ] || { echo '1..0 # SKIP no build here'; exit 0; }
echo 1..1
# The name must be relative to the build folder.
archive=$(mktemp -d "$build/archive.XXXXXX") || exit 99
trap 'chmod -R u+w "$archive"; rm -rf "$archive"' EXIT
if ! env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$build" -s distdir distdir="${archive##*/}/x" >"$archive/out" 2>&1; then
  echo 'not ok 1 - make distdir'
  tail "$archive/out" | sed 's/^/# /'
  exit
fi
git ls-files -c | while read -r file; do
  [ "$file" = .gitignore ] || [ -e "$archive/x/$file" ] || [ ! -e "$file" ] || echo "# $file"
done >"$archive/missing"
if [ -s "$archive/missing" ]; then echo 'not ok 1 - the archive holds every file of the repository'; cat "$archive/missing"
else echo 'ok 1 - the archive holds every file of the repository'; fi
