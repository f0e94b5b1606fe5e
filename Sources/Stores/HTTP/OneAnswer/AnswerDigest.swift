// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CXXHash

/// What the answers of one version have brought so far, as checksums: whether a later answer has the same bytes.
///
/// Servers without ranges send a file from its beginning each time, so that the part which was read before comes again.
/// An answer that is the same up to there, and goes on, is one version with all that was read; one that differs is another.
final class AnswerDigest {
    /// The bytes to a checksum.
    static let pieceSize: Int64 = 64 << 10

    /// The checksums of the complete pieces, in order.
    private var pieces: [UInt64] = []
    /// That of the beginning of the piece in which ``known`` ends.
    private var tail: UInt64?
    private let hash = XXH3_createState()
    /// How many bytes are known, from the file's beginning.
    private(set) var known: Int64 = 0
    /// How many the answer of now has brought.
    private(set) var position: Int64 = 0

    init() { XXH3_64bits_reset(hash) }

    deinit { XXH3_freeState(hash) }

    /// How many bytes of the answer of now are certain to be those of the answers before; all of them behind what is known.
    var verified: Int64 { position >= known ? position : position / Self.pieceSize * Self.pieceSize }

    /// Another answer comes, from the beginning.
    func begin() {
        if position == known { tail = XXH3_64bits_digest(hash) }
        position = 0
        XXH3_64bits_reset(hash)
    }

    /// Takes the next bytes of the answer; false when they are not what they were before.
    func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var done = 0
        while done < bytes.count {
            let pieceEnd = (position / Self.pieceSize + 1) * Self.pieceSize
            let end = position < known ? min(pieceEnd, known) : pieceEnd
            let count = min(bytes.count - done, Int(end - position))
            moorage_XXH3_64bits_update(hash, bytes.baseAddress.map { $0 + done }, count)
            done += count
            position += Int64(count)
            guard position < end || endsAsBefore(at: end, isWhole: end == pieceEnd) else { return false }
        }
        known = max(known, position)
        return true
    }

    /// Compares a piece, or the part of one that is known; what is new is noted.
    private func endsAsBefore(at end: Int64, isWhole: Bool) -> Bool {
        let digest = XXH3_64bits_digest(hash)
        guard isWhole else { return digest == tail }
        XXH3_64bits_reset(hash)
        let index = Int(end / Self.pieceSize) - 1
        if index < pieces.count { return pieces[index] == digest }
        pieces.append(digest)
        return true
    }
}
