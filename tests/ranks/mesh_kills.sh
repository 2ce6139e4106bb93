#!/bin/sh
# A run whose starts are on meshes, drawn from a printed seed, is killed again and again (kills.sh): each start finds a
# complete checkpoint of any other mesh, and the end has the bytes of one undisturbed rank.
KILLS=${KILLS:-3} KILLS_MESHES=${KILLS_MESHES:-random} KILLS_PRECISIONS=${KILLS_PRECISIONS:-bf16} KILLS_STEPS=${KILLS_STEPS:-60}
export KILLS KILLS_MESHES KILLS_PRECISIONS KILLS_STEPS
exec "$(dirname "$0")/kills.sh"
