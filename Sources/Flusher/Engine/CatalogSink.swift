// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import Catalog
package import Journal
package import ObjectStore

/// Where the flusher notes what the remote has, before it removes a journal row, so that no reader sees a gap.
///
/// Failures are the sink's to bear: what the catalog does not know is asked of the remote again.
package protocol CatalogSink: Sendable {
    /// We made the object at `path`; `attributes` are those it was sent with, nil where that is not certain, `others` what was
    /// sent beside them.
    func committed(
        _ path: ObjectKey,
        version: ObjectVersion,
        attributes: FileAttributes?,
        others: OtherMetadata,
        target: ObjectKey?,
        generation: GenerationID?,
        source: (path: ObjectKey, version: ObjectVersion)?
    )
    /// We deleted the object at `path`.
    func removed(_ path: ObjectKey)
    /// We made or renewed the marker of the folder at `path`.
    func committedDirectory(_ path: ObjectKey, attributes: FileAttributes, others: OtherMetadata)
    /// We deleted the marker of the folder at `path`.
    func removedDirectory(_ path: ObjectKey)
    /// A request showed what the remote has at `path`; nil: nothing.
    ///
    /// `moment`, from before the request where others may change the object meanwhile: what they noted since is newer.
    func found(_ path: ObjectKey, _ status: ObjectStatus?, since moment: CatalogToken?)
    /// The moment now; nil where nothing can be noted.
    func moment() -> CatalogToken?

    /// What the remote was last seen to have at a path; nil when that is not known.
    func known(_ path: ObjectKey) -> CatalogEntry?
}

extension CatalogSink {
    /// The same of a path that only the caller changes.
    func found(_ path: ObjectKey, _ status: ObjectStatus?) { found(path, status, since: nil) }
}
