/* layouts.c - the layouts that are read (python_layouts.h) against a version's own headers, which
 * it is compiled with. Argument: a file with the beginning of _PyRuntime as it lies in that
 * interpreter. Prints what differs; exit status 1 then. */
#define Py_BUILD_CORE 1
#define NDEBUG        1 /* there are no objects */
#include <Python.h>

#include <stddef.h>
#include <stdio.h>

#if PY_VERSION_HEX < 0x030b0000
#include <frameobject.h>
#else
#include <internal/pycore_frame.h>
#endif
#define NAMES_READ (PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030e0000)
#if NAMES_READ
#include <internal/pycore_dict.h>
#include <internal/pycore_object.h>
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe_structs.h>
#include <internal/pycore_stackref.h>
#endif

#include "profiler/format/nprof_python.h"
#include "profiler/record/python/python_layouts.h"

static int differing;

static void hold(const char *what, unsigned long is, unsigned long wanted) {
    if (is == wanted) return;
    printf("%s is %lu; the headers say %lu\n", what, is, wanted);
    differing++;
}

#define HOLD(field, wanted) hold(#field, l.field, (unsigned long)(wanted))
#define END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

#if PY_VERSION_HEX < 0x030b0000
typedef PyFrameObject frame_t;
#define INSTRUCTION f_lasti
#else
typedef _PyInterpreterFrame frame_t;
#endif

static void hold_frames(na_py_layout_t l) {
#if PY_VERSION_HEX < 0x030b0000
    HOLD(thread_frame, offsetof(PyThreadState, frame));
    HOLD(cframe_frame, NA_PY_NONE);
    HOLD(frame_back, offsetof(frame_t, f_back));
    HOLD(frame_code, offsetof(frame_t, f_code));
    HOLD(frame_instr, offsetof(frame_t, f_lasti));
    HOLD(frame_owner, NA_PY_NONE);
    HOLD(frame_entry, NA_PY_NONE);
    HOLD(how, NA_PY_BY_NUMBER);
    HOLD(code_tags, 0);
    HOLD(in_units, PY_VERSION_HEX >= 0x030a0000);
    size_t end = END_OF(frame_t, f_lasti);
#else
#if PY_VERSION_HEX < 0x030d0000
    HOLD(thread_frame, offsetof(PyThreadState, cframe));
    HOLD(cframe_frame, offsetof(_PyCFrame, current_frame));
    HOLD(frame_code, offsetof(frame_t, f_code));
    HOLD(frame_instr, offsetof(frame_t, prev_instr));
#else
    HOLD(thread_frame, offsetof(PyThreadState, current_frame));
    HOLD(cframe_frame, NA_PY_NONE);
    HOLD(frame_code, offsetof(frame_t, f_executable));
    HOLD(frame_instr, offsetof(frame_t, instr_ptr));
#endif
    HOLD(frame_back, offsetof(frame_t, previous));
    HOLD(frame_owner, offsetof(frame_t, owner));
    hold("NA_PY_OWNER_GENERATOR", NA_PY_OWNER_GENERATOR, FRAME_OWNED_BY_GENERATOR);
#if PY_VERSION_HEX < 0x030c0000
    HOLD(frame_entry, offsetof(frame_t, is_entry));
    HOLD(how, NA_PY_BY_LINKED);
#else
    HOLD(frame_entry, NA_PY_NONE);
    HOLD(how, NA_PY_BY_POINTER);
#if PY_VERSION_HEX < 0x030e0000
    hold("NA_PY_OWNER_SHIM", NA_PY_OWNER_SHIM, FRAME_OWNED_BY_CSTACK);
#else
    hold("NA_PY_OWNER_SHIM", NA_PY_OWNER_SHIM, FRAME_OWNED_BY_INTERPRETER);
#endif
#endif
#if PY_VERSION_HEX < 0x030e0000
    HOLD(code_tags, 0);
#else
    HOLD(code_tags, Py_INT_TAG);
#endif
    hold("in_units", l.in_units, 0);
    size_t end = END_OF(frame_t, owner);
#endif
    HOLD(thread_id, offsetof(PyThreadState, thread_id));
    HOLD(thread_interp, PY_VERSION_HEX < 0x030c0000 ? NA_PY_NONE : offsetof(PyThreadState, interp));
    unsigned with = l.how == NA_PY_BY_LINKED ? l.frame_instr : l.frame_code;
    HOLD(frame_linked, with < l.frame_back ? with : l.frame_back);
    hold("the distance of the words that are compared as one",
         (unsigned long)(with > l.frame_back ? with - l.frame_back : l.frame_back - with), 8);
    if (l.frame_size < end || l.frame_size > sizeof(frame_t)) hold("frame_size", l.frame_size, end);
}

