/* python_name.c - the name that Python gave the calling thread. See python.h.
 *
 * CPython before 3.14 keeps the names of threads to itself. A thread of `threading` has the frame
 * of Thread._bootstrap outermost, whose only argument is the Thread, and that one's attribute _name
 * is what is wanted. Others change it, and what holds it, only with the GIL: so it is read while
 * this thread has it. A Thread whose attributes became a dict (by __dict__, before 3.13) keeps the
 * system's name, and so does one that was never Python's.
 *
 * The system is told, as 3.14 does itself: so all that shows threads has the same name. */
#include <sys/prctl.h>

#include "alloc/core/sys/syscall.h"
#include "profiler/record/python/python_same.h"

#define KEYS_MOST 64u /* more than attributes that are not in a dict */

static bool is_text(na_py_thread_t *p, uintptr_t at, const char *wanted, bool last) {
    char text[24];
    uint32_t n = 0;
    while (wanted[n] != 0)
        n++;
    if (!na_py_text(p, at, text, last ? n + 1 : sizeof text, last)) return false;
    return __builtin_memcmp(text, wanted, n + 1) == 0;
}

/* The values of an object's attributes; 0: they lie in a dict. */
static uintptr_t values_of(na_py_thread_t *p, uintptr_t object) {
    if (!na_py_can_read(p, object - NA_PY_VALUES_3_11, NA_PY_VALUES_3_11 + 32)) return 0;
    if (na_py.layout.version == 0x030b) return na_py_word(object - NA_PY_VALUES_3_11);
    if (na_py.layout.version == 0x030c) {
        uintptr_t values = na_py_word(object - NA_PY_VALUES_3_12);
        return (values & 1) != 0 ? values + 1 : 0;
    }
    uintptr_t values = object + NA_PY_VALUES_3_13;
    return *(const uint8_t *)(values + NA_PY_VALUES_VALID) != 0 ? values + NA_PY_VALUES_HEAD : 0;
}

/* Its attribute _name; 0: not found. */
static uintptr_t name_of(na_py_thread_t *p, uintptr_t object) {
    const uint32_t flags = NA_PY_FLAG_HEAP | NA_PY_FLAG_DICT;
    const na_py_layout_t *l = &na_py.layout;
    if ((object & 7) != 0 || !na_py_can_read(p, object, 16)) return 0;
    uintptr_t class = na_py_word(object + NA_PY_TYPE_AT);
    if ((class & 7) != 0 || !na_py_can_read(p, class, l->type_keys + 8u) ||
        (na_py_word(class + NA_PY_FLAGS_AT) & flags) != flags)
        return 0;
    uintptr_t keys = na_py_word(class + l->type_keys), values = values_of(p, object);
    if (values == 0 || !na_py_can_read(p, keys, NA_PY_KEYS_INDEX_AT) ||
        *(const uint8_t *)(keys + NA_PY_KEYS_KIND_AT) != NA_PY_KEYS_SPLIT)
        return 0;
    uint32_t index = *(const uint8_t *)(keys + NA_PY_KEYS_LOG_AT);
    uint64_t used = na_py_word(keys + NA_PY_KEYS_USED_AT);
    if (index > 16 || used > KEYS_MOST) return 0;
    uintptr_t entries = keys + NA_PY_KEYS_INDEX_AT + ((uintptr_t)1 << index);
    if (!na_py_can_read(p, entries, used * NA_PY_KEYS_ENTRY)) return 0;
    for (uint64_t i = 0; i < used; i++)
        if (is_text(p, na_py_word(entries + i * NA_PY_KEYS_ENTRY), "_name", false))
            return na_py_can_read(p, values + 8 * i, 8) ? na_py_word(values + 8 * i) : 0;
    return 0;
}

void na_py_name_thread(na_rthread_t *t, uint32_t count) {
    na_py_thread_t *p = t->python;
    const na_py_layout_t *l = &na_py.layout;
    const na_py_frame_t *f = p->kept;
    if (count != 0 && f->shim) f++, count--;
    if (count == 0 || f->id == 0 || p->other || na_py.current_state() != na_py.own_state())
        return; /* the next event may know */
    p->named = true;
    if (l->type_keys == NA_PY_NONE || f->id == na_py_entry->other ||
        !is_text(p, na_py_word(f->code + l->code_name), "Thread._bootstrap", false) ||
        !is_text(p, na_py_word(f->code + l->code_file), "threading.py", true) ||
        !na_py_can_read(p, f->frame + l->frame_locals, 8))
        return;
    char name[sizeof t->entry->name], now[sizeof t->entry->name] = "";
    uintptr_t text = name_of(p, na_py_word(f->frame + l->frame_locals));
    if (text == 0 || !na_py_text(p, text, name, sizeof name, false)) return;
    static _Atomic bool refused;
    na_sys_optional(&refused, SYS_prctl, PR_GET_NAME, (long)now, 0);
    if (__builtin_memcmp(now, t->entry->name, sizeof now) == 0)
        na_sys_optional(&refused, SYS_prctl, PR_SET_NAME, (long)name, 0);
}
