#!/bin/bash
# profile_mpi.sh - parallel jobs under mpirun, in C and in Fortran: results as without the library,
# one profile a rank that says which, exact figures in each, and the rank that stands out.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
need mpirun openmpi-bin mpicc libopenmpi-dev mpifort libopenmpi-dev gfortran gfortran

mpicc -std=gnu17 -g -O1 "$test_source/mpi_stencil.c" -o "$work/mpi_stencil" || fail "mpicc does not build mpi_stencil.c"
mpifort -g -O1 "$test_source/mpi_gather.f90" -o "$work/mpi_gather" || fail "mpifort does not build mpi_gather.f90"

ranks=4
job() { # OUTPUT [-x NAME=VALUE...] PROGRAM [ARGUMENT...]
    local output=$1
    shift
    (cd "$work" && timeout 100 mpirun --allow-run-as-root --oversubscribe --mca btl self,vader -np "$ranks" "$@" \
        >"$output" 2>"$output.err") || fail "mpirun $* ends with status $?: $(head -n 3 "$output.err")"
}
profiled() { # NAME PROGRAM [ARGUMENT...]
    local name=$1
    shift
    mkdir "$work/$name"
    job "$work/$name.out" -x LD_PRELOAD="$lib" -x NUMALLOC_PROFILE=sites -x NUMALLOC_PROFILE_FILE="$work/$name/%p.nprof" "$@"
    [ "$(find "$work/$name" -name '*.nprof' | wc -l)" = "$ranks" ] || fail "$name: not one profile a rank: $(ls "$work/$name")"
    /usr/bin/python3 "$test_source/control_ranks.py" "$dump" "$name" "$ranks" "$work/$name"/*.nprof ||
        fail "$name: the profiles are not as the program was"
}

job "$work/stencil.plain" ./mpi_stencil 256 100
profiled stencil ./mpi_stencil 256 100
cmp "$work/stencil.plain" "$work/stencil.out" || fail "the stencil's result differs under a profile"
say "stencil in C: $ranks ranks, $(cat "$work/stencil.out"), a profile each, halo and grid exact"

job "$work/gather.plain" ./mpi_gather 250000
profiled gather ./mpi_gather 250000
cmp "$work/gather.plain" "$work/gather.out" || fail "the gathering program's result differs under a profile"
say "gather in Fortran: $(cat "$work/gather.out"); the high-water mark of rank 0 stands out"

mkdir "$work/some"
job "$work/some.out" -x LD_PRELOAD="$lib" -x NUMALLOC_PROFILE=sites -x NUMALLOC_PROFILE_RANKS=1,3 \
    -x NUMALLOC_PROFILE_FILE="$work/some/%p.nprof" ./mpi_stencil 64 5
[ "$(find "$work/some" -name '*.nprof' | wc -l)" = 2 ] || fail "NUMALLOC_PROFILE_RANKS=1,3 made $(ls "$work/some")"
say "NUMALLOC_PROFILE_RANKS=1,3: two profiles"