static void hold_code(na_py_layout_t l) {
    HOLD(code_file, offsetof(PyCodeObject, co_filename));
    HOLD(code_line, offsetof(PyCodeObject, co_firstlineno));
    HOLD(code_lines, l.code_name + 8);
#if PY_VERSION_HEX < 0x030b0000
    HOLD(code_name, offsetof(PyCodeObject, co_name));
    HOLD(code_start, NA_PY_NONE);
    HOLD(code_traceable, NA_PY_NONE);
#else
    HOLD(code_name, offsetof(PyCodeObject, co_qualname));
    HOLD(code_start, offsetof(PyCodeObject, co_code_adaptive));
    HOLD(code_traceable, offsetof(PyCodeObject, _co_firsttraceable));
#endif
#if PY_VERSION_HEX < 0x030a0000
    HOLD(code_lines, offsetof(PyCodeObject, co_lnotab));
    HOLD(lines, NA_NPROF_PY_LNOTAB);
#elif PY_VERSION_HEX < 0x030b0000
    HOLD(code_lines, offsetof(PyCodeObject, co_linetable));
    HOLD(lines, NA_NPROF_PY_LINETABLE);
#else
    HOLD(code_lines, offsetof(PyCodeObject, co_linetable));
    HOLD(lines, NA_NPROF_PY_LOCATIONS);
#endif
}

/* The four bytes of a str's state. */
static uint32_t state_of(unsigned kind, unsigned compact, unsigned ascii) {
    union {
        PyASCIIObject object;
        unsigned char bytes[sizeof(PyASCIIObject)];
    } u;
    memset(&u, 0, sizeof u);
    u.object.state.kind = kind & 7;
    u.object.state.compact = compact & 1;
    u.object.state.ascii = ascii & 1;
    uint32_t state;
    memcpy(&state, u.bytes + NA_PY_STATE_AT, 4);
    return state;
}

static void hold_objects(na_py_layout_t l) {
    HOLD(text_ascii, sizeof(PyASCIIObject));
    HOLD(text_wide, sizeof(PyCompactUnicodeObject));
    hold("references", NA_PY_REFERENCES_AT, offsetof(PyObject, ob_refcnt));
    hold("type", NA_PY_TYPE_AT, offsetof(PyObject, ob_type));
    hold("length", NA_PY_LENGTH_AT, offsetof(PyASCIIObject, length));
    hold("length of bytes", NA_PY_LENGTH_AT, offsetof(PyVarObject, ob_size));
    hold("hash", NA_PY_HASH_AT, offsetof(PyASCIIObject, hash));
    hold("hash of bytes", NA_PY_HASH_AT, offsetof(PyBytesObject, ob_shash));
    hold("bytes", NA_PY_BYTES_AT, offsetof(PyBytesObject, ob_sval));
    for (unsigned kind = 1; kind <= 4; kind *= 2)
        hold("width", NA_PY_STATE_WIDTH(state_of(kind, 1, kind == 1)), kind);
    hold("compact", state_of(0, 1, 0), NA_PY_STATE_COMPACT);
    hold("ascii", state_of(0, 0, 1), NA_PY_STATE_ASCII);
    hold("form", state_of(7, 1, 1), NA_PY_STATE_FORM);
}

