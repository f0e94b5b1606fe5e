// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc

/// The descriptors that whoever started this process left open, or closed, for it.
package enum InheritedDescriptors {
    /// Makes them harmless; call it before anything is opened.
    ///
    /// For standard input, output and error that are closed /dev/null is opened: else the first files that we open get
    /// their numbers, and what is meant for a terminal or the log is written into a journal or a socket. All others are
    /// kept from the processes that we start, which would hold a caller's pipe or lock as long as they live.
    package static func settle() {
        for number in Int32(0)...2 where fcntl(number, F_GETFD) == -1 && errno == EBADF {
            // The lowest free number: this one.
            _ = open("/dev/null", O_RDWR)
        }
        for name in (try? Files.names(in: "/proc/self/fd")) ?? [] {
            guard let number = Int32(name.string), number > 2 else { continue }
            _ = fcntl(number, F_SETFD, FD_CLOEXEC)
        }
    }
}
