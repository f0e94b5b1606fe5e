// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors
//
// libfuse3's low-level API. The session functions are wrapped because newer
// libfuse releases turn them into macros, which Swift cannot import; the
// operations table is passed with the size of the header compiled against.
#ifndef MOORAGE_CFUSE_SHIM_H
#define MOORAGE_CFUSE_SHIM_H

#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fuse_lowlevel.h>
#include <fuse_opt.h>
#include <stddef.h>
#include <sys/stat.h>

static inline struct fuse_session *_Nullable moorage_fuse_session_new(
    struct fuse_args *_Nonnull args, const struct fuse_lowlevel_ops *_Nonnull ops, void *_Nullable userdata) {
    return fuse_session_new(args, ops, sizeof(*ops), userdata);
}

// Tells the kernel to ask for a name again before it uses it; the flag became part of the function in 3.16.
static inline int moorage_fuse_expire_entry(
    struct fuse_session *_Nonnull session, fuse_ino_t parent, const char *_Nonnull name, size_t length) {
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 16)
    return fuse_lowlevel_notify_expire_entry(session, parent, name, length);
#else
    return fuse_lowlevel_notify_expire_entry(session, parent, name, length, FUSE_LL_EXPIRE_ONLY);
#endif
}

// A bufvec of one file descriptor range, for a spliced reply.
static inline int moorage_fuse_reply_fd(fuse_req_t _Nonnull request, int fd, off_t offset, size_t length) {
    struct fuse_bufvec buffer = FUSE_BUFVEC_INIT(length);
    buffer.buf[0].flags = (enum fuse_buf_flags)(FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK | FUSE_BUF_FD_RETRY);
    buffer.buf[0].fd = fd;
    buffer.buf[0].pos = offset;
    return fuse_reply_data(request, &buffer, FUSE_BUF_SPLICE_MOVE);
}

// Copies what a write_buf request carries (memory or a pipe) to a file range.
static inline ssize_t moorage_fuse_buf_copy_to_fd(
    struct fuse_bufvec *_Nonnull source, int fd, off_t offset) {
    struct fuse_bufvec target = FUSE_BUFVEC_INIT(fuse_buf_size(source));
    target.buf[0].flags = (enum fuse_buf_flags)(FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK);
    target.buf[0].fd = fd;
    target.buf[0].pos = offset;
    return fuse_buf_copy(&target, source, (enum fuse_buf_copy_flags)0);
}

#endif
