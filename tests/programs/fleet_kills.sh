#!/bin/bash
# fleet_kills.sh LIBRARY NUMALLOC_DUMP NUMALLOC_SHIP - programs begin, end and are killed in five containers (namespaces
# of processes), while numalloc-ship runs all the time in one of its own: each profile arrives once and whole, none is
# lost, none is taken from a process that lives. TEST_SCALE=full: 200 programs.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
dump=$2 ship_program=$3
need protoc protobuf-compiler gcc gcc
contain=(unshare --pid --mount --fork --kill-child --mount-proc)
"${contain[@]}" true 2>/dev/null || skip "no namespaces can be made here"
each=4
[ "$TEST_SCALE" != full ] || each=40
cd "$work"
dir=$work/profiles got=$work/got
mkdir "$dir" "$got" made
echo 200 >"$got/answer"
# Keeps COUNT blocks of 1,000 bytes, says so, and ends after MS.
cat >kept.c <<'E'
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static void *volatile kept[1000];
__attribute__((noinline)) static void keep_here(int i) { kept[i] = malloc(1000); }
int main(int count, char **words) {
    if (count != 3) return 2;
    for (int i = atoi(words[1]); i-- > 0;) keep_here(i);
    (void)!write(1, "ready\n", 6);
    long ms = atol(words[2]);
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    return 0;
}
E
gcc -O1 -g -fno-builtin kept.c -o kept
/usr/bin/python3 "$test_source/ship_server.py" "$got" 2>server.err & server=$!
at_end+=("kill $server 2>/dev/null")
await '[ -e "$got/port" ]'
"${contain[@]}" "$ship_program" --dump "$dump" --url "http://127.0.0.1:$(cat "$got/port")" --every 0.2 --killed "$dir" >ship.out 2>&1 & ship=$!
at_end+=("kill -9 $ship 2>/dev/null")

cat >container.sh <<'E'
# container.sh NUMBER: what began, with how many blocks, and whether it came so far: made/ID.
for ((i = 0; i < each; i++)); do
    id=$1x$i count=$((RANDOM % 900 + 1)) way=$((i % 4)) stay=100000
    [ $way != 0 ] || stay=$((RANDOM % 400))
    : >"out.$id"
    env NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$dir/" NUMALLOC_PROFILE_LABELS=id="$id" LD_PRELOAD="$lib" \
        ./kept $count $stay >"out.$id" & pid=$!
    if [ $way = 1 ]; then
        sleep 0.0$((RANDOM % 10)) # it may not have come to anything
    else
        until grep -q ready "out.$id" || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
        [ $way = 0 ] || sleep 0.$((RANDOM % 6))
        if grep -s 'nprof.*deleted' "/proc/$pid/maps"; then echo "$id" >>taken; fi
    fi
    [ $way = 0 ] || kill -9 $pid
    wait $pid 2>/dev/null
    if grep -q ready "out.$id"; then echo $count >"made/$id"; fi
done
E
export each dir lib
containers=()
for number in 1 2 3 4 5; do
    "${contain[@]}" bash container.sh $number & containers+=($!)
done
wait "${containers[@]}"
# What a program left that was killed before its profile had begun goes after a minute.
left() {
    find "$dir" -name '*nprof*' | while read -r file; do
        [ -n "$(head -c 8 "$file" 2>/dev/null | tr -d '\0')" ] || touch -d '2 minutes ago' -c "$file"
        echo "$file"
    done
}
await '[ -z "$(left)" ]'
pkill -TERM -P $ship
wait $ship || fail "numalloc-ship: status $?: $(cat ship.out)"
killed_early=$dir/numalloc.early.1.2.nprof
{ head -c 8 /dev/zero && head -c 163832 /dev/urandom; } >"$killed_early" && touch -d '2 minutes ago' "$killed_early"
"$ship_program" --dump "$dump" --url "http://127.0.0.1:$(cat "$got/port")" --killed "$dir" >>ship.out 2>&1 && [ ! -e "$killed_early" ] ||
    fail "a program killed before its profile began: $(ls "$dir"), $(cat ship.out)"
[ ! -e taken ] || fail "taken from a process that lives: $(cat taken)"
[ ! -s ship.out ] || fail "numalloc-ship says: $(cat ship.out)"

for request in "$got"/*.json; do
    PYTHONPATH=$test_source /usr/bin/python3 -B "$test_source/ship_check.py" "$test_source/exports" pyroscope "${request%.json}" \
        "print(labels['id'], sums['alloc_space'].get('keep_here', 0)) is None" >>came
done
for file in made/*; do
    id=${file#made/}
    [ "$(grep "^$id " came)" = "$id $(($(cat "$file") * 1000))" ] || fail "$id made $(cat "$file") blocks of 1,000 bytes: $(grep "^$id " came)"
done
[ -z "$(cut -d' ' -f1 came | sort | uniq -d)" ] || fail "sent twice: $(sort came)"
say "$(find made -type f | wc -l) profiles of $((5 * each)) programs came once and whole, $(wc -l <came) in all"
