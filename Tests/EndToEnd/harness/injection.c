// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

// A library to be preloaded that counts the steps by which a process changes its disk or sends something, and makes
// one of them the last, or a failure. See injection.py for the settings.
//
// A tracer would do the same, but counts by thread and by call; here all threads count together. What differs from its
// neighbours in nothing that could matter is not counted: of SQLite's log only the frame that commits, of the pieces of
// a long content every 16th, of the answers to the kernel those with another step before them.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum action { COUNT, KILL, FAIL, SHORT };

static enum action action;
static bool enabled;
static long first, last, every;
static int code;
static char calls[512];
static char paths[2 * PATH_MAX];
static char until[PATH_MAX];
static int log_descriptor = -1;
static atomic_long steps;

static void read_command(char *text, size_t size) {
    int file = syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY);
    long count = file < 0 ? 0 : syscall(SYS_read, file, text, size - 2);
    if (file >= 0) syscall(SYS_close, file);
    if (count < 0) count = 0;
    text[count] = text[count + 1] = 0;
}

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

__attribute__((constructor)) static void begin(void) {
    char command[4096];
    read_command(command, sizeof command);
    const char *word = command + strlen(command) + 1;
    enabled = strcmp(word, setting("INJECT_COMMAND")) == 0;
    if (!enabled) return;
    const char *what = setting("INJECT_ACTION");
    action = !strcmp(what, "kill") ? KILL : !strcmp(what, "fail") ? FAIL : !strcmp(what, "short") ? SHORT : COUNT;
    first = atol(setting("INJECT_FIRST"));
    last = atol(setting("INJECT_LAST"));
    every = atol(setting("INJECT_EVERY"));
    code = atoi(setting("INJECT_ERRNO"));
    snprintf(calls, sizeof calls, "%s", setting("INJECT_CALLS"));
    snprintf(until, sizeof until, "%s", setting("INJECT_UNTIL"));
    snprintf(paths, sizeof paths, "%s", setting("INJECT_PATHS"));
    int opened = syscall(SYS_openat, AT_FDCWD, setting("INJECT_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    // Out of the way of descriptors that a parent hands on.
    if (opened >= 0) {
        log_descriptor = syscall(SYS_fcntl, opened, F_DUPFD_CLOEXEC, 200);
        syscall(SYS_close, opened);
    }
}

// Whether a word is in a list separated by spaces; an empty list has every word.
static bool listed(const char *list, const char *word) {
    size_t length = strlen(word);
    if (!*list) return true;
    for (const char *at = list; (at = strstr(at, word)); at += length) {
        bool begins = at == list || at[-1] == ' ';
        if (begins && (at[length] == ' ' || !at[length])) return true;
    }
    return false;
}

// Whether a path lies below one of the folders separated by colons, or is one of those other places.
static bool below(const char *path) {
    for (const char *at = paths; *at;) {
        size_t length = strcspn(at, ":");
        if (!strncmp(path, at, length)) return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static void note(const char *mark, long number, const char *call, const char *path) {
    char line[PATH_MAX + 128];
    int length = snprintf(line, sizeof line, "%s %ld %s %s\n", mark, number, call, path);
    if (log_descriptor < 0 || length <= 0) return;
    if (syscall(SYS_write, log_descriptor, line, length) >= 0 || errno != EBADF) return;
    // A thread with descriptors of its own.
    int opened = syscall(SYS_openat, AT_FDCWD, setting("INJECT_LOG"), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (opened < 0) return;
    syscall(SYS_write, opened, line, length);
    syscall(SYS_close, opened);
}

// Whether the trouble is over: a file says so.
static bool over(void) {
    return *until && syscall(SYS_faccessat, AT_FDCWD, until, F_OK) == 0;
}

// Counts a step; true when it is to fail. Never returns from the one that is to be the last.
static bool step(const char *call, const char *path) {
    if (!enabled || !listed(calls, call) || !below(path)) return false;
    int saved = errno;
    long number = atomic_fetch_add(&steps, 1) + 1;
    bool hit = action != COUNT && number >= first && number <= last && (number - first) % every == 0 && !over();
    note(hit ? "hit" : "step", number, call, path);
    if (hit && action == KILL) {
        syscall(SYS_kill, getpid(), SIGKILL);
        for (;;) pause();
    }
    errno = saved;
    return hit;
}

static const char *path_of(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/thread-self/fd/%d", descriptor);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    // Sockets have no name; those to other hosts and those between our processes are told apart.
    if (!strncmp(path, "socket:", 7)) {
        int domain = 0;
        socklen_t size = sizeof domain;
        getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size);
        strcpy(path, domain == AF_UNIX ? "control" : "network");
    }
    return path;
}

static bool step_on(const char *call, int descriptor) {
    if (!enabled) return false;
    char path[PATH_MAX];
    return step(call, path_of(descriptor, path));
}

static bool step_in(const char *call, int folder, const char *name) {
    if (!enabled) return false;
    if (name[0] == '/') return step(call, name);
    char path[2 * PATH_MAX];
    if (folder == AT_FDCWD) {
        if (!getcwd(path, PATH_MAX)) path[0] = 0;
    } else {
        path_of(folder, path);
    }
    strcat(path, "/");
    strncat(path, name, PATH_MAX - 1);
    return step(call, path);
}

#define ORIGINAL(name) \
    static __typeof__(name) *original; \
    if (!original) original = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int failed(void) {
    errno = code;
    return -1;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && !strcmp(text + length - wanted, end);
}

// Whether one write stands for its neighbours; `call` becomes `commit` where it makes a transaction of SQLite be.
//
// A frame of the log begins with 24 bytes; the second word is the size of the database when the frame commits.
static bool counts(const char *path, const void *bytes, size_t count, const char **call) {
    static atomic_long pieces;
    if (action == SHORT) return true;
    if (bytes && ends_with(path, "-wal")) {
        const unsigned char *frame = bytes;
        if (count != 24 || !(frame[4] | frame[5] | frame[6] | frame[7])) return false;
        *call = "commit";
        return true;
    }
    return count < 4096 || atomic_fetch_add(&pieces, 1) % 16 == 0;
}

static bool step_writing(const char *call, int descriptor, const void *bytes, size_t count) {
    if (!enabled) return false;
    char path[PATH_MAX];
    path_of(descriptor, path);
    return counts(path, bytes, count, &call) && step(call, path);
}

// A write that gets half of its bytes through, or fails.
#define WRITING(call, count) \
    do { \
        if (step_writing(call, descriptor, bytes, count)) { \
            if (action != SHORT) return failed(); \
            if ((count) > 1) (count) /= 2; \
        } \
    } while (0)

ssize_t write(int descriptor, const void *bytes, size_t count) {
    ORIGINAL(write);
    WRITING("write", count);
    return original(descriptor, bytes, count);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    ORIGINAL(pwrite);
    WRITING("pwrite", count);
    return original(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
    ORIGINAL(pwrite64);
    WRITING("pwrite", count);
    return original(descriptor, bytes, count, offset);
}

// Bytes of the cache that go past the kernel's memory; a short one gets half of its pieces through.
#define WRITING_PIECES() \
    do { \
        if (count > 0 && step_writing("pwrite", descriptor, vector[0].iov_base, vector[0].iov_len)) { \
            if (action != SHORT) return failed(); \
            if (count > 1) count /= 2; \
        } \
    } while (0)

ssize_t pwritev(int descriptor, const struct iovec *vector, int count, off_t offset) {
    ORIGINAL(pwritev);
    WRITING_PIECES();
    return original(descriptor, vector, count, offset);
}

ssize_t pwritev64(int descriptor, const struct iovec *vector, int count, off64_t offset) {
    ORIGINAL(pwritev64);
    WRITING_PIECES();
    return original(descriptor, vector, count, offset);
}

// Answers to the kernel's file system requests go out by this one.
ssize_t writev(int descriptor, const struct iovec *vector, int count) {
    ORIGINAL(writev);
    static atomic_long seen = -1;
    if (atomic_load(&seen) != atomic_load(&steps)) {
        if (step_on("writev", descriptor)) return failed();
        atomic_store(&seen, atomic_load(&steps));
    }
    return original(descriptor, vector, count);
}

// The moment after a request went out is one of its own: nobody waits for the answer.
ssize_t send(int descriptor, const void *bytes, size_t count, int flags) {
    ORIGINAL(send);
    WRITING("send", count);
    ssize_t result = original(descriptor, bytes, count, flags);
    if (action == KILL || action == COUNT) step_writing("sent", descriptor, bytes, count);
    return result;
}

ssize_t read(int descriptor, void *bytes, size_t count) {
    ORIGINAL(read);
    if (*calls && step_on("read", descriptor)) return failed();
    return original(descriptor, bytes, count);
}

ssize_t pread(int descriptor, void *bytes, size_t count, off_t offset) {
    ORIGINAL(pread);
    if (*calls && step_on("pread", descriptor)) return failed();
    return original(descriptor, bytes, count, offset);
}

ssize_t pread64(int descriptor, void *bytes, size_t count, off64_t offset) {
    ORIGINAL(pread64);
    if (*calls && step_on("pread", descriptor)) return failed();
    return original(descriptor, bytes, count, offset);
}

ssize_t copy_file_range(int from, off64_t *read_at, int descriptor, off64_t *write_at, size_t count, unsigned flags) {
    ORIGINAL(copy_file_range);
    if (step_on("copy_file_range", descriptor)) return failed();
    return original(from, read_at, descriptor, write_at, count, flags);
}

// What the kernel hands over of a write goes to its file without a look at it.
ssize_t splice(int from, off64_t *read_at, int descriptor, off64_t *write_at, size_t count, unsigned flags) {
    ORIGINAL(splice);
    const void *bytes = NULL;
    WRITING("splice", count);
    return original(from, read_at, descriptor, write_at, count, flags);
}

// Opening is a step where it may make something; in a search for errors every opening is.
static bool opening(int folder, const char *name, int flags) {
    if (!enabled || (action != FAIL && !(flags & O_CREAT))) return false;
    return step_in("open", folder, name);
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode = va_arg(arguments, mode_t); \
        va_end(arguments); \
    }

int open(const char *name, int flags, ...) {
    ORIGINAL(open);
    MODE(flags)
    if (opening(AT_FDCWD, name, flags)) return failed();
    return original(name, flags, mode);
}

int open64(const char *name, int flags, ...) {
    ORIGINAL(open64);
    MODE(flags)
    if (opening(AT_FDCWD, name, flags)) return failed();
    return original(name, flags, mode);
}

int openat(int folder, const char *name, int flags, ...) {
    ORIGINAL(openat);
    MODE(flags)
    if (opening(folder, name, flags)) return failed();
    return original(folder, name, flags, mode);
}

#define ON_DESCRIPTOR(result, name, call, parameters, arguments) \
    result name parameters { \
        ORIGINAL(name); \
        if (step_on(call, descriptor)) return failed(); \
        return original arguments; \
    }

ON_DESCRIPTOR(int, fsync, "fsync", (int descriptor), (descriptor))
ON_DESCRIPTOR(int, fdatasync, "fdatasync", (int descriptor), (descriptor))
ON_DESCRIPTOR(int, syncfs, "syncfs", (int descriptor), (descriptor))
ON_DESCRIPTOR(int, ftruncate, "ftruncate", (int descriptor, off_t size), (descriptor, size))
ON_DESCRIPTOR(int, ftruncate64, "ftruncate", (int descriptor, off64_t size), (descriptor, size))
ON_DESCRIPTOR(int, fallocate, "fallocate", (int descriptor, int mode, off_t offset, off_t size),
              (descriptor, mode, offset, size))
ON_DESCRIPTOR(int, fallocate64, "fallocate", (int descriptor, int mode, off64_t offset, off64_t size),
              (descriptor, mode, offset, size))
ON_DESCRIPTOR(int, fsetxattr, "fsetxattr",
              (int descriptor, const char *name, const void *value, size_t size, int flags),
              (descriptor, name, value, size, flags))

#define ON_NAME(name, call, folder, path, parameters, arguments) \
    int name parameters { \
        ORIGINAL(name); \
        if (step_in(call, folder, path)) return failed(); \
        return original arguments; \
    }

ON_NAME(rename, "rename", AT_FDCWD, to, (const char *from, const char *to), (from, to))
ON_NAME(renameat, "rename", target, to, (int source, const char *from, int target, const char *to),
        (source, from, target, to))
ON_NAME(renameat2, "rename", target, to, (int source, const char *from, int target, const char *to, unsigned flags),
        (source, from, target, to, flags))
ON_NAME(link, "link", AT_FDCWD, to, (const char *from, const char *to), (from, to))
ON_NAME(unlink, "unlink", AT_FDCWD, path, (const char *path), (path))
ON_NAME(unlinkat, "unlink", folder, path, (int folder, const char *path, int flags), (folder, path, flags))
ON_NAME(rmdir, "rmdir", AT_FDCWD, path, (const char *path), (path))
ON_NAME(mkdir, "mkdir", AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
