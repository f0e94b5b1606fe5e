// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The digests and checksums that object stores and HTTP name.
package enum DigestAlgorithm: String, Hashable, Sendable, CaseIterable {
    case md5
    case sha1
    case sha256
    /// The CRC of Ethernet and zip (CRC-32/ISO-HDLC).
    case crc32
    /// Castagnoli's CRC, of iSCSI and ext4 (CRC-32/ISCSI).
    case crc32c
    /// The 64-bit CRC of NVMe (CRC-64/NVME).
    case crc64nvme

    /// The length of the value in bytes.
    package var byteCount: Int {
        switch self {
        case .md5: 16
        case .sha1: 20
        case .sha256: 32
        case .crc32, .crc32c: 4
        case .crc64nvme: 8
        }
    }
}
