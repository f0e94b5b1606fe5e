// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Makes a journal of today one of an older version: takes what later migrations added, the newest first.
enum OlderJournal {
    static let version5 = """
        DROP TABLE checksum; ALTER TABLE generation DROP COLUMN checksums;
        ALTER TABLE conflict DROP COLUMN tag; ALTER TABLE conflict DROP COLUMN size;
        ALTER TABLE conflict DROP COLUMN modified;
        DROP INDEX node_own; ALTER TABLE node DROP COLUMN own;
        ALTER TABLE node DROP COLUMN deadline; ALTER TABLE node DROP COLUMN is_discretionary;
        ALTER TABLE node DROP COLUMN xattr; ALTER TABLE transfer DROP COLUMN composition;
        PRAGMA user_version = 5
        """

    static let version3 = """
        \(version5); ALTER TABLE node DROP COLUMN device; ALTER TABLE generation DROP COLUMN doubt;
        PRAGMA user_version = 3
        """
}
