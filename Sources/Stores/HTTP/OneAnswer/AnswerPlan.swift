// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What is to be done about the one answer of a file, as things are: a pure value.
///
/// Bytes come in order and from the beginning; those who read want any of them. Who came first decides whether the
/// answer begins again; another one serves all who wait then.
struct AnswerPlan: Hashable, Sendable {
    /// Somebody who waits for bytes.
    struct Waiting: Hashable, Sendable {
        /// The next byte, from the file's beginning.
        var offset: Int64
        /// It has passed already, and is not kept.
        var hasPassed: Bool
    }

    enum Step: Hashable, Sendable {
        /// Nothing is under way, and nothing is needed.
        case rest
        case goOn
        /// The server is kept waiting until somebody reads on.
        case hold
        /// The file is asked for, again if it was before; bytes from this offset on are kept.
        case ask(keepingFrom: Int64)
        /// Nobody wants it any more: what is under way ends, and memory is given back.
        case letGo
    }

    /// With no more than this to come the rest is let come, in bytes.
    static let nearEnd: Int64 = 1 << 20

    /// The file's size in bytes.
    var size: Int64
    /// How many bytes the answer under way has brought; nil: there is none.
    var position: Int64?
    /// Those who wait, who came first in front.
    var waiting: [Waiting] = []
    /// Somebody has the file open.
    var isOpen = false
    /// All that comes is kept on the disk.
    var isOnDisk = true
    /// The end of what anybody has asked for.
    var wantedEnd: Int64 = 0
    /// How many bytes beyond that are kept, where the disk does not.
    var room: Int64 = 0

    var step: Step {
        guard let first = waiting.first else { return stepWithoutReaders }
        guard position != nil, !first.hasPassed else {
            return .ask(keepingFrom: isOnDisk ? 0 : waiting.reduce(first.offset) { min($0, $1.offset) })
        }
        return mayGoOn ? .goOn : .hold
    }

    private var stepWithoutReaders: Step {
        guard let position else { return isOpen || isOnDisk ? .rest : .letGo }
        if isOpen { return mayGoOn ? .goOn : .hold }
        return mayGoOn && size - position <= Self.nearEnd ? .goOn : .letGo
    }

    private var mayGoOn: Bool { isOnDisk || (position ?? 0) < wantedEnd + room }
}
