/* empty_program.c - the program that the startup benchmark starts: it is loaded and it leaves. */
int main(void) {
    return 0;
}
