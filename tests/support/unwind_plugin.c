/* unwind_plugin.c - a plugin that test_unwind loads in two builds,
 * which differ in the size of one frame only, so that one can take the place of the other. */
#ifndef FRAME
#define FRAME 64
#endif

void plugin(void (*call)(int));

void plugin(void (*call)(int)) {
    volatile char block[FRAME];
    block[0] = 1;
    call(2);
    block[FRAME - 1] = block[0];
}
