// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

#define _GNU_SOURCE
#include "CShims.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/rtnetlink.h>
#include <linux/tcp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

const int moorage_RENAME_NOREPLACE = RENAME_NOREPLACE;
const int moorage_RENAME_EXCHANGE = RENAME_EXCHANGE;
const int moorage_O_TMPFILE = O_TMPFILE;
const int moorage_O_PATH = O_PATH;
const int moorage_O_CLOEXEC = O_CLOEXEC;
const int moorage_O_NOFOLLOW = O_NOFOLLOW;
const int moorage_O_DIRECT = O_DIRECT;
const int moorage_O_DIRECTORY = O_DIRECTORY;
const int moorage_SEEK_DATA = SEEK_DATA;
const int moorage_SEEK_HOLE = SEEK_HOLE;
const int moorage_FALLOC_FL_KEEP_SIZE = FALLOC_FL_KEEP_SIZE;
const int moorage_FALLOC_FL_PUNCH_HOLE = FALLOC_FL_PUNCH_HOLE;
const int moorage_FALLOC_FL_ZERO_RANGE = FALLOC_FL_ZERO_RANGE;
const unsigned long moorage_FICLONE = FICLONE;

int moorage_renameat2(int old_dir, const char *old_path, int new_dir, const char *new_path, unsigned int flags) {
    return renameat2(old_dir, old_path, new_dir, new_path, flags);
}

ssize_t moorage_copy_file_range(int source, int64_t *source_offset, int target, int64_t *target_offset,
                                size_t length, unsigned int flags) {
    return copy_file_range(source, (off64_t *)source_offset, target, (off64_t *)target_offset, length, flags);
}

int moorage_fallocate(int fd, int mode, int64_t offset, int64_t length) {
    return fallocate(fd, mode, offset, length);
}

int moorage_syncfs(int fd) { return syncfs(fd); }

// Newer than the kernel headers of Debian 12: struct fuse_backing_map and its numbers, of linux/fuse.h.
int moorage_fuse_backing_open(int session, int file) {
    struct {
        int32_t fd;
        uint32_t flags;
        uint64_t padding;
    } map = {.fd = file};
    return ioctl(session, _IOW(229, 1, __typeof__(map)), &map);
}

int moorage_fuse_backing_close(int session, int backing) {
    uint32_t number = (uint32_t)backing;
    return ioctl(session, _IOW(229, 2, uint32_t), &number);
}

int moorage_ficlone(int target, int source) { return ioctl(target, FICLONE, source); }

int moorage_unwritten_extent(int fd, uint64_t from, uint64_t end, uint64_t *start, uint64_t *count) {
    enum { capacity = 64 };
    union {
        struct fiemap map;
        char bytes[sizeof(struct fiemap) + capacity * sizeof(struct fiemap_extent)];
    } answer;
    while (from < end) {
        memset(&answer, 0, sizeof answer);
        answer.map.fm_start = from;
        answer.map.fm_length = end - from;
        answer.map.fm_extent_count = capacity;
        if (ioctl(fd, FS_IOC_FIEMAP, &answer.map) != 0) return errno == EOPNOTSUPP || errno == ENOTTY ? 0 : -1;
        if (answer.map.fm_mapped_extents == 0) return 0;
        for (uint32_t index = 0; index < answer.map.fm_mapped_extents; index++) {
            const struct fiemap_extent *extent = &answer.map.fm_extents[index];
            const uint64_t extent_end = extent->fe_logical + extent->fe_length;
            if (extent->fe_logical >= end) return 0;
            if (extent->fe_flags & FIEMAP_EXTENT_UNWRITTEN && extent_end > from) {
                *start = extent->fe_logical > from ? extent->fe_logical : from;
                *count = (extent_end < end ? extent_end : end) - *start;
                return 1;
            }
            if (extent->fe_flags & FIEMAP_EXTENT_LAST) return 0;
            // An extent that does not get on would be asked for without end.
            if (index + 1 == answer.map.fm_mapped_extents) from = extent_end > from ? extent_end : end;
        }
    }
    return 0;
}

int moorage_own_descriptors(void) { return close_range(3, ~0U, CLOSE_RANGE_UNSHARE); }

