// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How many threads serve requests, and what the one that took or answered a request does next; a pure value.
///
/// A few threads take requests one after another, each the next one as soon as it has answered: while programs ask faster
/// than they are answered none of these sleeps, and nobody need be woken for a request. What keeps a thread for longer, a
/// wait for the remote or a disk that stands still, has another one take its place, as long as there may be more.
struct LoopThreads: Hashable, Sendable {
    /// Who takes the place of a thread that took a request.
    enum Substitute: Hashable, Sendable {
        /// Others wait for requests, or there are as many threads as there may be.
        case none
        /// The thread that was parked last.
        case parked
        case new
    }

    /// What a thread does that has answered a request.
    enum Next: Hashable, Sendable {
        case receive
        /// Enough wait for requests: it sleeps until it is needed.
        case park
        case end
    }

    /// How many wait for requests when there is little to do, and may work without having others take the next ones.
    private let enough: Int
    private let parkedLimit: Int
    private let limit: Int
    /// Threads that wait for a request.
    private(set) var receiving = 0
    private(set) var parked = 0
    /// Threads that wait for something on behalf of a request.
    private(set) var waiting = 0
    private(set) var count = 0
    private(set) var isEnding = false

    /// All at least 1, `limit` the number of threads in all.
    init(enough: Int, parkedLimit: Int, limit: Int) {
        self.enough = enough
        self.parkedLimit = parkedLimit
        self.limit = limit
    }

    /// Counts the first thread.
    mutating func begin() {
        count = 1
        receiving = 1
    }

    /// A thread took a request and works on it.
    mutating func took() -> Substitute {
        receiving -= 1
        return working < enough ? substitute() : .none
    }

    /// A thread begins to wait for something other than a processor.
    mutating func waits() -> Substitute {
        waiting += 1
        return substitute()
    }

    /// It has got what it waited for, or not, and works on.
    mutating func resumes() { waiting -= 1 }

    /// Nobody has got on for a while: all that work may be waiting without having said so.
    mutating func stands() -> Substitute { substitute() }

    private var working: Int { count - receiving - parked - waiting }

    private mutating func substitute() -> Substitute {
        guard receiving == 0, !isEnding else { return .none }
        if parked > 0 {
            parked -= 1
            receiving += 1
            return .parked
        }
        guard count < limit else { return .none }
        count += 1
        receiving += 1
        return .new
    }

    /// The system gave no thread; the request that is worked on is followed by the next.
    mutating func couldNotStart() {
        count -= 1
        receiving -= 1
    }

    /// A thread answered its request.
    mutating func answered() -> Next {
        guard !isEnding, receiving >= enough else {
            receiving += 1
            return .receive
        }
        guard parked < parkedLimit else {
            count -= 1
            return .end
        }
        parked += 1
        return .park
    }

    /// A thread that waited for requests saw the end of the session; the parked are all woken, to see it too.
    mutating func sawTheEnd() {
        isEnding = true
        receiving += parked - 1
        parked = 0
        count -= 1
    }
}
