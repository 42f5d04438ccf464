/* misuse.c - the messages. */
#include "alloc/core/track/misuse.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "alloc/core/central/block.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/track/track.h"

static void describe_block(na_text_t *t, const void *address) {
    const na_span_t *span = na_span_of(address);
    if (span == NULL) {
        na_text_str(t, ": numalloc has no block there (never given out, or already freed)");
        return;
    }
    uintptr_t block = span->start;
    uint32_t index = na_span_index(span, address);
    size_t size = span->cls == 0 ? span->requested : span->each;
    if (span->cls != 0) block += index * span->each;
    na_text_str(t, ": ");
    if ((uintptr_t)address != block) {
        na_text_u64(t, (uintptr_t)address - block);
        na_text_str(t, " bytes into ");
    }
    na_text_str(t, span->cls == 0 ? "a large block of " : "a block of ");
    na_text_u64(t, size);
    na_text_str(t, " bytes at ");
    na_text_hex(t, block);
    if (span->cls != 0 && index >= span->carved) na_text_str(t, ", which was never given out");
    na_text_str(t, ", node ");
    na_text_u64(t, span->node);
}

/* Of several processes perhaps: each message is one write, at the end. Nobody is waited for who
 * does not read a pipe: the process is about to end. */
void na_misuse_add_to_file(const na_text_t *t) {
    const char *name = na_option_text(NA_OPT_MISUSE_FILE);
    if (name == NULL || name[0] == '\0') return;
    long fd =
        na_syscall(SYS_openat, AT_FDCWD, (long)(uintptr_t)name,
                   O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644, 0, 0);
    static _Atomic(bool) said;
    if (fd < 0 && !atomic_exchange_explicit(&said, true, memory_order_relaxed))
        na_warn(
            "NUMALLOC_MISUSE_FILE=%s cannot be written (error %u); messages are on stderr alone",
            name, (uint64_t)-fd);
    if (fd < 0) return;
    na_os_write((int)fd, t->data, t->length);
    na_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

static NA_COLD void say_misuse(const char *what, const void *address, bool late, bool ends) {
    na_text_t t = {0};
    na_text_str(&t, "numalloc: ");
    na_text_str(&t, what);
    na_text_str(&t, " ");
    na_text_hex(&t, (uintptr_t)address);
    describe_block(&t, address);
    if (late && !na_sizes_count) na_text_str(&t, "; NUMALLOC_CHECK=1 finds it where it happens");
    na_text_str(&t, "\n");
    na_os_say(t.data, t.length);
    na_misuse_add_to_file(&t);
    if (ends && na_option(NA_OPT_ABORT)) na_os_abort();
}

void na_misuse(const char *what, const void *address) {
    say_misuse(what, address, false, true);
}

void na_misuse_late(const char *what, const void *address) {
    say_misuse(what, address, true, true);
}

void na_misuse_asked(const char *what, const void *address) {
    static _Atomic(bool) said;
    bool checked = na_sizes_count;
    if (checked || !atomic_exchange_explicit(&said, true, memory_order_relaxed))
        say_misuse(what, address, false, checked);
}

bool na_sizes_blurred;

static NA_COLD bool say_size(const void *block, size_t size, const char *though, uint64_t other,
                             const char *of) {
    na_text_t what = {0};
    na_text_str(&what, "free as ");
    na_text_u64(&what, size);
    na_text_str(&what, though);
    na_text_u64(&what, other);
    na_text_str(&what, of);
    what.data[what.length] = '\0';
    na_misuse(what.data, block);
    return false;
}

static bool say_asked(const void *block, size_t size, uint64_t asked) {
    return say_size(block, size, " bytes, though ", asked, " were asked for, of");
}

/* By what the block's span says. */
static NA_NOINLINE bool size_fits_otherwise(const void *block, size_t size, size_t alignment) {
    const na_span_t *span = na_span_of(block);
    if (span == NULL || !na_is_block_start(span, block)) return true; /* free will say so */
    bool grown = alignment == 0 || na_sizes_blurred || na_span_is_others(span);
    if (span->cls == 0) {
        bool right = size == span->requested || (size <= 1 && span->requested <= 1) ||
                     (grown && size <= span->each);
        return right || say_asked(block, size, span->requested);
    }
    unsigned cls = span->cls, wanted = 0;
    size_t have = na_classes[cls].size;
    if (!grown && size <= NA_SMALL_MAX) wanted = na_class_of_aligned(size, alignment);
    if (size <= have && (grown || wanted == cls)) return true;
    return say_size(block, size, " bytes, which one of ", have, " is not given for, of");
}

/* By its class, as nearly all. */
static bool size_fits(const void *block, size_t size, size_t alignment) {
    const na_span_t *span = na_span_by_page(block);
    if (NA_LIKELY(span != NULL) && NA_LIKELY(size <= NA_SMALL_MAX) &&
        NA_LIKELY(na_class_of(size) == span->cls) && alignment <= NA_CLASS_STEP)
        return true;
    return size_fits_otherwise(block, size, alignment);
}

bool (*na_size_asked)(const void *block, uint64_t *asked);

bool na_size_is_right(const void *block, size_t size, size_t alignment) {
    if (!na_strict) return block == NULL || size_fits(block, size, alignment);
    uint64_t asked;
    bool known = block != NULL && na_size_asked(block, &asked);
    if (!known || size == asked || (size <= 1 && asked <= 1)) return true;
    return say_asked(block, size, asked);
}
