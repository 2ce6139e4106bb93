#!/bin/bash
# Figure: two ranks of one worker each, one of them with half a core, 12 leaves. The throughput with --balance auto
# over that of the even division, measured in turn, is at least 1.3, with the same bits. Half a core is a quota of
# the control group (v1 or v2); QUOTA: another quota, in per cent. The quota's period is 10 ms, shorter than any
# step here: a waiting worker uses up its quota too, so with a period as long as a step the whole job would stand
# still half of the time. If no group can be made, the rank is stopped half of the time. The machine must be
# otherwise idle, or the other rank is slowed down too. ROUNDS: number of measurements of each (default 3).
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling} mpiexec=${MPIEXEC:-mpiexec.mpich} rounds=${ROUNDS:-3} quota=${QUOTA:-50}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v "$mpiexec" >/dev/null || { echo "SKIP: no $mpiexec"; exit 77; }
[ "$(nproc)" -ge 2 ] || { echo 'SKIP: fewer than 2 cores'; exit 77; }
export STARPU_SILENT=1
work=$(mktemp -d) group=
trap '[ -z "$group" ] || rmdir "$group"; rm -rf "$work"' EXIT

for folder in /sys/fs/cgroup/cpu /sys/fs/cgroup; do
  mkdir "$folder/starling-balance.$$" 2>/dev/null || continue
  group=$folder/starling-balance.$$
  if [ -e "$group/cpu.max" ]; then echo "$((quota * 100)) 10000" >"$group/cpu.max"; else
    echo 10000 >"$group/cpu.cfs_period_us" && echo $((quota * 100)) >"$group/cpu.cfs_quota_us"
  fi 2>/dev/null && break
  rmdir "$group"
  group=
done
if [ -n "$group" ]; then
  echo "$quota% of a core: a quota of $group"
  cat >"$work/half" <<END
#!/bin/sh
echo \$\$ >$group/cgroup.procs
exec "\$@"
END
else
  echo 'half a core: stopped half of the time, since no control group with a quota can be made'
  cat >"$work/half" <<'END'
#!/bin/sh
"$@" &
child=$!
while kill -STOP $child 2>/dev/null; do
  sleep 0.05
  kill -CONT $child 2>/dev/null
  sleep 0.05
done
wait $child
END
fi
chmod +x "$work/half"
both() { "$mpiexec" -n 1 "$starling" "$@" : -n 1 "$work/half" "$starling" "$@" 2>"$work/err"; }
speed() { grep -oE '"samples_per_s": *[0-9.]+' | grep -oE '[0-9.]+$'; }
compare() { # name, bench's arguments
  name=$1
  shift
  rm -f "$work/even" "$work/auto"
  for _ in $(seq "$rounds"); do
    for how in even auto; do
      both bench "$@" --leaves 12 --workers 1 --no-measure --json --balance $how >"$work/json" || { cat "$work/err"; exit 1; }
      speed <"$work/json" >>"$work/$how"
    done
    tr -d ' \n' <"$work/json" | grep -oE '"balance":\{[^}]*\}'
  done
  ratio=$(paste "$work/even" "$work/auto" | awk '{ print $2 / $1 }' | median)
  echo "$name: $(median <"$work/even") samples/s divided evenly, $(median <"$work/auto") by --balance auto"
  figure "$name: throughput, auto over even" '>= 1.3' "$ratio"
}
compare gpt2-nano gpt2-nano --batch 12 --length 128 --steps 20
compare lenet lenet --batch 384 --steps 60

find "$top/runtime" -name "*.c" -exec cat {} + >"$work/text.txt"
for how in even auto; do
  both train gpt2-nano --data "$work/text.txt" --batch 12 --length 64 --leaves 12 --workers 1 --steps 60 --val-fraction 0 --quiet --balance $how --out "$work/$how-run" ||
    { cat "$work/err"; exit 1; }
done
grep -A 2 '"leaves"' "$work/auto-run/environment.json" | tr -d '\n'
cmp "$work/even-run/model.safetensors" "$work/auto-run/model.safetensors" && same=1 || same=0
echo
figure 'gpt2-nano: bytes of 60 steps, auto and even' same "$([ $same = 1 ] && echo same || echo differ)"
exit $missed
