// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims

extension FileDescriptor {
    /// A file in memory that has no path (memfd_create(2)); `name` shows in `/proc`.
    package static func inMemory(_ name: String) throws(SystemError) -> FileDescriptor {
        FileDescriptor(owning: try retryingOnInterrupt("memfd_create") { moorage_memfd(name) })
    }
}
