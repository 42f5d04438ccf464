#!/bin/bash
# profile_mpi.sh - parallel jobs under mpirun, in C and (nightly) in Fortran: results as without the library,
# one profile a rank that says which, exact figures in each, and the rank that stands out.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
need mpirun openmpi-bin mpicc libopenmpi-dev

mpicc -std=gnu17 -g -O1 "$test_source/mpi_stencil.c" -o "$work/mpi_stencil" || fail "mpicc does not build mpi_stencil.c"

ranks=4
job() { # OUTPUT [-x NAME=VALUE...] PROGRAM [ARGUMENT...]
    local output=$1
    shift
    (cd "$work" && timeout 300 mpirun --allow-run-as-root --oversubscribe --mca btl self,vader -np "$ranks" "$@" \
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

if [ "$TEST_SCALE" = full ]; then
    need mpifort libopenmpi-dev gfortran gfortran
    mpifort -g -O1 "$test_source/mpi_gather.f90" -o "$work/mpi_gather" || fail "mpifort does not build mpi_gather.f90"
    job "$work/gather.plain" ./mpi_gather 250000
    profiled gather ./mpi_gather 250000
    cmp "$work/gather.plain" "$work/gather.out" || fail "the gathering program's result differs under a profile"
    say "gather in Fortran: $(cat "$work/gather.out"); the high-water mark of rank 0 stands out"
fi

# Ranks that a shell starts and that run other programs, with the launcher itself profiled: of many
# files, one a rank counts.
mpicc -std=gnu17 -g -O1 "$test_source/mpi_system.c" -o "$work/mpi_system" || fail "mpicc does not build mpi_system.c"
for name in first second; do
    mkdir "$work/$name"
    (
        export NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/$name/" LD_PRELOAD="$lib"
        job "$work/$name.out" -x LD_PRELOAD -x NUMALLOC_PROFILE -x NUMALLOC_PROFILE_FILE \
            sh -c "$work/mpi_system; true"
    )
done
/usr/bin/python3 - "$dump" "$work" <<'END' || fail "aggregate does not find the ranks of a job"
import glob, json, os, re, subprocess, sys
dump, work = sys.argv[1:]
def run(*arguments):
    done = subprocess.run([dump, "aggregate", *arguments], cwd=work, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr
def ranks(*where):
    status, out, err = run("--json", *where)
    return status, [(r["job"], r["rank"], r["peak_bytes"] >> 20) for r in json.loads(out)["rows"]], err
files = glob.glob(work + "/first/*")
assert len(files) > 4 * 5, files  # children and launchers, too
status, rows, err = ranks("first")
assert status == 0 and sorted(r[1] for r in rows) == [0, 1, 2, 3], (status, rows, err)
assert all(rank + 8 <= peak <= rank + 11 for job, rank, peak in rows), rows
assert "left out: %d files" % (len(files) - 4) in err and "child of a rank" in err and "launcher" in err, err
status, out, err = run("first")
assert status == 0 and ", 4 of 4 ranks\n" in out and "Left out: %d files" % (len(files) - 4) in out, out
assert re.search(r"child of rank \d: cat \(pid", out) and re.search("starts rank [0-3]: ", out) and "launcher: " in out, out
mean = re.search(r"^peak .*MiB +([0-9.]+) MiB +\S+ MiB$", out, re.M)
assert abs(float(mean.group(1)) - sum(int(r[2]) for r in rows) / 4) < 1, out
# Two runs, and one of them without a rank.
status, rows, err = ranks("first", "second")
assert status == 0 and len(rows) == 8 and len({r[0] for r in rows}) == 2, (status, rows)
status, out, err = run("first", "second")
assert "1 of 2: job " in out and "2 of 2: job " in out, out
for path in glob.glob(work + "/second/*"):
    head = json.loads(subprocess.run([dump, "session", "--json", path], capture_output=True, text=True).stdout)["rows"][0]
    if "mpi_system" in path and head["rank"] == 2:
        os.remove(path)
status, rows, err = ranks("second")
assert status == 1 and sorted(r[1] for r in rows) == [0, 1, 3] and "of 4 ranks: no profile of rank 2\n" in err, (status, rows, err)
END
say "aggregate: the ranks of two jobs among children, shells and launchers; a missing one"

mkdir "$work/some"
job "$work/some.out" -x LD_PRELOAD="$lib" -x NUMALLOC_PROFILE=sites -x NUMALLOC_PROFILE_RANKS=1,3 \
    -x NUMALLOC_PROFILE_FILE="$work/some/%p.nprof" ./mpi_stencil 64 5
[ "$(find "$work/some" -name '*.nprof' | wc -l)" = 2 ] || fail "NUMALLOC_PROFILE_RANKS=1,3 made $(ls "$work/some")"
"$dump" aggregate "$work/some" >"$work/out" || fail "ranks that were not to be profiled are missed: status $?"
grep -q ", 2 of 4 ranks (NUMALLOC_PROFILE_RANKS chose some)" "$work/out" || fail "aggregate of ranks 1 and 3: $(head -n 1 "$work/out")"
say "NUMALLOC_PROFILE_RANKS=1,3: two profiles, and no other is missed"
