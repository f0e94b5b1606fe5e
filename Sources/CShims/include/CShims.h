// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors
//
// Linux calls and macros that Swift's Glibc overlay does not import (variadic
// functions, _GNU_SOURCE declarations, computed constants). No logic here.
#ifndef MOORAGE_CSHIMS_H
#define MOORAGE_CSHIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

extern const int moorage_RENAME_NOREPLACE;
extern const int moorage_RENAME_EXCHANGE;
extern const int moorage_O_TMPFILE;
extern const int moorage_O_PATH;
extern const int moorage_O_CLOEXEC;
extern const int moorage_O_NOFOLLOW;
extern const int moorage_O_DIRECT;
extern const int moorage_O_DIRECTORY;
extern const int moorage_SEEK_DATA;
extern const int moorage_SEEK_HOLE;
extern const int moorage_FALLOC_FL_KEEP_SIZE;
extern const int moorage_FALLOC_FL_PUNCH_HOLE;
extern const int moorage_FALLOC_FL_ZERO_RANGE;
extern const unsigned long moorage_FICLONE;

int moorage_renameat2(int old_dir, const char *_Nonnull old_path, int new_dir, const char *_Nonnull new_path,
                      unsigned int flags);
ssize_t moorage_copy_file_range(int source, int64_t *_Nullable source_offset, int target,
                                int64_t *_Nullable target_offset, size_t length, unsigned int flags);
int moorage_fallocate(int fd, int mode, int64_t offset, int64_t length);
int moorage_ficlone(int target, int source);
int moorage_syncfs(int fd);
/// The first part of `from ..< end` that the file system keeps as unwritten (ioctl_fiemap(2)): 1 with it in `start` and
/// `count`, 0 when there is none or none can be told, -1 with errno.
int moorage_unwritten_extent(int fd, uint64_t from, uint64_t end, uint64_t *_Nonnull start,
                             uint64_t *_Nonnull count);
/// Gives the calling thread descriptors of its own, at first the standard streams alone (close_range(2)).
int moorage_own_descriptors(void);
/// Lets the kernel read a file instead of a FUSE server (FUSE_DEV_IOC_BACKING_OPEN): a number above 0, or -1 with errno.
int moorage_fuse_backing_open(int session, int file);
/// Forgets such a number (FUSE_DEV_IOC_BACKING_CLOSE).
int moorage_fuse_backing_close(int session, int backing);

ssize_t moorage_getxattr(const char *_Nonnull path, const char *_Nonnull name, void *_Nullable value, size_t size);
ssize_t moorage_fgetxattr(int fd, const char *_Nonnull name, void *_Nullable value, size_t size);
int moorage_setxattr(const char *_Nonnull path, const char *_Nonnull name, const void *_Nonnull value, size_t size,
                     int flags);
int moorage_fsetxattr(int fd, const char *_Nonnull name, const void *_Nonnull value, size_t size, int flags);
int moorage_fremovexattr(int fd, const char *_Nonnull name);
ssize_t moorage_flistxattr(int fd, char *_Nullable list, size_t size);

/// openat2(2) that stays beneath `dir` and follows no symbolic link, close-on-exec: the descriptor, or -1 with errno.
int moorage_open_beneath(int dir, const char *_Nonnull path, int flags);

/// Sets or tests an open-file-description lock on the whole file: 0, or -1 with errno.
int moorage_ofd_lock(int fd, int exclusive);
/// Lets go of the lock for every descriptor of this open file, a child's before its exec too: 0, or -1 with errno.
int moorage_ofd_unlock(int fd);
/// Takes an open-file-description lock on one byte, shared with others that do: 0, or -1 with errno.
int moorage_ofd_lock_byte(int fd, int64_t offset);
/// Lets go of it: 0, or -1 with errno.
int moorage_ofd_unlock_byte(int fd, int64_t offset);
/// 1 when another open file description has a lock on the byte, 0 when none has, -1 with errno.
int moorage_ofd_lock_byte_test(int fd, int64_t offset);
/// What lock of another open file description is on the byte: 0 none, 1 shared, 2 exclusive, -1 with errno.
int moorage_ofd_lock_byte_kind(int fd, int64_t offset);

