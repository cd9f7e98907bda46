/* Preloaded: the Nth file operation below FAULTS_UNDER fails with EIO (FAULTS_AT=N), or the process
   is killed before it (FAULTS_KILL=N); every one is logged (FAULTS_LOG); or the clock is set back a
   day after some calls (FAULTS_CLOCK=calls). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static long count;
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int fails(const char *what, const char *path) {
    const char *under = getenv("FAULTS_UNDER");
    if (!under || !path || strncmp(path, under, strlen(under))) return 0;
    count++;
    const char *log = getenv("FAULTS_LOG");
    if (log) {
        char line[8192];
        int length = snprintf(line, sizeof line, "%ld %s %s\n", count, what, path);
        int file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        syscall(SYS_write, file, line, length);
        syscall(SYS_close, file);
    }
    const char *kill_at = getenv("FAULTS_KILL");
    if (kill_at && atol(kill_at) == count) raise(SIGKILL);
    const char *at = getenv("FAULTS_AT");
    if (!at || atol(at) != count) return 0;
    errno = EIO;
    return 1;
}

static int file_fails(const char *what, int file) {
    char link[64], path[4096];
    if (!getenv("FAULTS_UNDER")) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return fails(what, path);
}

ssize_t write(int file, const void *data, size_t size) {
    return file_fails("write", file) ? -1 : REAL(write)(file, data, size);
}
ssize_t writev(int file, const struct iovec *parts, int number) {
    return file_fails("write", file) ? -1 : REAL(writev)(file, parts, number);
}
int fsync(int file) { return file_fails("fsync", file) ? -1 : REAL(fsync)(file); }
int ftruncate64(int file, off64_t size) {
    return file_fails("truncate", file) ? -1 : REAL(ftruncate64)(file, size);
}
int rename(const char *from, const char *to) {
    return fails("rename", from) ? -1 : REAL(rename)(from, to);
}
int unlink(const char *path) { return fails("unlink", path) ? -1 : REAL(unlink)(path); }
int mkdir(const char *path, mode_t mode) {
    return fails("mkdir", path) ? -1 : REAL(mkdir)(path, mode);
}
int chmod(const char *path, mode_t mode) {
    return fails("chmod", path) ? -1 : REAL(chmod)(path, mode);
}

#define OPEN(name)                                                     \
    int name(const char *path, int flags, ...) {                       \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                  \
        if ((flags & O_ACCMODE) != O_RDONLY && fails("open", path)) return -1; \
        return REAL(name)(path, flags, mode);                          \
    }
OPEN(open)
OPEN(open64)

int clock_gettime(clockid_t clock, struct timespec *now) {
    static long calls;
    int code = syscall(SYS_clock_gettime, clock, now);
    const char *after = getenv("FAULTS_CLOCK");
    if (after && clock == CLOCK_REALTIME && ++calls > atol(after)) now->tv_sec -= 24 * 60 * 60;
    return code;
}
