// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Configuration
internal import Control
internal import CurlTransport
internal import ObjectStore
internal import Platform
internal import Stores

/// What `moorage doctor` says of one volume: its remote, what that can do, and what waits.
enum VolumeExamination {
    static func findings(_ volume: VolumeDescription, _ instance: Instance) -> [Finding] {
        remote(volume, instance) + [local(volume, instance)] + setAside(volume, instance) + hidden(volume, instance)
    }

    /// What recoveries left for a person: nobody takes it away, and nothing else tells of it.
    private static func setAside(_ volume: VolumeDescription, _ instance: Instance) -> [Finding] {
        let folder = instance.directories.places(of: volume).quarantine
        do throws(SystemError) {
            let names = try FileStatus.of(folder) == nil ? [] : Files.names(in: folder).map { "\(folder)/\($0.string)" }
            // A damaged journal whose rows are still being saved is not to be touched.
            var items: [String] = []
            for path in names where try FileStatus.of(path + "/salvaged.sqlite") == nil { items.append(path) }
            guard !items.isEmpty else { return [] }
            let bytes = ([folder] + items).map(Files.occupiedBytes).reduce(0, +)
            let text =
                "\(volume.remote): \(counted(items.count, "item")), \(humanBytes(bytes)), set aside in \(folder) after a "
                + "kill, a power failure or damage to the journal; keep what you need of it, and delete the rest"
            return [Finding(verdict: .notice, text: text)]
        } catch {
            return [Finding(verdict: .bad, text: "\(volume.remote): \(error)")]
        }
    }

    /// How many folders are named of those that hold objects which are not shown.
    private static let namedFolders = 5

    private static func hidden(_ volume: VolumeDescription, _ instance: Instance) -> [Finding] {
        let places = instance.directories.places(of: volume)
        do {
            let found = try Catalog.hidden(inDirectory: places.cache, marks: places.state, folders: namedFolders)
            guard let found, found.count > 0 else { return [] }
            let names = found.folders.map { "/\($0.string)" }.joined(separator: ", ")
            let text =
                "\(volume.remote): \(counted(found.count, "object")) of the folders listed so far cannot be shown (names "
                + "that no file can have, files with the name of a folder, folders with content), in \(names); rename "
                + "them at the remote"
            return [Finding(verdict: .notice, text: text)]
        } catch {
            return [Finding(verdict: .notice, text: "\(volume.remote): \(error); the mount will begin a new one")]
        }
    }

    private static func remote(_ volume: VolumeDescription, _ instance: Instance) -> [Finding] {
        let place = volume.url ?? "\(volume.remote) at \(volume.endpoint ?? "Amazon S3")"
        do {
            let transport = try CurlTransport(configuration: volume.transportConfiguration)
            let environment = ProcessEnvironment.all()
            let store = try volume.store(environment: environment, transport: transport, instance: instance)
            try store.check()
            if let web = store as? HTTPStore { return [learned(web, place)] }
            return [Finding(verdict: .good, text: "\(place): answers"), learned(store.capabilities, place)]
        } catch let error as StoreError {
            let wait = volume.url == nil && error.cause == .unreachable ? "; uploads wait until it answers" : ""
            return [Finding(verdict: .bad, text: "\(place): \(error.advised(for: volume))\(wait)")]
        } catch {
            return [Finding(verdict: .bad, text: "\(place): \(error)")]
        }
    }

    private static func learned(_ web: HTTPStore, _ place: String) -> Finding {
        let ability = web.canList ? "lists its folders" : "does not list its folders: files open by their paths only"
        return Finding(verdict: web.canList ? .good : .notice, text: "\(place): answers, read-only, \(ability)")
    }

    private static func learned(_ capabilities: StoreCapabilities, _ place: String) -> Finding {
        var known: [String] = []
        func note(_ name: String, _ value: Bool?) {
            if let value { known.append("\(name): \(value ? "yes" : "no")") }
        }
        note("conditional writes", capabilities.conditionalWrites)
        note("copies", capabilities.copy)
        note("multipart", capabilities.multipart)
        switch capabilities.resumableUpload {
        case .unknown: break
        case .none: known.append("resumable uploads: no")
        case .version: known.append("resumable uploads: yes")
        }
        return Finding(
            verdict: capabilities.conditionalWrites == false ? .notice : .good,
            text: "\(place): "
                + (known.isEmpty ? "what it can do is learned with the first uploads" : known.joined(separator: ", "))
        )
    }

    private static func local(_ volume: VolumeDescription, _ instance: Instance) -> Finding {
        let report = JournalReader.report(volume, instance.directories)
        if let error = report.error { return Finding(verdict: .bad, text: "\(volume.remote): journal: \(error)") }
        let place = report.mountpoint.map { "mounted on \($0)" } ?? "not mounted"
        let attention = report.attention > 0 ? ", \(report.attention) need attention: see moorage uploads" : ""
        return Finding(
            verdict: report.attention > 0 ? .notice : .good,
            text: "\(volume.remote): \(place), \(counted(report.pending.files, "file")) pending\(attention)"
        )
    }
}
