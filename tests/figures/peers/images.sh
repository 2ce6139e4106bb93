#!/bin/sh
# Figure: images imported by Starling beside the same images made by PIL, as torchvision does it: every pixel is within
# one level. Needs a Python with PIL and numpy (PYTHON), and a folder of classes of images; without one, images of many
# kinds are made.
starling=${STARLING:-$PWD/starling} python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
"$python" -c 'import PIL, numpy' 2>/dev/null || { echo "1..0 # SKIP $python has no PIL and numpy"; exit 77; }
[ -x "$starling" ] || { echo "1..0 # SKIP no $starling"; exit 77; }
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
from=${1:-$work/made}
[ -n "$1" ] || "$python" "$here/images_compare.py" make "$from" || exit 1
for what in '64 56 RGB' '40 33 L' '224 224 RGB'; do
  set -- $what
  rm -rf "$work/out"
  # shellcheck disable=SC2046
  "$starling" import images "$from" --out "$work/out" --resize "$1" --crop "$2" $([ "$3" = L ] && echo --grey) --quiet &&
    "$python" "$here/images_compare.py" compare "$from" "$work/out" "$1" "$2" "$3" || exit 1
done
