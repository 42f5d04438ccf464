#!/bin/bash
# dump_page_text.sh LIBRARY NUMALLOC_DUMP - the page and the text of a profile have the same figures of the profile
# itself: its own memory, and what names are missing.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
dump=$2
need gcc gcc python3 python3-minimal
cd "$work"
# Many small blocks at the peak, whose records are the profile's own memory; most are freed at the end.
cat >peak.c <<'E'
#include <stdlib.h>
#include <time.h>
#define BLOCKS 400000
static void *block[BLOCKS];
__attribute__((noinline)) static void keep(int from, int to) { for (int i = from; i < to; i++) block[i] = malloc(16); }
int main(void) {
    keep(0, BLOCKS);
    nanosleep(&(struct timespec){0, 300000000}, NULL);
    for (int i = 0; i < BLOCKS; i++) free(block[i]);
    nanosleep(&(struct timespec){0, 300000000}, NULL);
    keep(0, 100);
    return 0;
}
E
gcc -O1 -g -fno-builtin peak.c -o named
gcc -O1 -fno-builtin -s peak.c -o nameless
for program in named nameless; do
    for mode in sites sample trace; do
        NUMALLOC_PROFILE=$mode NUMALLOC_SAMPLE_INTERVAL=4096 NUMALLOC_PROFILE_FILE=$program.$mode.nprof LD_PRELOAD=$lib ./$program
    done
done
/usr/bin/python3 - "$dump" <<'E' || fail "the page and the text differ"
import base64, json, re, subprocess, sys, zlib
dump = sys.argv[1]
for program in "named", "nameless":
    for mode in "sites", "sample", "trace":
        file = f"{program}.{mode}.nprof"
        text = subprocess.run([dump, file], capture_output=True, text=True, check=True).stdout
        run = subprocess.run([dump, "run", file], capture_output=True, text=True, check=True).stdout
        subprocess.run([dump, "html", file, "-o", "page.html"], check=True, capture_output=True)
        packed = re.search(r'<script[^>]*type="application/[^>]*>([^<]+)</script>', open("page.html").read()).group(1).strip()
        page = json.loads(zlib.decompress(base64.b64decode(packed), 47))
        facts = dict(page["run"]["facts"])
        own = re.search(r"^own memory +(\S+ \S+) for the profile itself( near the peak)?", text, re.M)
        assert facts["The profiler's own memory"] == own[1] and f"own memory     {own[1]}\n" in run, (file, facts, own[0])
        # It is of the peak, and the records of all blocks are part of it: 6.10 MiB.
        assert own[2] is not None, own[0]
        assert mode == "sample" or 6.1 < float(own[1].removesuffix(" MiB")) < 20, (file, own[0])
        names = re.search(r"^Names: (functions with \d+ % of the .+) are known by their address only", text, re.M)
        assert (names is not None) == (program == "nameless") == ("Names" in facts), (file, names, facts)
        assert names is None or facts["Names"].startswith(names[1]), (file, names[0], facts["Names"])
E
say "the page and the text of six profiles say the same"
