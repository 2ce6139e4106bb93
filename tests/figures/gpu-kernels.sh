#!/bin/bash
# Figure: nvcc's code of the CUDA kernels, for sm_80 and sm_90. For each source: number of kernels, most registers of
# one, spilled bytes, and numbers of loads from memory and shared memory with 128, 64, 32 and fewer bits. Only attention
# and linear may spill (docs/performance.md says why). Needs nvcc, cuobjdump and a build folder (BUILD), no GPU. NVCC,
# CUOBJDUMP: the programs (a toolkit without the latter: pip has nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm);
# ARCHES: other architectures; KERNELS: a pattern of sources, whose kernels are then listed.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
dump=${CUOBJDUMP:-$(command -v cuobjdump || echo /usr/local/cuda/bin/cuobjdump)}
for program in "$nvcc" "$dump"; do [ -x "$program" ] || { echo "SKIP: no $program"; exit 77; }; done
PATH=$(dirname "$dump"):$PATH # its disassembler lies beside it
work=$(mktemp -d "${TMPDIR:-/tmp}/kernels.XXXXXX")
trap 'rm -rf "$work"' EXIT
missed=0 sources=0
# Prints a line for each kernel: its name, its loads from memory by width, its loads from shared memory by width. The
# last line has "=", the number of kernels, the most registers of one, and the spilled bytes.
kernels() { # cubin, ptxas's words
  { cat "$2"; "$dump" -sass "$1" | c++filt; } | sed 's/(anonymous namespace):://g' | awk '
    function width(line, name) {
      match(line, / LD[GS][.A-Z0-9]*/)
      name = substr(line, RSTART, RLENGTH)
      return name ~ /\.128/ ? 1 : name ~ /\.64/ ? 2 : name ~ /\.[US](8|16)/ ? 4 : 3
    }
    function widths(loads, k) { return sprintf("%d %d %d %d", loads[k, 1], loads[k, 2], loads[k, 3], loads[k, 4]) }
    /bytes spill loads/ {
      n++
      for (i = 1; i + 2 < NF; i++) if ($(i + 1) == "bytes" && $(i + 2) == "spill" && $(i + 3) ~ /stores/) total += $i
    }
    /Used [0-9]+ registers/ { for (i = 1; i < NF; i++) if ($i == "Used" && $(i + 1) > most) most = $(i + 1) }
    /Function :/ { sub(/.*Function : /, ""); sub(/\(.*/, ""); name = $0; names[++m] = name }
    / LDG/ { g[m, width($0)]++ } / LDS/ { s[m, width($0)]++ }
    END {
      for (k = 1; k <= m; k++) printf "%s\t%s\t%s\n", names[k], widths(g, k), widths(s, k)
      printf "=%d\t%d\t%d\n", n, most, total
    }'
}
for arch in ${ARCHES:-sm_80 sm_90}; do
  echo "== $arch"
  printf '%-18s %7s %9s %7s   %-24s %s\n' source kernels registers spilled 'loads: 128 64 32 less' 'shared: 128 64 32 less'
  for source in "$top"/codelets/*/*_cuda.cu; do
    name=$(basename "$source" _cuda.cu)
    # shellcheck disable=SC2053 # a pattern
    [[ $name == ${KERNELS:-*} ]] || continue
    "$nvcc" -arch="$arch" -std=c++17 -fmad=false -O3 -Xptxas -v -cubin -I "$top" -I "${BUILD:-$top/build}" \
      -o "$work/cubin" "$source" 2>"$work/said" || { tail -n 5 "$work/said"; exit 1; }
    kernels "$work/cubin" "$work/said" >"$work/table"
    IFS=$'\t' read -r n registers spilled < <(sed -n 's/^=//p' "$work/table")
    sums=$(awk -F '\t' '
      !/^=/ { split($2, a, " "); split($3, b, " "); for (w = 1; w <= 4; w++) { g[w] += a[w]; s[w] += b[w] } }
      END { printf "%6d %4d %4d %4d      %6d %4d %4d %4d", g[1], g[2], g[3], g[4], s[1], s[2], s[3], s[4] }
      ' "$work/table")
    said='' sources=$((sources + 1))
    if [ "$n" = 0 ] && grep -q cudaMemcpy "$source" && ! grep -qE '__global__|<<<|_kernel|sl_cuda_(map|rows)' "$source"; then
      said=' only copies'
    elif [ "$n" = 0 ]; then
      said=' MISSED: no kernel' missed=1
    fi
    [ "$spilled" = 0 ] || [ "$name" = attention ] || [ "$name" = linear ] || { said=' MISSED: spills'; missed=1; }
    printf '%-18s %7d %9d %7d   %s%s\n' "$name" "$n" "$registers" "$spilled" "$sums" "$said"
    [ -z "${KERNELS:-}" ] || awk -F '\t' '!/^=/ { printf "  %s: %s | %s\n", $1, $2, $3 }' "$work/table"
  done
done
[ $sources -gt 0 ] || { echo "no source has a name like ${KERNELS-}"; exit 1; }
exit $missed