/// 0 when core dumps and ptrace by others are off for this process.
int moorage_disable_core_dumps(void);
/// A file in memory without a name, closed on exec (memfd_create(2)), or -1 with errno.
int moorage_memfd(const char *_Nonnull name);
int moorage_set_thread_name(const char *_Nonnull name);
int64_t moorage_get_thread_id(void);
/// A signal's name without SIG (sigabbrev_np(3)), NULL where it has none.
const char *_Nullable moorage_signal_name(int signal);
/// accept4(2) with SOCK_CLOEXEC: no child process that another thread starts meanwhile inherits the connection.
///
/// `address` has room for `length` bytes, which becomes its length.
int moorage_accept(int listener, void *_Nullable address, unsigned int *_Nullable length);
/// dup3(2) with O_CLOEXEC.
int moorage_dup_onto(int from, int to);
/// splice(2) at the current places.
ssize_t moorage_splice(int from, int to, size_t length, unsigned int flags);
/// What this thread works for, as it was set last; NULL at first.
void *_Nullable moorage_thread_purpose(void);
void moorage_set_thread_purpose(void *_Nullable purpose);
/// The same of work in the background, which serves no request.
void *_Nullable moorage_thread_work(void);
void moorage_set_thread_work(void *_Nullable work);

/// Memory of `size` bytes (always the same) that belongs to this thread until it ends, not initialised; NULL while the thread
/// uses it already, or when there is none.
void *_Nullable moorage_take_thread_buffer(size_t size);
void moorage_return_thread_buffer(void *_Nonnull buffer);
ssize_t moorage_getrandom(void *_Nonnull buffer, size_t length);
/// The uid and pid of the peer of a unix socket: 0, or -1 with errno.
int moorage_peer_credentials(int fd, uint32_t *_Nonnull uid, int32_t *_Nonnull pid);

/// An eventfd(2), closed on exec and never blocking, or -1 with errno.
int moorage_eventfd(void);
/// A netlink(7) socket that hears of changes of links, addresses and routes; close-on-exec, non-blocking. -1 with errno.
int moorage_route_monitor(void);
/// A netlink(7) socket that hears of the kernel's events about devices, as udev does. -1 with errno.
int moorage_device_monitor(void);
/// The index of the interface that traffic to a numerical address would leave by, asked of the kernel with
/// RTM_GETROUTE; 0 when there is no way, -1 with errno when it does not tell.
int moorage_route_interface(const char *_Nonnull address);

/// What TCP knows of a connection's path (tcp(7), TCP_INFO), in microseconds and bytes.
struct moorage_path_info {
    /// The round trip, smoothed, its mean deviation from that, and the shortest seen in the last minutes.
    uint32_t round_trip, round_trip_deviation, shortest_round_trip;
    /// Segments sent again since the connection began.
    uint32_t retransmitted;
    /// How many bytes a second arrived lately.
    uint64_t delivery_rate;
    /// Bytes that the other side acknowledged since the connection began.
    uint64_t acknowledged;
    /// How many bytes a segment holds that is sent.
    uint32_t segment;
    /// Whether the other side is this machine: what is sent takes no line.
    bool is_local;
};
/// 0, or -1 with errno.
int moorage_path_info(int fd, struct moorage_path_info *_Nonnull info);

/// ioprio_set(2) for the calling thread and those it starts: the class (2 best effort, 3 idle) and the level in it (0 to
/// 7, the last is the lowest): 0, or -1 with errno.
int moorage_set_io_priority(int kind, int level);

/// Has malloc(3) keep little of what is freed: two arenas however many threads, and what is large goes back to the
/// kernel at once (mallopt(3)).
void moorage_keep_heap_small(void);

// Numbers in memory that processes share.
static inline int64_t moorage_atomic_load(const int64_t *_Nonnull number) {
    return __atomic_load_n(number, __ATOMIC_SEQ_CST);
}
static inline void moorage_atomic_store(int64_t *_Nonnull number, int64_t value) {
    __atomic_store_n(number, value, __ATOMIC_SEQ_CST);
}
/// Whether the number was `expected`, and is `value` now.
static inline int moorage_atomic_replace(int64_t *_Nonnull number, int64_t expected, int64_t value) {
    return __atomic_compare_exchange_n(number, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

#endif
