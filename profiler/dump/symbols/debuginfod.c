/* debuginfod.c - libdebuginfod's progress function. See debuginfod.h. */
#include "profiler/dump/symbols/debuginfod.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/dump/symbols/symbols.h"

static void (*told)(long done, long all);

void na_symbols_downloading(void (*say)(long done, long all)) {
    told = say;
}

/* As libdebuginfod calls it: 0 goes on. Before the server has answered, `done` counts its own
 * rounds of waiting and `all` is 0: nothing has come yet. */
static int downloading(debuginfod_client *client, long done, long all) {
    (void)client;
    if (told != NULL) told(all == 0 ? 0 : done, all);
    return 0;
}

void na_debuginfod_watch(Dwfl *dwfl) {
    typedef void (*set_t)(debuginfod_client *, int (*)(debuginfod_client *, long, long));
    static set_t set;
    const char *urls = getenv("DEBUGINFOD_URLS");
    if (told == NULL || urls == NULL || urls[0] == 0) return;
    debuginfod_client *client = dwfl_get_debuginfod_client(dwfl);
    if (client == NULL) return; /* the library is not installed */
    if (set == NULL) {
        /* Not linked: libdw has it loaded, where there is one. It stays so until the process ends.
         */
        void *library = dlopen("libdebuginfod.so.1", RTLD_LAZY | RTLD_NOLOAD);
        void *address = library == NULL ? NULL : dlsym(library, "debuginfod_set_progressfn");
        if (address == NULL) return;
        memcpy(&set, &address, sizeof set);
    }
    set(client, downloading);
}

int na_debuginfod_find(const unsigned char *build_id, uint32_t size) {
    typedef int (*find_t)(debuginfod_client *, const unsigned char *, int, char **);
    static const char *const names[] = {"debuginfod_find_executable", "debuginfod_find_debuginfo"};
    const char *urls = getenv("DEBUGINFOD_URLS");
    if (urls == NULL || urls[0] == 0) return -1;
    static const Dwfl_Callbacks none;
    Dwfl *dwfl = dwfl_begin(&none);
    if (dwfl == NULL) return -1;
    na_debuginfod_watch(dwfl);
    debuginfod_client *client = dwfl_get_debuginfod_client(dwfl);
    void *library = client == NULL ? NULL : dlopen("libdebuginfod.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int fd = -1;
    for (size_t i = 0; library != NULL && fd < 0 && i < 2; i++) {
        void *address = dlsym(library, names[i]);
        find_t find;
        memcpy(&find, &address, sizeof find);
        if (address != NULL) fd = find(client, build_id, (int)size, NULL);
    }
    dwfl_end(dwfl);
    return fd;
}
