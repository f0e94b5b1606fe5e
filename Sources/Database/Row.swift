// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CSQLite

/// The current row of a running statement; valid only within the closure it is given to.
///
/// Columns count from 0. A null reads as 0, an empty string or an empty blob
/// unless the optional form is used.
package struct Row {
    let statement: OpaquePointer

    package func isNull(_ column: Int32) -> Bool { sqlite3_column_type(statement, column) == SQLITE_NULL }

    package func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(statement, column) }

    package func optionalInteger(_ column: Int32) -> Int64? { isNull(column) ? nil : integer(column) }

    package func bool(_ column: Int32) -> Bool { sqlite3_column_int64(statement, column) != 0 }

    package func text(_ column: Int32) -> String {
        guard let bytes = sqlite3_column_text(statement, column) else { return "" }
        let count = Int(sqlite3_column_bytes(statement, column))
        return String(decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self)
    }

    package func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }

    package func blob(_ column: Int32) -> [UInt8] {
        guard let bytes = sqlite3_column_blob(statement, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(statement, column))))
    }

    package func optionalBlob(_ column: Int32) -> [UInt8]? { isNull(column) ? nil : blob(column) }

    package func key(_ column: Int32) -> ObjectKey { ObjectKey(bytes: blob(column)) }

    package func optionalKey(_ column: Int32) -> ObjectKey? { isNull(column) ? nil : key(column) }

    package func time(_ column: Int32) -> Timestamp { Timestamp(nanoseconds: integer(column)) }

    package func optionalTime(_ column: Int32) -> Timestamp? { isNull(column) ? nil : time(column) }

    /// The number of columns.
    package var count: Int32 { sqlite3_column_count(statement) }

    /// The value of a column in the type it is stored in; a real number reads as an integer.
    package func value(_ column: Int32) -> Value {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_NULL: .null
        case SQLITE_TEXT: .text(text(column))
        case SQLITE_BLOB: .blob(blob(column))
        default: .integer(integer(column))
        }
    }
}
