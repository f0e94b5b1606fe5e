// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Makes a journal of today one of an older version: takes what later migrations added, the newest first.
enum OlderJournal {
    static let version11 = """
        ALTER TABLE doubt DROP COLUMN base;
        DROP TABLE link; DROP INDEX gs; DROP INDEX gb; DROP INDEX gu; DROP INDEX ng; DROP INDEX tg;
        CREATE INDEX generation_source ON generation (underlay_key) WHERE underlay_key IS NOT NULL;
        CREATE INDEX generation_below ON generation (underlay_generation) WHERE underlay_generation IS NOT NULL;
        CREATE INDEX generation_unsynced ON generation (id) WHERE is_synced = 0;
        CREATE INDEX node_generation ON node (generation) WHERE generation IS NOT NULL;
        CREATE INDEX transfer_generation ON transfer (generation);
        PRAGMA user_version = 11
        """

    static let version5 = """
        \(version11);
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
