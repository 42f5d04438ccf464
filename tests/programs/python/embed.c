/* embed.c - a program that has CPython in it, and allocates by itself as well: between two calls of
 * Python code, at one and the same place, so that such an event is known by what was kept of the
 * last one.
 *
 *   embed counts   50 times: own_blocks makes 10 blocks of 1000 bytes, made.py's `made` 10 bytes
 *                  objects of 3000
 *   embed ...      else as python3 with these arguments
 *
 * With -DPREFIXED, linked with a sanitizer build of the library, whose functions have other names:
 * Python's allocators and own_blocks call those. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 50
#define BLOCKS 10

#ifdef PREFIXED
void *numalloc_malloc(size_t size);
void *numalloc_calloc(size_t count, size_t size);
void *numalloc_realloc(void *block, size_t size);
void numalloc_free(void *block);

static void *take(void *context, size_t size) {
    (void)context;
    return numalloc_malloc(size != 0 ? size : 1);
}
static void *take_zeroed(void *context, size_t count, size_t size) {
    (void)context;
    return count != 0 && size != 0 ? numalloc_calloc(count, size) : numalloc_calloc(1, 1);
}
static void *resize(void *context, void *block, size_t size) {
    (void)context;
    return numalloc_realloc(block, size != 0 ? size : 1);
}
static void give(void *context, void *block) {
    (void)context;
    numalloc_free(block);
}

static void use_ours(void) {
    PyMemAllocatorEx ours = {NULL, take, take_zeroed, resize, give};
    PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &ours);
    PyMem_SetAllocator(PYMEM_DOMAIN_MEM, &ours);
    PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &ours);
}
#define malloc numalloc_malloc
#else
static void use_ours(void) {}
#endif

static void *blocks[ROUNDS * BLOCKS];
static size_t count;

__attribute__((noinline)) static void own_blocks(void) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[count] = malloc(1000);
        if (blocks[count] == NULL) abort();
        memset(blocks[count++], 1, 1000);
    }
}

static const char source[] = "kept = [None] * 500\n"
                             "at = 0\n"
                             "def made():\n"
                             "    global at\n"
                             "    for at in range(at, at + 10):\n"
                             "        kept[at] = bytes(3000)\n"
                             "    at += 1\n";

static int counts(void) {
    PyObject *code = Py_CompileString(source, "/made.py", Py_file_input), *space = PyDict_New();
    if (code == NULL || space == NULL) return 1;
    PyDict_SetItemString(space, "__builtins__", PyEval_GetBuiltins());
    if (PyEval_EvalCode(code, space, space) == NULL) return 1;
    PyObject *made = PyDict_GetItemString(space, "made");
    for (int i = 0; i < ROUNDS; i++) {
        own_blocks();
        if (made == NULL || PyObject_CallNoArgs(made) == NULL) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    use_ours();
    if (argc != 2 || strcmp(argv[1], "counts") != 0) return Py_BytesMain(argc, argv);
    Py_InitializeEx(0);
    int failed = counts();
    if (failed) PyErr_Print();
    printf("%zu blocks\n", count);
    return failed;
}
