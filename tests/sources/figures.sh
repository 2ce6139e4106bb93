#!/bin/sh
# tests/figures/figure.shlib judges the values of figures: a missing value must miss its target.
cd "${top_srcdir:-$(dirname "$0")/../..}" || exit 99
. tests/figures/figure.shlib
number=0
judged() { # wanted word, target, value
  number=$((number + 1)) missed=0
  line=$(figure name "$2" "$3")
  figure name "$2" "$3" >/dev/null
  case $1 in met) counted=0 ending=met ;; missed) counted=1 ending=MISSED ;; none) counted=0 ending="${3:-none} *" ;; esac
  # shellcheck disable=SC2254 # a pattern
  case $line in *$ending) [ $missed = $counted ] && echo "ok $number - '$3' for the target '$2': $1" && return ;; esac
  echo "not ok $number - '$3' for the target '$2': $1"
  echo "# $line (missed=$missed)"
}
judged met '<= 1.02' 1.02
judged missed '<= 1.02' 1.021
judged met '<= 2' 1e-3
judged missed '<= 2' ''
judged missed '<= 2' nan
judged missed '<= 2' none
judged missed '<= 2' '-inf'
judged met '>= 0.9' 1
judged missed '>= 0.9' .89
judged missed '>= 0.9' ''
judged met '< 1' 0.999
judged missed '< 1' 1
judged met '> 0' 5
judged missed '> 0' ''
judged met 0.97..1.03 1.03
judged missed 0.97..1.03 0.96
judged missed 0.97..1.03 ''
judged met yes yes
judged missed yes no
judged missed yes ''
judged met 200 200
judged missed 200 199
judged missed '' ''
judged none - 3.5
judged missed - ''
check() { # name, wanted, what came
  number=$((number + 1))
  if [ "$2" = "$3" ]; then echo "ok $number - $1"; else printf 'not ok %d - %s\n# wanted %s, got %s\n' $number "$1" "$2" "$3"; fi
}
check 'median of three' 2 "$(printf '10\n1\n2\n' | median)"
check 'median of two' 1.5 "$(printf '2\n1\n' | median)"
check 'median of nothing' '' "$(median </dev/null)"
check 'ratio' 0.500 "$(ratio 1 2)"
check 'ratio without its second number' '' "$(ratio 1 '')"
check 'ratio without its first number' '' "$(ratio '' 2)"
check 'ratio to 0' '' "$(ratio 1 0)"
echo "1..$number"
