// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database

/// What became of contents that were sent: who has such a file open goes on with the object that it is now, also when
/// the catalog, which tells it too, is lost.
///
/// They are rows of `released`, negative once the generation is gone: an upload costs no row more.
extension Journal {
    /// The object that a generation has become; nil before it was sent.
    ///
    /// Known until the next mount, of the 4096 newest generations.
    package func arrival(of generation: GenerationID) throws(JournalError) -> (key: ObjectKey, version: ObjectVersion)?
    {
        try read(.generation(generation)) { tables throws(JournalError) in try tables.arrival(of: generation) }
    }
}

extension Tables {
    private static let knownArrivals: Int64 = 4096

    func arrival(
        of generation: GenerationID
    ) throws(JournalError) -> (key: ObjectKey, version: ObjectVersion)? {
        let sql = """
            SELECT key, tag, size, modified FROM released WHERE generation IN (?, ?) AND key IS NOT NULL
            ORDER BY generation LIMIT 1
            """
        return try connection.first(sql, [.integer(-generation.value), .integer(generation.value)]) { row in
            (row.key(0), Encoding.version(row, 1))
        }
    }

    /// Notes that a generation has the very bytes of an object, before it gets them itself: what it becomes once it is
    /// sent, those are then that showed the object.
    func noteArrival(
        of generation: GenerationID,
        _ object: (key: ObjectKey, version: ObjectVersion)
    ) throws(JournalError) {
        try connection.run(
            "INSERT OR REPLACE INTO released VALUES (?, ?, ?, ?, ?)",
            [.integer(-generation.value), .key(object.key)] + Encoding.columns(object.version)
        )
    }

    /// Forgets what a generation had become: it is about to be changed.
    func forgetArrival(of generation: GenerationID) throws(JournalError) {
        try connection.run("DELETE FROM released WHERE generation = ?", [.integer(-generation.value)])
        try connection.run(
            "UPDATE released SET key = NULL, tag = NULL, size = NULL, modified = NULL WHERE generation = ?",
            [.integer(generation.value)]
        )
    }

    /// Contents that became an object have become its copy, which takes its place.
    func moveArrivals(
        from source: (key: ObjectKey, version: ObjectVersion),
        to target: (key: ObjectKey, version: ObjectVersion)
    ) throws(JournalError) {
        try connection.run(
            """
            UPDATE released SET key = ?, tag = ?, size = ?, modified = ?
            WHERE key = ? AND tag IS ? AND size = ?
            """,
            [.key(target.key)] + Encoding.columns(target.version) + [.key(source.key)]
                + Encoding.columns(source.version).prefix(2)
        )
    }

    func forgetArrivals(before newest: Int64) throws(JournalError) {
        try connection.run(
            "DELETE FROM released WHERE generation < 0 AND generation > ?",
            [.integer(Self.knownArrivals - newest)]
        )
    }
}
