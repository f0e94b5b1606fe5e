// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CFuse
internal import Glibc
internal import Platform

/// The table of operations that libfuse calls.
///
/// Each file of this module adds one family.
enum Operations {
    static func table() -> fuse_lowlevel_ops {
        var table = fuse_lowlevel_ops()
        table.`init` = { context, connection in
            guard let context, let connection else { return }
            Operations.negotiate(&connection.pointee)
            let bridge = Unmanaged<Bridge>.fromOpaque(context).takeUnretainedValue()
            bridge.directories.note(connection.pointee)
            bridge.kernelNames.note(connection.pointee)
        }
        addNames(to: &table)
        addAttributes(to: &table)
        addFiles(to: &table)
        addData(to: &table)
        addDirectories(to: &table)
        addExtendedAttributes(to: &table)
        return table
    }

    /// Largest read and write request, in bytes.
    static let maximumTransfer: UInt32 = 1 << 20

    /// How many reads ahead and other requests that nobody waits for by themselves may be under way at once.
    ///
    /// The kernel sends no more, not even those that the cache could answer. For mounts of users who are not root it has a
    /// bound of its own (`max_user_bgreq` of the module fuse).
    static let maximumBackground: UInt32 = 512

    private static func negotiate(_ connection: inout fuse_conn_info) {
        // max_read must equal the mount option, else the session ends at once.
        connection.max_read = maximumTransfer
        connection.max_write = maximumTransfer
        connection.max_background = maximumBackground
        connection.congestion_threshold = maximumBackground / 4 * 3
        let wanted =
            FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE | FUSE_CAP_ASYNC_READ
            | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS
            | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_DONT_MASK | FUSE_CAP_ASYNC_DIO
            | FUSE_CAP_EXPLICIT_INVAL_DATA
        // An inode's content changes through this kernel only, so a new time or size never means stale pages.
        connection.want = (connection.want | UInt32(wanted)) & connection.capable & ~UInt32(FUSE_CAP_AUTO_INVAL_DATA)
        // The kernel knows who may keep set-user-ID and set-group-ID bits at a write, a cut or a change of owner: it has
        // them cleared like any other change of the mode, unless somebody promised to do that unasked.
        connection.want &= ~UInt32(FUSE_CAP_HANDLE_KILLPRIV)
        // The kernel keeps writers away while it cuts a file, but not from an open(2) that cuts: a write that began at
        // the old end would leave zeros before it.
        connection.want &= ~UInt32(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_ATOMIC_O_TRUNC)
    }
}
