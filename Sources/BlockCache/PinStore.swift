// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
internal import Platform

/// The pins of a volume in its state folder, shared by the mount and commands.
package struct PinStore: Sendable {
    private let path: String

    /// `path` is the file's; its progress and its lock are beside it.
    package init(path: String) {
        self.path = path
    }

    /// The list; one that cannot be read is not an empty one.
    package func load() throws(SystemError) -> PinList {
        do throws(SystemError) {
            return PinList(parsing: try Files.read(path, limit: 64 << 20))
        } catch {
            guard error.code == ENOENT else { throw error }
            return PinList()
        }
    }

    /// Changes when the list may have: to be compared only.
    package var revision: [Int64] {
        guard let status = (try? FileStatus.of(path)) ?? nil else { return [] }
        return [Int64(bitPattern: status.inode), status.changed.nanoseconds, status.size]
    }

    /// Changes the list alone among all processes, when `body` says so.
    package func change(_ body: (inout PinList) -> Bool) throws(SystemError) -> Bool {
        let lock = try exclusive()
        defer { lock.release() }
        var list = try load()
        guard body(&list) else { return false }
        try Files.removeAbandoned(of: path)
        try Files.writeAtomically(path, list.text)
        return true
    }

    // MARK: Progress

    /// Takes away what a mount left that was killed while it told; for the volume's one mount, before it tells.
    package func removeAbandoned() throws(SystemError) {
        try Files.removeAbandoned(of: path + ".progress")
    }

    /// Tells commands how far the pins have come.
    package func tell(_ progress: [PinProgress]) throws(SystemError) {
        var text: [UInt8] = []
        for pin in progress {
            var list = PinList()
            _ = list.insert(pin.path)
            let problem = (pin.problem ?? "").map { $0.isNewline ? " " : $0 }
            text += Array("\(pin.files) \(pin.bytesPresent) \(pin.bytesTotal) \(String(problem))\n".utf8) + list.text
        }
        // What a failing disk did not let go of the last time.
        try removeAbandoned()
        try Files.writeAtomically(path + ".progress", text)
    }

    /// What the mount told last.
    package func progress() -> [PinProgress] {
        guard let text = try? Files.read(path + ".progress", limit: 64 << 20) else { return [] }
        let lines = text.split(separator: UInt8(ascii: "\n"))
        return stride(from: 0, to: lines.count - 1, by: 2).compactMap { index in
            let words = String(decoding: lines[index], as: UTF8.self)
                .split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false)
            guard words.count == 4, let files = Int(words[0]), let present = Int64(words[1]),
                let total = Int64(words[2]), let path = PinList(parsing: Array(lines[index + 1])).paths.first
            else { return nil }
            var result = PinProgress(path: path)
            (result.files, result.bytesPresent, result.bytesTotal) = (files, present, total)
            result.problem = words[3].isEmpty ? nil : String(words[3])
            return result
        }
    }

    private func exclusive() throws(SystemError) -> HeldFileLock {
        for _ in 0..<500 {
            if let lock = try FileLock(acquiring: path + ".lock") { return HeldFileLock(lock) }
            usleep(10_000)
        }
        throw SystemError.make(EBUSY, "lock", path)
    }
}

/// Keeps a lock up to the call of ``release()``.
private final class HeldFileLock {
    private let lock: FileLock

    init(_ lock: consuming FileLock) {
        self.lock = lock
    }

    func release() {}
}
