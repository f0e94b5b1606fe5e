// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
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
            try list(store, isRecursive: arguments.has("recursive"))
            return 0
        } catch {
            throw CommandFailure("list: \(name): \(error)")
        }
    }

    /// Prints page by page, so that any number of objects takes the memory of one page.
    private static func list(_ store: any ObjectStore, isRecursive: Bool) throws(StoreError) {
        var continuation: String?
        var progress = ListingProgress()
        repeat {
            let page = try store.list(.root, recursive: isRecursive, continuation: continuation)
            guard progress.leadsOn(page) else {
                throw StoreError(.protocolViolation, "the server's listing does not go on")
            }
            Console.text(text(page))
            // The reader left early.
            if Console.outputError != nil { return }
            continuation = page.next
        } while continuation != nil
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
