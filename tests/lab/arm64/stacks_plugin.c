/* stacks_plugin.c - opened by stacks.c: a frame in a module that was not there at the start. */
void plugged(void (*call)(unsigned), unsigned count);
void plugged(void (*call)(unsigned), unsigned count) {
    call(count);
    __asm__ volatile("" ::: "memory");
}
