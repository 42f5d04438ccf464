/* guard_report.c - what is said of an error. */
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "alloc/core/sys/print.h"
#include "profiler/guard/guard_state.h"
#include "profiler/record/unwind/unwind.h"

/* One report at a time; a thread that dies within one holds up nobody for long. */
static _Atomic(uint32_t) reporter;
static na_gf_error_t last;    /* where there is no room in the tables */
static na_text_t report_text; /* signal stacks are small */

static void begin_report(void) {
    enum { PATIENCE_MS = 2000 };
    uint32_t nobody = 0, me = na_guard_thread();
    uint64_t until = na_os_ms() + PATIENCE_MS;
    while (!atomic_compare_exchange_strong(&reporter, &nobody, me)) {
        if (nobody == me || na_os_ms() > until) return;
        nobody = 0;
        na_os_yield();
    }
}

static void write_report(void) {
    na_os_say(report_text.data, report_text.length);
    report_text.length = 0;
}

static void put_report_text(const char *s) {
    na_text_str(&report_text, s);
}

static void put_u(uint64_t v) {
    na_text_u64(&report_text, v);
}

static void begin_report_line(void) {
    report_text.length = 0;
    put_report_text("numalloc: ");
}

static void end_report_line(void) {
    put_report_text("\n");
    write_report();
}

/* "1.234 s" */
static void put_seconds(uint64_t ms) {
    put_u(ms / 1000);
    char fraction[5] = {'.', (char)('0' + ms / 100 % 10), (char)('0' + ms / 10 % 10),
                        (char)('0' + ms % 10), 0};
    put_report_text(fraction);
    put_report_text(" s");
}

static void report_frame(unsigned index, uint64_t pc, bool exact) {
    begin_report_line();
    put_report_text("  #");
    put_u(index);
    put_report_text(index < 10 ? "  " : " ");
    na_text_hex(&report_text, pc);
    const na_gf_module_t *m = na_guard_module_of(exact ? pc : pc - 1);
    if (m != NULL) {
        put_report_text(" ");
        put_report_text(m->name);
        put_report_text("+");
        na_text_hex(&report_text, pc - m->bias);
    }
    end_report_line();
}

static void report_stack(const na_gf_error_t *e, unsigned which) {
    if (e->frames[which] == 0) {
        begin_report_line();
        put_report_text("  (its call stack is no longer known)");
        end_report_line();
    }
    for (uint32_t i = 0; i < e->frames[which]; i++)
        report_frame(i, e->pcs[which][i], which == NA_GF_ACCESS && i == 0 && e->access != 0);
}

static void report_block(const na_gf_error_t *e) {
    put_report_text("block of ");
    put_u(e->block.size);
    put_report_text(e->block.size == 1 ? " byte at " : " bytes at ");
    na_text_hex(&report_text, e->block.address);
}

static const char *bytes(int64_t n) {
    return n == 1 ? " byte" : " bytes";
}

/* "12 bytes into", "at the beginning of"; the first byte of all is 1 byte before, or behind. */
static void report_place(const na_gf_error_t *e) {
    int64_t at = (int64_t)(e->address - e->block.address), size = e->block.size;
    if (at == 0) {
        put_report_text("at the beginning of a ");
    } else {
        int64_t n = at < 0 ? -at : at < size ? at : at - size + 1;
        put_u((uint64_t)n);
        put_report_text(bytes(n));
        put_report_text(at < 0 ? " before a " : at < size ? " into a " : " behind the end of a ");
    }
    report_block(e);
}

static const char *accessed(const na_gf_error_t *e) {
    return e->access == NA_GF_WRITE ? "write" : e->access == NA_GF_READ ? "read" : "access";
}

static void put_headline(const na_gf_error_t *e) {
    begin_report_line();
    switch ((na_gf_kind_t)e->kind) {
    case NA_GF_USE_AFTER_FREE:
        put_report_text("use after free: ");
        put_report_text(accessed(e));
        break;
    case NA_GF_OVERFLOW:
        put_report_text("overflow: ");
        put_report_text(accessed(e));
        break;
    case NA_GF_UNDERFLOW:
        put_report_text("underflow: ");
        put_report_text(accessed(e));
        break;
    case NA_GF_DOUBLE_FREE:
        put_report_text("double free");
        break;
    case NA_GF_INTERIOR_FREE:
        put_report_text("free of an address that is no block's");
        break;
    case NA_GF_REALLOC_FREED:
        put_report_text("realloc of a freed block");
        break;
    case NA_GF_WRITTEN_FREED:
        put_report_text("use after free: written to ");
        na_text_hex(&report_text, e->address);
        put_report_text(", ");
        report_place(e);
        put_report_text(e->distance == 1 ? "; 1 byte" : "; ");
        if (e->distance != 1) put_u((uint64_t)e->distance);
        put_report_text(e->distance == 1 ? "" : " bytes");
        put_report_text(" changed since it was freed");
        end_report_line();
        return;
    case NA_GF_OVERWRITTEN:
        put_report_text("overflow: ");
        put_u((uint64_t)e->distance);
        put_report_text(bytes(e->distance));
        put_report_text(" written behind the end of a ");
        report_block(e);
        end_report_line();
        return;
    case NA_GF_UNDERWRITTEN:
        put_report_text("underflow: ");
        put_u((uint64_t)e->distance);
        put_report_text(bytes(e->distance));
        put_report_text(" written before a ");
        report_block(e);
        end_report_line();
        return;
    default:
        put_report_text(e->access != 0 ? "use after free, or wild access: " : "free of no block: ");
        if (e->access != 0) put_report_text(accessed(e));
        break;
    }
    put_report_text(" of ");
    na_text_hex(&report_text, e->address);
    if (e->has_block) {
        put_report_text(", ");
        report_place(e);
    } else {
        put_report_text(", in the area of guarded blocks; whose it was is no longer known");
    }
    end_report_line();
}