ssize_t moorage_getxattr(const char *path, const char *name, void *value, size_t size) {
    return getxattr(path, name, value, size);
}
ssize_t moorage_fgetxattr(int fd, const char *name, void *value, size_t size) {
    return fgetxattr(fd, name, value, size);
}
int moorage_setxattr(const char *path, const char *name, const void *value, size_t size, int flags) {
    return setxattr(path, name, value, size, flags);
}
int moorage_fsetxattr(int fd, const char *name, const void *value, size_t size, int flags) {
    return fsetxattr(fd, name, value, size, flags);
}
int moorage_fremovexattr(int fd, const char *name) { return fremovexattr(fd, name); }
ssize_t moorage_flistxattr(int fd, char *list, size_t size) { return flistxattr(fd, list, size); }

int moorage_open_beneath(int dir, const char *path, int flags) {
    struct open_how how = {.flags = (unsigned long long)flags | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

int moorage_ofd_lock(int fd, int exclusive) {
    struct flock lock = {.l_type = exclusive ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &lock);
}

int moorage_ofd_unlock(int fd) {
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &lock);
}

static int lock_byte(int fd, int64_t offset, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock);
}

int moorage_ofd_lock_byte(int fd, int64_t offset) { return lock_byte(fd, offset, F_RDLCK); }

int moorage_ofd_unlock_byte(int fd, int64_t offset) { return lock_byte(fd, offset, F_UNLCK); }

int moorage_ofd_lock_byte_test(int fd, int64_t offset) {
    int kind = moorage_ofd_lock_byte_kind(fd, offset);
    return kind > 0 ? 1 : kind;
}

int moorage_ofd_lock_byte_kind(int fd, int64_t offset) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};
    if (fcntl(fd, F_OFD_GETLK, &lock) != 0) {
        return -1;
    }
    if (lock.l_type == F_UNLCK) {
        return 0;
    }
    return lock.l_type == F_RDLCK ? 1 : 2;
}

int moorage_disable_core_dumps(void) {
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0) {
        return -1;
    }
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

int moorage_set_thread_name(const char *name) { return prctl(PR_SET_NAME, name, 0, 0, 0); }
int64_t moorage_get_thread_id(void) { return (int64_t)syscall(SYS_gettid); }
const char *moorage_signal_name(int signal) { return sigabbrev_np(signal); }
ssize_t moorage_getrandom(void *buffer, size_t length) { return getrandom(buffer, length, 0); }

int moorage_peer_credentials(int fd, uint32_t *uid, int32_t *pid) {
    struct ucred credentials;
    socklen_t length = sizeof(credentials);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
        return -1;
    }
    *uid = credentials.uid;
    *pid = credentials.pid;
    return 0;
}

int moorage_memfd(const char *name) { return memfd_create(name, MFD_CLOEXEC); }

int moorage_accept(int listener, void *address, unsigned int *length) {
    return accept4(listener, address, length, SOCK_CLOEXEC);
}

int moorage_dup_onto(int from, int to) { return dup3(from, to, O_CLOEXEC); }

ssize_t moorage_splice(int from, int to, size_t length, unsigned int flags) {
    return splice(from, NULL, to, NULL, length, flags);
}

static __thread void *thread_purpose;

void *moorage_thread_purpose(void) { return thread_purpose; }

void moorage_set_thread_purpose(void *purpose) { thread_purpose = purpose; }

static __thread void *thread_work;

void *moorage_thread_work(void) { return thread_work; }

void moorage_set_thread_work(void *work) { thread_work = work; }

// NULL while it is taken. The key's value frees it with the thread.
static __thread void *idle_buffer;
static __thread int has_buffer;
static pthread_key_t buffer_key;
static pthread_once_t buffer_once = PTHREAD_ONCE_INIT;
static int buffer_error;

static void make_buffer_key(void) { buffer_error = pthread_key_create(&buffer_key, free); }

void *moorage_take_thread_buffer(size_t size) {
    void *buffer = idle_buffer;
    if (buffer || has_buffer) {
        idle_buffer = NULL;
        return buffer;
    }
    pthread_once(&buffer_once, make_buffer_key);
    if (buffer_error || !(buffer = aligned_alloc(4096, size))) return NULL;
    if (pthread_setspecific(buffer_key, buffer) != 0) {
        free(buffer);
        return NULL;
    }
    has_buffer = 1;
    return buffer;
}

void moorage_return_thread_buffer(void *buffer) { idle_buffer = buffer; }

int moorage_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

static int netlink_monitor(int protocol, unsigned int groups) {
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    if (fd < 0) return -1;
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = groups};
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0) return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

int moorage_route_monitor(void) {
    return netlink_monitor(NETLINK_ROUTE, RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR |
                                              RTMGRP_IPV6_ROUTE);
}

int moorage_device_monitor(void) { return netlink_monitor(NETLINK_KOBJECT_UEVENT, 1); }

