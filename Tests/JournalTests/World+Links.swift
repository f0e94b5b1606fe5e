// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Journal
import TestSupport

/// Files with several names.
extension World {
    /// Gives a file one more name.
    func linkFile() throws {
        guard let name = random.pick(filesAndLinks), let target = freePath() else { return }
        try linkFile(name, target)
    }

    func linkFile(_ name: ObjectKey, _ target: ObjectKey) throws {
        let source = try first(name)
        note("link \(allNames(of: source)) \(target)")
        let attributes: FileAttributes
        switch model[source] {
        case .file(_, let own), .link(_, let own): attributes = own
        default: return
        }
        _ = try journal.link(
            source,
            to: target,
            attributes: attributes,
            sourceRemote: remoteState(source),
            targetRemote: remoteState(target)
        )
        fileOf[target] = fileOf[source]
        model[target] = model[source]
    }

    /// The name of a file that its row and its content are by.
    func first(_ path: ObjectKey) throws -> ObjectKey { try journal.linked(at: path)?.first ?? path }

    /// All names of the file at a path, itself among them.
    func names(of path: ObjectKey) -> [ObjectKey] {
        guard let file = fileOf[path] else { return [path] }
        return fileOf.filter { $0.value == file }.keys.sorted()
    }

    /// The same as words of a trace.
    func allNames(of path: ObjectKey) -> String { names(of: path).map { "\($0)" }.joined(separator: " ") }

    func setModel(_ path: ObjectKey, _ entry: Entry?) {
        for name in names(of: path) { model[name] = entry }
    }

    /// Has a further name of a file become a copy of the object by its first.
    func copyLink(_ node: JournalNode) throws {
        guard let first = try journal.firstName(of: node.path) else { throw Failure("\(node.path): of no file") }
        guard let object = objects[first] else { throw Failure("\(node.path): \(first) is not at the remote") }
        note("copy-link \(node.path)")
        guard try journal.copyLink(node, from: first, object.version, object.attributes) != nil else {
            throw Failure("\(node.path): no copy of \(first)")
        }
    }

    /// Learns from the journal which names are of one file.
    func learnLinks() throws {
        fileOf = [:]
        var numbers: [Int64: Int] = [:]
        for path in filesAndLinks {
            guard let link = try journal.linkedName(at: path) else {
                fileOf[path] = newFile()
                continue
            }
            let file = numbers[link.file] ?? newFile()
            (numbers[link.file], fileOf[path]) = (file, file)
        }
    }

    /// In the end the remote has each file by each of its names.
    func checkRemote() throws {
        for (path, entry) in model {
            switch entry {
            case .file(let content, let attributes):
                guard let object = objects[path], object.content == content, object.attributes == attributes else {
                    throw Failure("\(path): the remote has \(String(describing: objects[path])) instead of \(entry)")
                }
            case .link(let target, _):
                guard objects[path]?.content == target.bytes else { throw Failure("\(path): not at the remote") }
            case .directory: break
            }
        }
        for path in objects.keys where model[path] == nil { throw Failure("\(path) is left at the remote") }
    }
}