static void put_thread(uint32_t thread, const char *name) {
    put_report_text(" by thread ");
    put_u(thread);
    if (name != NULL && name[0] != 0) {
        put_report_text(" (");
        put_report_text(name);
        put_report_text(")");
    }
}

static void print(const na_gf_error_t *e) {
    put_headline(e);
    bool freed = e->has_block && e->block.state == NA_GF_FREED;
    if (e->frames[NA_GF_ACCESS] != 0) {
        begin_report_line();
        bool at_free = e->kind == NA_GF_OVERWRITTEN || e->kind == NA_GF_UNDERWRITTEN;
        put_report_text(at_free          ? "found when it was freed"
                        : e->access == 0 ? "called"
                                         : "accessed");
        put_thread(e->thread, e->thread_name);
        put_report_text(", ");
        put_seconds(e->ms);
        put_report_text(" after the start:");
        end_report_line();
        report_stack(e, NA_GF_ACCESS);
    }
    if (freed) {
        static const char by[][12] = {"free", "delete", "delete[]", "realloc"};
        begin_report_line();
        put_report_text("freed by ");
        put_report_text(by[e->block.release & 3]);
        put_report_text(",");
        put_thread(e->block.free_thread, NULL);
        put_report_text(", ");
        put_seconds(e->ms - e->block.free_ms);
        put_report_text(" before:");
        end_report_line();
        report_stack(e, NA_GF_FREE);
    }
    if (!e->has_block) return;
    static const char by[][20] = {"malloc", "calloc", "realloc", "aligned allocation",
                                  "new",    "new[]"};
    begin_report_line();
    put_report_text("allocated by ");
    put_report_text(by[e->block.entry < 6 ? e->block.entry : 0]);
    put_report_text(",");
    put_thread(e->block.alloc_thread, NULL);
    put_report_text(", ");
    put_seconds(e->ms - e->block.alloc_ms);
    put_report_text(" before:");
    end_report_line();
    report_stack(e, NA_GF_ALLOC);
}

static void fill_error(na_gf_error_t *e, const na_guard_fault_t *f) {
    memset(e, 0, sizeof *e);
    struct timespec now = {0};
    na_syscall(SYS_clock_gettime, CLOCK_REALTIME, (long)&now, 0, 0, 0, 0);
    e->unix_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    e->kind = f->kind;
    e->access = f->access;
    e->address = f->address;
    e->distance = f->distance;
    e->thread = na_guard_thread();
    e->ms = na_guard_now();
    na_syscall(SYS_prctl, PR_GET_NAME, (long)e->thread_name, 0, 0, 0, 0);
    bool truncated = false;
    if (f->context != NULL) {
        e->frames[NA_GF_ACCESS] = (uint32_t)na_unwind_context(
            f->context, (uintptr_t *)e->pcs[NA_GF_ACCESS], NA_GF_FRAMES, &truncated);
    } else if (f->here != NULL) {
        e->frames[NA_GF_ACCESS] = f->here->count;
        for (uint32_t i = 0; i < f->here->count; i++)
            e->pcs[NA_GF_ACCESS][i] = f->here->pc[i];
        truncated = f->here->truncated;
    }
    e->truncated = truncated ? 1u << NA_GF_ACCESS : 0;
    if (f->record == NULL) return;
    e->has_block = 1;
    e->block = *f->record;
    e->frames[NA_GF_ALLOC] =
        na_guard_read_stack(e->block.alloc_stack, e->pcs[NA_GF_ALLOC], NA_GF_FRAMES);
    e->frames[NA_GF_FREE] =
        na_guard_read_stack(e->block.free_stack, e->pcs[NA_GF_FREE], NA_GF_FRAMES);
}

void na_guard_report_after_fork(void) {
    atomic_store(&reporter, 0);
}

void na_guard_report(const na_guard_fault_t *fault) {
    if (na_guard_file_is_parents()) na_guard_is_child();
    begin_report();
    na_guard_tables_t *t = na_guards.t;
    uint32_t n = __atomic_fetch_add(&t->head.errors, 1, __ATOMIC_RELAXED);
    na_gf_error_t *e = n < NA_GUARD_ERRORS ? &t->errors[n] : &last;
    fill_error(e, fault);
    for (uint32_t i = 0; i < e->frames[NA_GF_ACCESS]; i++)
        na_guard_meet_module((uintptr_t)e->pcs[NA_GF_ACCESS][i] - (i != 0));
    print(e);
    if (e != &last) na_guard_file_put(e, sizeof *e);
    if (fault->record != NULL) na_guard_put_record(fault->record);
    na_guard_put_counts();
    bool kept = na_guard_file_keep();
    if (na_guard_file_name()[0] != 0) {
        begin_report_line();
        put_report_text(kept ? "numalloc-dump errors " : "it could not be written to ");
        put_report_text(na_guard_file_name());
        put_report_text(kept ? " names functions and lines" : "");
        end_report_line();
    }
    atomic_store(&reporter, 0);
}
