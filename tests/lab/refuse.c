/* refuse.c - runs a command to which the system refuses memory policies, as containers' seccomp
 * filters do: mbind, set_mempolicy, get_mempolicy, set_mempolicy_home_node, move_pages and
 * migrate_pages fail with the error named.
 *
 * usage: refuse EPERM|ENOSYS COMMAND [ARGUMENT...] */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static const unsigned refused[] = {
        SYS_mbind,      SYS_set_mempolicy, SYS_get_mempolicy, 450 /* set_mempolicy_home_node */,
        SYS_move_pages, SYS_migrate_pages,
    };
    enum { COUNT = sizeof refused / sizeof refused[0] };
    if (argc < 3 || (strcmp(argv[1], "EPERM") != 0 && strcmp(argv[1], "ENOSYS") != 0)) {
        fprintf(stderr, "usage: %s EPERM|ENOSYS COMMAND [ARGUMENT...]\n", argv[0]);
        return 2;
    }
    unsigned error = strcmp(argv[1], "EPERM") == 0 ? EPERM : ENOSYS;
    struct sock_filter filter[COUNT + 3];
    size_t n = 0;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                               (unsigned)offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < COUNT; i++)
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i],
                                                   (unsigned char)(COUNT - i), 0);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
    struct sock_fprog program = {(unsigned short)n, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("refuse: no filter can be set");
        return 77;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
