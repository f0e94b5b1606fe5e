// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// The disk below the databases in a folder: it fails as it is told, and power loss leaves what was synced.
///
/// As the kernel does it: what could not be synced counts as written from then on, although the disk has nothing of it,
/// and is read as it was written while it stays in memory.
package final class DatabaseDisk: Sendable {
    /// What SQLite asks of a file.
    package struct Call: Hashable, Sendable {
        package enum Kind: Hashable, Sendable {
            case read
            case write
            case truncate
            case sync
        }

        package let kind: Kind
        /// The file's path within the folder.
        package let name: String
        package let offset: Int64
        package let count: Int64
    }

    /// Decides with which errno a call fails; 0 where it does not.
    package typealias Fault = @Sendable (Call) -> Int32

    struct State {
        var fault: Fault?
        var failures = 0
        var contents: [String: DiskContent] = [:]
    }

    let folder: String
    let state: Monitor<State>

    /// Stands below what is opened in a folder from here on, also deeper in it, until ``end()``.
    package init(folder: String) throws {
        self.folder = folder
        var contents: [String: DiskContent] = [:]
        for name in try Files.names(in: folder).map(\.string) {
            guard try FileStatus.of("\(folder)/\(name)")?.isRegularFile == true else { continue }
            contents[name] = DiskContent(stable: try Files.read("\(folder)/\(name)", limit: 1 << 28))
        }
        state = Monitor(State(contents: contents))
        DatabaseDisks.add(self)
    }

    /// Lets go of the folder; what is open in it by then stays as it is.
    package func end() { DatabaseDisks.remove(self) }

    /// Has calls fail from here on; nil heals the disk.
    package func fail(_ fault: Fault?) { state.update { $0.fault = fault } }

    /// How many calls have failed.
    package var failures: Int { state.inspect { $0.failures } }

    /// Puts what power loss now would leave of the folder's own files into another folder.
    ///
    /// Of the files that `isLucky` names everything had reached the disk that was not lost to a failed sync.
    package func lose(into target: String, where isLucky: (String) -> Bool = { _ in false }) throws {
        for (name, content) in state.inspect({ $0.contents }) where !name.contains("/") {
            var content = content
            if isLucky(name) { content.synchronize() }
            try Files.writeAtomically("\(target)/\(name)", content.stable)
        }
    }

    /// Takes what the disk does not have out of memory: it is read as the disk has it from here on, at its length.
    package func forget(_ name: String) throws {
        let path = "\(folder)/\(name)"
        guard let stable = state.inspect({ $0.contents[name]?.stable }), let status = try FileStatus.of(path) else {
            return
        }
        let file = try FileDescriptor.open(path, O_WRONLY | O_TRUNC)
        try file.write(stable)
        try file.truncate(to: max(status.size, Int64(stable.count)))
    }

    func errno(_ call: Call) -> Int32 {
        state.update { state in
            let code = state.fault?(call) ?? 0
            if code != 0 { state.failures += 1 }
            return code
        }
    }

    func note(_ name: String, _ body: (inout DiskContent) -> Void) {
        state.update { body(&$0.contents[name, default: DiskContent(stable: [])]) }
    }

    func noteRemoval(_ name: String) { state.update { $0.contents[name] = nil } }
}

/// What the disk has of a file, and what it is yet to get.
struct DiskContent {
    private enum Change {
        case write(offset: Int, bytes: [UInt8])
        case truncate(size: Int)
    }

    private(set) var stable: [UInt8]
    private var waiting: [Change] = []

    init(stable: [UInt8]) { self.stable = stable }

    mutating func write(_ bytes: [UInt8], at offset: Int64) {
        waiting.append(.write(offset: Int(offset), bytes: bytes))
    }

    mutating func truncate(to size: Int64) { waiting.append(.truncate(size: Int(size))) }

    /// A sync failed: what was waiting never gets there.
    mutating func drop() { waiting = [] }

    mutating func synchronize() {
        for change in waiting {
            switch change {
            case .truncate(let size): resize(size)
            case .write(let offset, let bytes):
                resize(max(stable.count, offset + bytes.count))
                stable.replaceSubrange(offset..<offset + bytes.count, with: bytes)
            }
        }
        waiting = []
    }

    private mutating func resize(_ size: Int) {
        if size < stable.count { stable.removeLast(stable.count - size) }
        stable += [UInt8](repeating: 0, count: size - stable.count)
    }
}
