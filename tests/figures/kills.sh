#!/bin/sh
# 200 kills of a run (KILLS), on 1 rank or on the numbers of ranks in KILLS_RANKS in turn (such as "2 3 1"): every start after a kill
# finds a whole checkpoint, and the end has the bits of the undisturbed run.
export KILLS="${KILLS:-200}" KILLS_RANKS="${KILLS_RANKS:-1}"
out=$("$(dirname "$0")/../kills.sh")
echo "$out" | grep -v '^ok .*same'
! echo "$out" | grep -q '^not ok' && echo "$out" | grep -q '^1\.\.'