/// Reads the answer to RTM_GETROUTE: the interface, 0, or -1 with errno.
static int route_answer(int fd) {
    char buffer[8192] __attribute__((aligned(NLMSG_ALIGNTO)));
    ssize_t count = recv(fd, buffer, sizeof(buffer), 0);
    if (count < 0) return -1;
    size_t length = (size_t)count;
    for (struct nlmsghdr *head = (struct nlmsghdr *)buffer; NLMSG_OK(head, length); head = NLMSG_NEXT(head, length)) {
        if (head->nlmsg_type == NLMSG_ERROR) {
            errno = -((struct nlmsgerr *)NLMSG_DATA(head))->error;
            return errno == ENETUNREACH || errno == EHOSTUNREACH || errno == EACCES ? 0 : -1;
        }
        if (head->nlmsg_type != RTM_NEWROUTE) continue;
        struct rtmsg *route = NLMSG_DATA(head);
        size_t rest = RTM_PAYLOAD(head);
        for (struct rtattr *one = RTM_RTA(route); RTA_OK(one, rest); one = RTA_NEXT(one, rest))
            if (one->rta_type == RTA_OIF) return *(int *)RTA_DATA(one);
    }
    errno = ENODATA;
    return -1;
}

int moorage_route_interface(const char *address) {
    struct {
        struct nlmsghdr head;
        struct rtmsg route;
        struct rtattr attribute;
        unsigned char bytes[16];
    } request = {.head = {.nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST}};
    int is_v4 = inet_pton(AF_INET, address, request.bytes) == 1;
    if (!is_v4 && inet_pton(AF_INET6, address, request.bytes) != 1) {
        errno = EINVAL;
        return -1;
    }
    size_t size = is_v4 ? 4 : 16;
    request.route.rtm_family = is_v4 ? AF_INET : AF_INET6;
    request.route.rtm_dst_len = (unsigned char)(size * 8);
    request.attribute.rta_type = RTA_DST;
    request.attribute.rta_len = (unsigned short)RTA_LENGTH(size);
    request.head.nlmsg_len = NLMSG_LENGTH(sizeof(request.route)) + RTA_LENGTH(size);
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) return -1;
    int result = send(fd, &request, request.head.nlmsg_len, 0) < 0 ? -1 : route_answer(fd);
    int code = errno;
    close(fd);
    errno = code;
    return result;
}

/// Whether a connection goes to an address of this machine, by its two ends.
static bool is_local(int fd) {
    struct sockaddr_storage ours = {0}, theirs = {0};
    socklen_t size = sizeof(ours), other = sizeof(theirs);
    if (getsockname(fd, (struct sockaddr *)&ours, &size) != 0 || getpeername(fd, (struct sockaddr *)&theirs, &other) != 0) {
        return false;
    }
    if (theirs.ss_family == AF_INET) {
        in_addr_t from = ((struct sockaddr_in *)&ours)->sin_addr.s_addr;
        in_addr_t to = ((struct sockaddr_in *)&theirs)->sin_addr.s_addr;
        return from == to || ntohl(to) >> 24 == IN_LOOPBACKNET;
    }
    const struct in6_addr *from = &((struct sockaddr_in6 *)&ours)->sin6_addr;
    const struct in6_addr *to = &((struct sockaddr_in6 *)&theirs)->sin6_addr;
    return memcmp(from, to, sizeof(*to)) == 0 || (IN6_IS_ADDR_V4MAPPED(to) && to->s6_addr[12] == IN_LOOPBACKNET);
}

int moorage_path_info(int fd, struct moorage_path_info *info) {
    struct tcp_info known;
    socklen_t size = sizeof(known);
    memset(&known, 0, sizeof(known));
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &known, &size) != 0) return -1;
    info->round_trip = known.tcpi_rtt;
    info->round_trip_deviation = known.tcpi_rttvar;
    info->shortest_round_trip = known.tcpi_min_rtt;
    info->retransmitted = known.tcpi_total_retrans;
    info->delivery_rate = known.tcpi_delivery_rate;
    info->acknowledged = known.tcpi_bytes_acked;
    info->segment = known.tcpi_snd_mss;
    info->is_local = is_local(fd);
    return 0;
}

int moorage_set_io_priority(int kind, int level) {
    // IOPRIO_WHO_PROCESS 1, IOPRIO_CLASS_SHIFT 13; who 0 is the calling thread.
    return (int)syscall(SYS_ioprio_set, 1, 0, kind << 13 | level);
}

void moorage_keep_heap_small(void) {
    mallopt(M_ARENA_MAX, 2);
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
}
