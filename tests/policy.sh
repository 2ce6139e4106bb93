#!/bin/sh
# --sched-lib: policies of a library are found by name, serve all commands, give the same bits and can be compared. If a
# policy never gives its tasks to a worker, the run ends with an error that names the policy. A file that is not such a
# library is refused.
. "$(dirname "$0")/support/command.shlib"
lesson=$top/examples/08-own-policy
# shellcheck disable=SC2046,SC2086 # words
library() { $(made_of CC) -std=gnu11 -shared -fPIC $(made_of CFLAGS) $(made_of DEPS_CFLAGS) "$1" -o "$2"; }
check 'a policy compiles' library "$lesson/policy.c" own.so
check 'a policy that keeps its tasks compiles' library "$lesson/skeleton/policy.c" stuck.so
echo 'int nothing;' >nothing.c
check 'a library without policies compiles' library nothing.c nothing.so

expect 'the first policy of the library is the default' 0 'policy own,' bench uneven --steps 3 --no-measure --sched-lib own.so
expect "by name one of StarPU's" 0 'policy lws,' bench uneven --steps 3 --no-measure --sched-lib ./own.so --sched lws
expect 'an unknown policy lists those of the library' 2 "unknown scheduling policy 'mine'; own.so and StarPU [0-9.]+ have own, " bench uneven --sched-lib own.so --sched mine
expect 'without --sched-lib the policy is unknown' 2 "unknown scheduling policy 'own'; StarPU " bench uneven --sched own
expect 'a missing library' 1 'cannot read the policy library elsewhere.so \(--sched-lib\)' bench uneven --sched-lib elsewhere.so
expect 'a file that is not a library' 1 'cannot load the policy library nothing.c' bench uneven --sched-lib nothing.c
expect 'a library without policies' 1 'nothing.so has no function starpu_get_sched_lib_policies' bench uneven --sched-lib nothing.so
expect 'info names the policy' 0 'own, ' info --json --no-measure --sched-lib own.so

make_set data 300 60 8 3
# shellcheck disable=SC2086
for policy in '--sched eager' '--sched-lib own.so' '--sched-lib own.so --no-priorities'; do
  run bench mlp --json --no-measure --steps 4 --batch 64 --shards 4 $policy
  grep -oE '"state_digest": *"[0-9a-f]+"' out >>digests
done
check 'the policy gives the bits of the others' test "$(wc -l <digests)" = 3 -a "$(sort -u digests | wc -l)" = 1
expect 'train with the policy' 0 '^test accuracy' train mlp --data data --batch 32 --epochs 1 --sched-lib own.so --out a --workers 1
check 'the configuration of the run names the library' grep -q 'sched-lib: own.so' a/config.yaml
expect '--resume alone loads no library' 2 'names a library to load \(sched-lib: own.so\), .* add --sched-lib own.so if you trust' train --resume --out a --epochs 2
expect 'nor does --config' 2 'names a library to load' train --config a/config.yaml --out d
expect 'with --sched-lib the run resumes' 0 '^test accuracy' train --resume --out a --epochs 2 --sched-lib own.so

expect 'a policy that keeps its tasks ends with an error' 1 \
  "scheduling policy 'own' has left [0-9]+ ready tasks lying for [1-6][0-9] s(, in which its threads have waited [0-9]+ s for a processor)?, the first of layer '[a-z]+' \([a-z]+\), and no worker has anything to do \(StarPU: it is the policy's" train mlp --data data --batch 32 --epochs 1 --sched-lib stuck.so --out b
if [ -x "$MPIEXEC" ]; then
  code=0
  "$MPIEXEC" -n 2 "$starling" train mlp --data data --batch 32 --epochs 1 --workers 1 --sched-lib stuck.so --out c >out 2>err || code=$?
  check 'on two ranks it ends the job' test $code != 0
  check 'the error names the policy' grep -q "scheduling policy 'own' has left" err
else for what in 'it ends the job' 'the error names the policy'; do skip "$what: no MPI launcher"; done; fi
finish
