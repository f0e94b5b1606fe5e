// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The journal's tables, version by version; Docs/Journal.md says what the columns mean.
enum Schema {
    static let migrations = [
        first, leftovers, doubts, failedSyncs, devices, compositions, extended, metVersions, checksums,
        deferrals, fileSettings, links, closes, firstNames, replaced,
    ].map { compact($0) }

    // SQLite keeps this text on the first page of the file: where it spills onto another one, damage to that page too
    // takes every row away. So it is kept short: INT says the same as INTEGER, but where a row is its own name.
    private static func compact(_ text: String) -> String {
        var result = ""
        let words = text.split(whereSeparator: { $0 == " " || $0 == "\n" })
        for (index, word) in words.enumerated() {
            if let last = result.last, !",()".contains(last), word.first != "(", word.first != ")" { result += " " }
            let isName = index + 1 < words.count && words[index + 1] == "PRIMARY"
            result += word.hasPrefix("INTEGER") && !isName ? "INT" + word.dropFirst(7) : String(word)
        }
        return result
    }

    private static let leftovers = """
        CREATE TABLE leftover (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            key BLOB NOT NULL,
            method INTEGER NOT NULL,
            upload TEXT,
            interop_version INTEGER NOT NULL,
            transfer INTEGER,
            began_at INTEGER NOT NULL,
            doubted_at INTEGER
        );
        """

    private static let first = """
        CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
        INSERT INTO meta VALUES ('sequence', 0), ('durable', 0);
        CREATE TABLE generation (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            size INTEGER NOT NULL,
            extents BLOB NOT NULL,
            underlay INTEGER NOT NULL,
            underlay_key BLOB,
            underlay_tag TEXT,
            underlay_size INTEGER,
            underlay_modified INTEGER,
            underlay_generation INTEGER,
            underlay_length INTEGER NOT NULL,
            is_sealed INTEGER NOT NULL,
            is_synced INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            is_recorded INTEGER NOT NULL,
            synced_size INTEGER,
            synced_extents BLOB,
            synced_underlay_length INTEGER
        );
        CREATE INDEX generation_source ON generation (underlay_key) WHERE underlay_key IS NOT NULL;
        CREATE INDEX generation_below ON generation (underlay_generation) WHERE underlay_generation IS NOT NULL;
        CREATE INDEX generation_unsynced ON generation (id) WHERE is_synced = 0;
        CREATE TABLE node (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            parent BLOB NOT NULL,
            name BLOB NOT NULL,
            kind INTEGER NOT NULL,
            mode INTEGER NOT NULL,
            uid INTEGER NOT NULL,
            gid INTEGER NOT NULL,
            modified INTEGER NOT NULL,
            target BLOB,
            generation INTEGER,
            base INTEGER NOT NULL,
            base_tag TEXT,
            base_size INTEGER,
            base_modified INTEGER,
            has_remote_directory INTEGER NOT NULL,
            is_open INTEGER NOT NULL,
            changed_at INTEGER NOT NULL,
            attribute_sequence INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            first_sequence INTEGER NOT NULL,
            is_paused INTEGER NOT NULL,
            not_before INTEGER,
            priority INTEGER NOT NULL,
            attempts INTEGER NOT NULL,
            next_attempt INTEGER,
            last_error TEXT,
            attention TEXT,
            conflict_of BLOB,
            UNIQUE (parent, name)
        );
        CREATE INDEX node_generation ON node (generation) WHERE generation IS NOT NULL;
        CREATE INDEX node_first ON node (first_sequence);
        CREATE TABLE transfer (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            node INTEGER NOT NULL,
            generation INTEGER,
            key BLOB NOT NULL,
            method INTEGER NOT NULL,
            attribute_sequence INTEGER NOT NULL,
            start_sequence INTEGER NOT NULL,
            base INTEGER NOT NULL,
            base_tag TEXT,
            base_size INTEGER,
            base_modified INTEGER,
            phase INTEGER NOT NULL,
            upload TEXT,
            interop_version INTEGER NOT NULL,
            part_size INTEGER NOT NULL,
            size INTEGER NOT NULL,
            acknowledged INTEGER NOT NULL,
            expected_tag TEXT,
            started_at INTEGER NOT NULL
        );
        CREATE INDEX transfer_key ON transfer (key);
        CREATE INDEX transfer_node ON transfer (node);
        CREATE INDEX transfer_generation ON transfer (generation);
        CREATE TABLE part (
            transfer INTEGER NOT NULL,
            number INTEGER NOT NULL,
            size INTEGER NOT NULL,
            digest BLOB NOT NULL,
            tag TEXT NOT NULL,
            PRIMARY KEY (transfer, number)
        ) WITHOUT ROWID;
        CREATE TABLE released (
            generation INTEGER PRIMARY KEY,
            key BLOB,
            tag TEXT,
            size INTEGER,
            modified INTEGER
        );
        CREATE TABLE conflict (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            path BLOB NOT NULL,
            copy BLOB NOT NULL,
            detected_at INTEGER NOT NULL,
            remote TEXT NOT NULL
        );
        """

