/* top_load.c - a process to look at: a hundred blocks at first, fifty more for each line that it
 * reads; says "ready" after each step and ends at the end of its input. */
#include <stdlib.h>
#include <unistd.h>

static void *volatile keep;

static __attribute__((noinline)) void hold(int count) {
    for (int i = 0; i < count; i++) {
        keep = malloc(1000);
        if (keep == NULL) abort();
    }
}

int main(void) {
    char c;
    hold(100);
    for (;;) {
        if (write(1, "ready\n", 6) != 6) return 1;
        ssize_t n;
        while ((n = read(0, &c, 1)) == 1 && c != '\n')
            ;
        if (n != 1) return 0;
        hold(50);
    }
}