/* What a thread's name is read by. */
static void hold_names(na_py_layout_t l) {
#if !NAMES_READ
    HOLD(type_keys, NA_PY_NONE);
#else
    typedef struct _dictkeysobject keys_t;
    HOLD(frame_locals, offsetof(frame_t, localsplus));
    HOLD(type_keys, offsetof(PyHeapTypeObject, ht_cached_keys));
    hold("flags", NA_PY_FLAGS_AT, offsetof(PyTypeObject, tp_flags));
    hold("heap", NA_PY_FLAG_HEAP, Py_TPFLAGS_HEAPTYPE);
    hold("dict", NA_PY_FLAG_DICT, Py_TPFLAGS_MANAGED_DICT);
    hold("log", NA_PY_KEYS_LOG_AT, offsetof(keys_t, dk_log2_index_bytes));
    hold("kind", NA_PY_KEYS_KIND_AT, offsetof(keys_t, dk_kind));
    hold("split", NA_PY_KEYS_SPLIT, DICT_KEYS_SPLIT);
    hold("used", NA_PY_KEYS_USED_AT, offsetof(keys_t, dk_nentries));
    hold("index", NA_PY_KEYS_INDEX_AT, offsetof(keys_t, dk_indices));
    hold("entry", NA_PY_KEYS_ENTRY, sizeof(PyDictUnicodeEntry));
    hold("key", 0, offsetof(PyDictUnicodeEntry, me_key));
    char object[256] __attribute__((aligned(16))) = {0}, *at = object + 64;
#if PY_VERSION_HEX < 0x030c0000
    hold("values", NA_PY_VALUES_3_11,
         (unsigned long)(at - (char *)_PyObject_ValuesPointer((PyObject *)at)));
    hold("first value", 0, offsetof(struct _dictvalues, values));
#elif PY_VERSION_HEX < 0x030d0000
    hold("values", NA_PY_VALUES_3_12,
         (unsigned long)(at - (char *)_PyObject_DictOrValuesPointer((PyObject *)at)));
    hold("first value", 0, offsetof(struct _dictvalues, values));
    PyDictOrValues values;
    _PyDictOrValues_SetValues(&values, (PyDictValues *)at);
    hold("values less", (unsigned long)values.values + 1, (unsigned long)at);
#else
    hold("values", NA_PY_VALUES_3_13, sizeof(PyObject));
    hold("valid", NA_PY_VALUES_VALID, offsetof(struct _dictvalues, valid));
    hold("first value", NA_PY_VALUES_HEAD, offsetof(struct _dictvalues, values));
#endif
#endif
}

int main(int argc, char **argv) {
    uint64_t debug[1024];
    FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (f == NULL) return 2;
    uint64_t words = fread(debug, 8, 1024, f);
    fclose(f);
    uint16_t version = PY_VERSION_HEX >> 16;
    na_py_layout_t l;
    if (na_py_layout_of(version, debug, words, &l) != 0) {
        printf("there is no layout of %x\n", (unsigned)version);
        return 1;
    }
    HOLD(version, version);
    hold_frames(l);
    hold_code(l);
    hold_objects(l);
    hold_names(l);

    /* What is of another version, has no GIL or is no such thing is left alone. */
    na_py_layout_t other;
    for (uint16_t v = 0x0300; v < 0x0320; v++)
        hold("why a version is refused", na_py_layout_of(v, debug, words, &other),
             (v >= 0x0309 && v <= 0x030c) || v == version ? 0 : NA_NPROF_PY_REFUSED_VERSION);
#if PY_VERSION_HEX >= 0x030d0000
    hold("why it is with little of it", na_py_layout_of(version, debug, 60, &other),
         NA_NPROF_PY_REFUSED_VERSION);
    for (unsigned i = 0; i < 3; i++) { /* cookie, version, whether it has no GIL */
        debug[i] ^= UINT64_C(1) << 16;
        hold("why it is when it says otherwise", na_py_layout_of(version, debug, words, &other),
             i == 2 ? NA_NPROF_PY_REFUSED_NO_GIL : NA_NPROF_PY_REFUSED_VERSION);
        debug[i] ^= UINT64_C(1) << 16;
    }
#endif
    return differing != 0;
}
