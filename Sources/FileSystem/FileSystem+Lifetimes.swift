// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// How long the kernel may keep what it is told.
extension FileSystem {
    /// How long the names in a folder and their attributes may be kept from now on, in seconds, `kernelAge` at most.
    ///
    /// What others change is to be seen once what is known of a folder has aged. Were the kernel to keep a name for its whole
    /// time whenever it asks, both times would add up.
    package func lifetime(in folder: InodeNumber) -> Double {
        guard let inode = table[folder], let path = table.path(of: folder) else { return 0 }
        // Where the remote has nothing, nothing can have changed.
        if (try? isLocalOnly(inode)) ?? false { return options.kernelAge }
        return min(options.kernelAge, view.remainingAge(of: path))
    }

    package func lifetime(in folder: DirectoryHandle) -> Double { lifetime(in: folder.inode.number) }
}

extension RemoteView {
    /// For how long the names known of a folder are believed still, in seconds; for ever where they never are.
    fileprivate func remainingAge(of folder: ObjectKey) -> Double {
        let age = options.metadataAge
        return age > 0 ? listings.remainingAge(of: folder, age: age) : .infinity
    }
}