    private static let doubts = """
        CREATE TABLE doubt (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            key BLOB NOT NULL,
            kind INTEGER NOT NULL,
            tag TEXT,
            size INTEGER NOT NULL,
            ends_at INTEGER
        );
        CREATE INDEX doubt_key ON doubt (key);
        """

    private static let failedSyncs = "ALTER TABLE generation ADD COLUMN doubt INTEGER NOT NULL DEFAULT 0"

    // A row with a negative generation says that its checksums are pending. Content that is there already is such.
    private static let checksums = """
        ALTER TABLE generation ADD checksums INT;
        CREATE TABLE checksum (generation, row, covered, sums, PRIMARY KEY (generation, row)) WITHOUT ROWID;
        UPDATE generation SET checksums = 2 WHERE is_sealed = 1 AND is_synced = 1 AND length(extents) > 0;
        INSERT INTO checksum SELECT -id, 0, '', '' FROM generation WHERE checksums = 2;
        """

    private static let devices = "ALTER TABLE node ADD COLUMN device INTEGER NOT NULL DEFAULT 0"

    private static let compositions = "ALTER TABLE transfer ADD COLUMN composition BLOB"

    private static let metVersions = """
        ALTER TABLE conflict ADD COLUMN tag TEXT;
        ALTER TABLE conflict ADD COLUMN size INTEGER;
        ALTER TABLE conflict ADD COLUMN modified INTEGER;
        """

    private static let deferrals = """
        ALTER TABLE node ADD COLUMN deadline INTEGER;
        ALTER TABLE node ADD COLUMN is_discretionary INTEGER
        """

    // The column that this one takes the place of stays: a flusher of before may have the file open.
    private static let fileSettings = """
        ALTER TABLE node ADD own TEXT;
        UPDATE node SET own = 'discretionary=1' WHERE is_discretionary = 1;
        CREATE INDEX node_own ON node (own) WHERE own > ''
        """

    // The names of files with several; what is at the remote by a name where no row tells, and which content that is.
    // Indexes get shorter names, which are on the first page twice each, to make room for it there.
    private static let links = """
        DROP INDEX generation_source; DROP INDEX generation_below; DROP INDEX generation_unsynced;
        DROP INDEX node_generation; DROP INDEX transfer_generation;
        CREATE TABLE link (parent, name, file, first, content, base, tag, size, modified, PRIMARY KEY (parent, name))
            WITHOUT ROWID;
        CREATE INDEX lf ON link (file);
        CREATE INDEX gs ON generation (underlay_key) WHERE underlay_key NOTNULL;
        CREATE INDEX gb ON generation (underlay_generation) WHERE underlay_generation NOTNULL;
        CREATE INDEX gu ON generation (id) WHERE is_synced=0;
        CREATE INDEX ng ON node (generation) WHERE generation NOTNULL;
        CREATE INDEX tg ON transfer (generation)
        """

    // No table is another one; but a version before would take the files away that the close log tells of.
    private static let closes = "INSERT OR REPLACE INTO meta VALUES ('closes', '')"

    // With thousands of names the first one is found without a look at each.
    private static let firstNames = "DROP INDEX lf; CREATE INDEX l ON link (file, first)"

    // What a write in doubt was conditional on.
    private static let replaced = "ALTER TABLE doubt ADD base TEXT"

    private static let extended = "ALTER TABLE node ADD COLUMN xattr TEXT"
}
