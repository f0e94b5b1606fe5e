// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Database
internal import Journal
internal import ObjectStore
internal import Platform

/// Notes in the volume's catalog what the flusher did and saw.
///
/// The catalog may be deleted, full or damaged at any time: a failure is logged, the mount asks the remote then.
struct CatalogAdapter: CatalogSink {
    let catalog: Catalog

    func committed(
        _ path: ObjectKey,
        version: ObjectVersion,
        attributes: FileAttributes?,
        others: OtherMetadata,
        target: ObjectKey?,
        generation: GenerationID?,
        source: (path: ObjectKey, version: ObjectVersion)?
    ) {
        note(path) { () throws(DatabaseError) in
            try catalog.committed(
                path,
                version: version,
                metadata: attributes.map { ObjectMetadata($0) },
                others: others,
                target: target,
                generation: generation?.value,
                source: source,
                at: .now()
            )
        }
    }

    func removed(_ path: ObjectKey) {
        note(path) { () throws(DatabaseError) in try catalog.removed(path, at: .now()) }
    }

    func committedDirectory(_ path: ObjectKey, attributes: FileAttributes, others: OtherMetadata) {
        note(path) { () throws(DatabaseError) in
            try catalog.committedDirectory(
                path,
                // Markers put within a second look alike: one of ours is not believed for its tag and time.
                version: nil,
                metadata: ObjectMetadata(attributes),
                others: others,
                at: .now()
            )
        }
    }

    func removedDirectory(_ path: ObjectKey) {
        note(path) { () throws(DatabaseError) in try catalog.removedDirectory(path, at: .now()) }
    }

    func moment() -> CatalogToken? { try? catalog.token() }

    func found(_ path: ObjectKey, _ status: ObjectStatus?, since moment: CatalogToken?) {
        note(path) { () throws(DatabaseError) in
            let token = if let moment { moment } else { try catalog.token() }
            guard let status else {
                _ = try catalog.markAbsent(path, since: token, at: .now())
                return
            }
            _ = try catalog.store(CatalogEntry(path: path, status, checkedAt: .now()), since: token)
        }
    }

    func known(_ path: ObjectKey) -> CatalogEntry? { try? catalog.entry(path) }

    private func note(_ path: ObjectKey, _ body: () throws(DatabaseError) -> Void) {
        do throws(DatabaseError) {
            try body()
        } catch {
            Log.warning("flusher", "the catalog does not take in \(path): \(error)")
        }
    }
}
