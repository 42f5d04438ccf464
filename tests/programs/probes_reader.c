/* probes_reader.c - runs a program and prints what probes of a library say in it, as a tracer gets
 * it: through the kernel's uprobes, arguments out of registers, listeners counted by the kernel.
 *
 *     probes_reader LIBRARY NAME LOCATION SEMAPHORE ARGUMENTS [NAME ...] -- PROGRAM [WORD...]
 *
 * as `readelf -n` has them: two addresses and "8@%rax 8@%rbp". The library is nobody else's: all
 * that run with it are heard. A line for each hit: the name, the thread's id and the arguments.
 * Exit status: the program's; 77: the system has no uprobes for us.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROBES = 1024, PAGES = 64 }; /* of each on each processor, whoever runs there */

/* In the order of the kernel's perf_regs.h; "": not asked for. */
static const char *const registers[] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp",
                                        "",    "",    "",    "",    "",    "",    "",    "",
                                        "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
enum { REGISTERS = sizeof registers / sizeof registers[0] };

static struct probe {
    const char *name, *arguments;
    int fd;
    struct perf_event_mmap_page *ring;
} probes[PROBES];

static uint64_t wanted_registers(void) {
    uint64_t mask = 0;
    for (unsigned i = 0; i < REGISTERS; i++)
        mask |= (uint64_t)(registers[i][0] != 0) << i;
    return mask;
}

static int fail(const char *what) {
    fprintf(stderr, "probes_reader: %s: %s\n", what, strerror(errno));
    return errno == EACCES || errno == EPERM || errno == ENOENT || errno == ENOSYS ||
                   errno == EOPNOTSUPP
               ? 77
               : 1;
}

/* Where in the file an address of the library is. */
static uint64_t file_offset(const char *file, uint64_t address) {
    Elf64_Ehdr head;
    Elf64_Phdr part;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, &head, sizeof head, 0) != sizeof head) return 0;
    uint64_t found = 0;
    for (unsigned i = 0; i < head.e_phnum; i++)
        if (pread(fd, &part, sizeof part, (off_t)(head.e_phoff + i * sizeof part)) == sizeof part &&
            part.p_type == PT_LOAD && address >= part.p_vaddr &&
            address < part.p_vaddr + part.p_filesz)
            found = address - part.p_vaddr + part.p_offset;
    close(fd);
    return found;
}

static int kind_of_event(void) {
    FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
    int type = -1;
    if (f == NULL) return -1;
    if (fscanf(f, "%d", &type) != 1) type = -1;
    fclose(f);
    return type;
}

static int attach(struct probe *p, const char *library, char **words, int cpu) {
    p->name = words[0];
    p->arguments = words[3];
    struct perf_event_attr attr = {
        .type = (uint32_t)kind_of_event(),
        .size = sizeof attr,
        .config = file_offset(library, strtoull(words[2], NULL, 16)) << 32,
        .uprobe_path = (uint64_t)(uintptr_t)library,
        .probe_offset = file_offset(library, strtoull(words[1], NULL, 16)),
        .sample_period = 1,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_REGS_USER,
        .sample_regs_user = wanted_registers(),
    };
    p->fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (p->fd < 0) return fail(p->name);
    p->ring = mmap(NULL, (PAGES + 1) * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    return p->ring == MAP_FAILED ? fail("mmap") : 0;
}

static uint64_t value_of(const char *name, size_t length, const uint64_t *values) {
    unsigned at = 0;
    for (unsigned i = 0; i < REGISTERS; i++) {
        if (registers[i][0] == 0) continue;
        if (strlen(registers[i]) == length && memcmp(registers[i], name, length) == 0)
            return values[at];
        at++;
    }
    fprintf(stderr, "probes_reader: no register %.*s\n", (int)length, name);
    exit(1);
}

static void print_hits(const struct probe *p) {
    const char *data = (const char *)p->ring + p->ring->data_offset;
    uint64_t head = __atomic_load_n(&p->ring->data_head, __ATOMIC_ACQUIRE);
    for (uint64_t at = 0; at < head;) { /* the ring is large enough for all */
        const struct perf_event_header *h = (const void *)(data + at);
        const struct {
            struct perf_event_header head;
            uint32_t pid, tid;
            uint64_t abi, registers[REGISTERS];
        } *sample = (const void *)h;
        at += h->size;
        if (h->type == PERF_RECORD_LOST) printf("%s lost\n", p->name);
        if (h->type != PERF_RECORD_SAMPLE) continue;
        printf("%s %" PRIu32, p->name, sample->tid);
        for (const char *a = p->arguments; (a = strstr(a, "8@%")) != NULL;) {
            a += 3;
            printf(" %" PRIu64, value_of(a, strcspn(a, " "), sample->registers));
        }
        putchar('\n');
    }
}

int main(int argc, char **argv) {
    int go[2], count = 0, word = 2, status = 0;
    if (pipe2(go, O_CLOEXEC) != 0) return fail("pipe");
    int end = 2;
    while (end < argc && strcmp(argv[end], "--") != 0)
        end++;
    if (end + 1 >= argc || (end - 2) % 4 != 0) return 2;
    if (kind_of_event() < 0) return fail("no uprobes here");
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        if (read(go[0], &c, 1) == 1) execv(argv[end + 1], argv + end + 1);
        _exit(126);
    }
    int cpus = (int)sysconf(_SC_NPROCESSORS_CONF);
    for (; word < end; word += 4)
        for (int cpu = 0; cpu < cpus && count < PROBES && status == 0; cpu++)
            status = attach(&probes[count++], argv[1], argv + word, cpu);
    if (status == 0 && write(go[1], "", 1) != 1) status = fail("pipe");
    close(go[1]);
    int ended;
    waitpid(pid, &ended, 0);
    if (status != 0) return status;
    for (int i = 0; i < count; i++)
        print_hits(&probes[i]);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : 1;
}
