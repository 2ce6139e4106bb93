#!/bin/sh
# Includes point one way, tools, examples -> models -> codelets -> tasks -> runtime, and names say who may use them: sl_ for all,
# sl__ within a folder. The layering is what lets a reader (and a later backend) take the lower folders alone, so a test holds it.
cd "${top_srcdir:-$(dirname "$0")/..}" || exit 99
echo 1..6
number=0
report() { # NAME, file with the offences
  number=$((number + 1))
  if [ -s "$2" ]; then echo "not ok $number - $1"; sed 's/^/# /' "$2"; else echo "ok $number - $1"; fi
}
found=$(mktemp) || exit 99
trap 'rm -f "$found"' EXIT

# Folder, a colon, the folders that it may include from.
for rule in 'runtime:runtime' 'tasks:tasks|runtime' 'codelets:codelets|tasks|runtime' 'models:models|codelets|tasks|runtime'; do
  from=${rule%%:*} allowed=${rule#*:}
  grep -rnE '^ *# *include *"' "$from" --include='*.[ch]' --include='*.cu' --include='*.cuh' 2>/dev/null |
    grep -vE "\"(($allowed)/|config\.h\"|commit\.h\")"
done >"$found"
report 'each folder includes only from those below it, by path from the root' "$found"

grep -rnE '^ *# *include *"(examples|tests)/' tools examples --include='*.[ch]' >"$found"
grep -rnE '^ *# *include *"tools/' examples --include='*.[ch]' >>"$found"
report 'tools and examples include from neither examples nor tests' "$found"

# What is installed stands alone: it leans neither on config.h nor on headers that stay behind.
installed=$(awk '/^(RUNTIME|TASKS|CODELETS|MODELS)_H =/ { on = 1 } on { for (i = 1; i <= NF; i++) if ($i ~ /\.h$/) print $i; on = /\\$/ }' Makefile.am)
for header in $installed; do grep -HnE '# *include *[<"](config|commit)\.h' "$header"; done >"$found"
report 'no installed header includes config.h' "$found"
for header in $installed; do
  for wanted in $(sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$header"); do
    echo "$installed" | grep -qxF "$wanted" || echo "$header includes $wanted"
  done
done >"$found"
report 'installed headers include only installed ones' "$found"

# Names shared within one folder stay there.
for folder in runtime tasks codelets models; do
  names=$(grep -rhoE '\bsl__[a-z0-9_]+' $folder/*.h 2>/dev/null | sort -u)
  for name in $names; do
    for other in runtime tasks codelets models tools examples; do
      [ $other = $folder ] || grep -rnwF "$name" $other --include='*.[ch]' --include='*.cu' 2>/dev/null
    done
  done
done >"$found"
report 'sl__ names stay within the folder whose header declares them' "$found"

library=${top_builddir:-.}/libstarling.a
if [ -e "$library" ] && command -v nm >/dev/null; then
  # CUDA's own stubs and the compilers' helpers (leading underscore or dot) are not names of ours.
  nm -A -g --defined-only "$library" 2>/dev/null | awk '$NF !~ /^(sl_|_|\.|DW\.ref\.)/ && $(NF-1) ~ /[TDBRC]/ { print $1, $NF }' >"$found"
  report 'every public symbol of the library begins with sl_' "$found"
else
  number=$((number + 1))
  echo "ok $number # SKIP no libstarling.a here, or no nm"
fi
