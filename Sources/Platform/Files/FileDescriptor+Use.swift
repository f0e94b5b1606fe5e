// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CShims

/// A sign to other openings of the same file, also of other processes, that this one reads it; gone with its last descriptor,
/// however that ends.
extension FileDescriptor {
    /// The byte whose lock is the sign (fcntl(2), F_OFD_SETLK): behind all that a file may hold.
    private static let sign: Int64 = (1 << 62) - 1

    /// Puts up the sign; where the file system has no locks nobody sees it.
    package func noteUse() { _ = moorage_ofd_lock_byte(raw, Self.sign) }

    /// Whether another opening of the file has put up the sign.
    package var isNotedInUse: Bool { moorage_ofd_lock_byte_test(raw, Self.sign) == 1 }
}
