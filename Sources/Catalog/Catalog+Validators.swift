// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Database

extension Catalog {
    /// Has every file looked up again that is known by a weak entity tag beginning with `prefix` only.
    ///
    /// Such tags are made up for answers that one process saw, and mean nothing to the next.
    package func forgetWeakVersions(prefix: String) throws(DatabaseError) {
        try write { entries throws(DatabaseError) in
            try entries.connection.run(
                "UPDATE entry SET has_metadata = 0 WHERE kind = 0 AND substr(tag, 1, ?) = ?",
                [.integer(Int64(prefix.utf8.count + 1)), .text("W\(prefix)")]
            )
        }
    }
}
