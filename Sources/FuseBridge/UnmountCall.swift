// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc

/// Unmounting, by the means that this user has.
enum UnmountCall {
    /// umount(2) for root, the setuid helper fusermount3(1) for others; false when it is in use or fails otherwise.
    static func unmount(_ path: String) -> Bool {
        if umount2(path, 0) == 0 { return true }
        guard errno == EPERM else { return false }
        let words = ["fusermount3", "-u", "-q", "--", path]
        var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var pid: pid_t = 0
        guard posix_spawnp(&pid, words[0], nil, nil, &arguments, environ) == 0 else { return false }
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0 {
            guard errno == EINTR else { return false }
        }
        return status == 0
    }
}
