/* flags.c - cmpxchg16b and cmpxchg8b change the zero flag and no other. An emulator that makes the
 * others of an operand has the kernel restore its interrupt flag from that, which ends in any
 * panic. */
#include <stdint.h>
#include <stdio.h>

enum { CARRY = 1, SIGN = 0x80, DEFINED = 0x3f7fd7 };

/* Of 0 - 1, and then of the instruction. */
#define FLAGS_AFTER(instruction, word)                                                             \
    __extension__({                                                                                \
        uint64_t flags_, low_ = 0xc12f70e0, high_ = 2;                                             \
        __asm__ volatile("xor %%esi, %%esi\n\tsub $1, %%rsi\n\t" instruction                       \
                         " %1\n\tpushfq\n\tpop %0"                                                 \
                         : "=&r"(flags_), "+m"(word), "+a"(low_), "+d"(high_)                      \
                         : "b"(low_), "c"(high_)                                                   \
                         : "rsi", "cc", "memory");                                                 \
        flags_;                                                                                    \
    })

static int check(const char *what, uint64_t flags) {
    int good = !(flags & ~(uint64_t)DEFINED) && (flags & (CARRY | SIGN)) == (CARRY | SIGN);

    printf("%s: flags %lx%s\n", what, (unsigned long)flags, good ? "" : ": wrong");
    return good;
}

static struct { _Alignas(16) uint64_t word[2]; } two;

int main(void) {
    int good = check("cmpxchg16b", FLAGS_AFTER("cmpxchg16b", two));

    return check("cmpxchg8b", FLAGS_AFTER("cmpxchg8b", two.word[0])) && good ? 0 : 1;
}
