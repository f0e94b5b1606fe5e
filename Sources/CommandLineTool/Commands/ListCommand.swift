// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import CurlTransport
internal import ObjectStore
internal import Stores

/// `moorage list`: what a remote has, without mounting it.
enum ListCommand {
    static let definition = CommandDefinition(
        name: "list",
        operands: "REMOTE",
        operandCount: 1...1,
        flags: [
            FlagDefinition("o", "OPT[,OPT...]", "settings, as for moorage mount"),
            FlagDefinition("recursive", nil, "everything below, not only the folder's own names"),
            FlagDefinition("json", nil, "print one JSON document, an entry a line"),
        ],
        summary: "list what a remote has, without mounting it",
        details: """
            Prints a line for each object: its size in bytes, when it was last modified, and its key below REMOTE.
            Folders have a slash at their end, and - instead of size and time. Nothing of it is kept.
            """
    ) { arguments throws(CommandFailure) in
        let instance = try Instance.current()
        let name = arguments.operands[0]
        let volume: VolumeDescription
        do throws(ConfigurationError) {
            volume = try MountRequest(
                remote: name,
                mountpoint: "/",
                options: arguments.values("o"),
                instance: instance,
                environment: ProcessEnvironment.all()
            ).volume
        } catch {
            throw .usage("list: \(error.description)")
        }
        do {
            let transport = try CurlTransport(configuration: volume.transportConfiguration)
            let environment = ProcessEnvironment.all()
            let store = try volume.store(environment: environment, transport: transport, instance: instance)
            try list(store, isRecursive: arguments.has("recursive"), asJSON: arguments.has("json"))
            return 0
        } catch let failure as CommandFailure {
            throw failure
        } catch let error as StoreError {
            throw CommandFailure("list: \(name): \(error.advised(for: volume))")
        } catch {
            throw CommandFailure("list: \(name): \(error)")
        }
    }

    /// Prints page by page, so that any number of objects takes the memory of one page.
    private static func list(_ store: any ObjectStore, isRecursive: Bool, asJSON: Bool) throws {
        var continuation: String?
        var progress = ListingProgress()
        var isFirst = true
        repeat {
            let page = try store.list(.root, recursive: isRecursive, continuation: continuation)
            guard progress.leadsOn(page) else {
                throw StoreError(.protocolViolation, "the server's listing does not go on")
            }
            // Not before there is something to list: a script is not to read half a document beside an error.
            if asJSON, continuation == nil { Console.text("{\"entries\": [") }
            if asJSON { try show(page, &isFirst) } else { Console.text(text(page)) }
            // The reader left early.
            if Console.outputError != nil { return }
            continuation = page.next
        } while continuation != nil
        if asJSON { Console.text("\n]}\n") }
    }

    private static func show(_ page: ListingPage, _ isFirst: inout Bool) throws(CommandFailure) {
        var bytes: [UInt8] = []
        for entry in page.entries.map({ ListedEntry($0) }) + page.folders.map({ ListedEntry(folder: $0) }) {
            bytes += Array(isFirst ? "\n".utf8 : ",\n".utf8)
            isFirst = false
            do throws(ControlError) {
                bytes += try JSON.encode(entry, isPretty: false)
            } catch {
                throw CommandFailure("output: \(error.description)")
            }
        }
        Console.bytes(bytes)
    }

    private static func text(_ page: ListingPage) -> String {
        var lines = ""
        for entry in page.entries {
            let time = entry.version.lastModified?.rfc3339 ?? "-"
            lines += "\(entry.version.size) \(time) \(Console.oneLine(entry.key.string))\n"
        }
        for folder in page.folders { lines += "- - \(Console.oneLine(folder.string))/\n" }
        return lines
    }
}

/// One entry of `list --json`.
struct ListedEntry: Codable {
    /// Below REMOTE; a folder's ends with a slash.
    var key: String
    /// In bytes; null for a folder, as all others.
    var size: Int64?
    var modified: String?
    var etag: String?

    init(_ entry: ListingPage.Entry) {
        key = entry.key.string
        size = entry.version.size
        modified = entry.version.lastModified?.rfc3339
        etag = entry.version.entityTag?.fieldValue
    }

    init(folder: ObjectKey) { key = folder.string + "/" }

    private enum CodingKeys: String, CodingKey { case key, size, modified, etag }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(key, forKey: .key)
        try container.encode(size, forKey: .size)
        try container.encode(modified, forKey: .modified)
        try container.encode(etag, forKey: .etag)
    }
}
