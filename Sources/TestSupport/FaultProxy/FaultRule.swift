// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How a connection is cut.
package enum CutStyle: String, Sendable, Hashable {
    /// RST, dropping what is unsent.
    case reset = "rst"
    /// FIN, after what was written.
    case finish = "fin"
}

/// A way of a connection's bytes.
package enum Direction: String, Sendable, Hashable {
    case request
    case response
}

/// An answer that the proxy gives in the upstream's place.
package struct CannedResponse: Sendable, Hashable {
    package var status: Int
    package var fields: [String]
    package var body: [UInt8]

    /// `fields` are whole lines, such as `Retry-After: 1`.
    package init(status: Int, fields: [String] = [], body: String = "") {
        self.status = status
        self.fields = fields
        self.body = Array(body.utf8)
    }

    package var serialized: [UInt8] {
        let head = ["HTTP/1.1 \(status) Fault", "Content-Length: \(body.count)"] + fields
        return Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body
    }
}

/// What is done to one exchange.
package enum FaultAction: Sendable, Hashable {
    /// Waits before the request is forwarded, until the rule is released or removed.
    case hold
    /// Waits that many milliseconds before the request is forwarded.
    case delay(milliseconds: Int)
    /// Takes the whole request and forwards it after that many milliseconds (nil: when the rule is released or
    /// removed), on a connection of its own, whether or not the client is there then; its answer goes nowhere.
    /// The client is cut once the request is here; without a style it is left waiting.
    case detain(milliseconds: Int?, CutStyle?)
    /// Takes the request and answers it; the upstream never sees it.
    case respond(CannedResponse)
    /// Lets the upstream answer, and keeps the answer until the rule is released or removed.
    case holdResponse
    /// Lets the upstream answer, and answers something else.
    case replaceResponse(CannedResponse)
    /// Lets the upstream answer, and cuts the client without a word.
    case dropResponse(CutStyle)
    /// Cuts both sides after that many bytes of the request's body were forwarded.
    case cutRequest(after: Int64, CutStyle)
    /// Cuts both sides after that many bytes of the response's body; 0 cuts after the head.
    case cutResponse(after: Int64, CutStyle)
    /// Stops relaying after that many bytes of the body, until the rule is released or removed.
    case stall(Direction, after: Int64)
    /// Sets a field of the final response.
    case setField(String, String)
    /// Ends the response's body after that many bytes and says so in Content-Length: short, but well-formed.
    case truncateResponse(after: Int64)
    /// Flips the bits of the byte at that offset of the response's body.
    case corruptResponse(at: Int64)
}

/// Which requests a rule is for; what is nil matches everything.
package struct RequestPattern: Sendable, Hashable {
    package var method: String?
    /// A part of the path, undecoded.
    package var path: String?
    /// A part of the query, undecoded.
    package var query: String?
    /// A text the query must not hold.
    package var notQuery: String?
    /// The name of a field the request must have.
    package var field: String?

    package init(
        method: String? = nil,
        path: String? = nil,
        query: String? = nil,
        notQuery: String? = nil,
        field: String? = nil
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.notQuery = notQuery
        self.field = field
    }

    package func matches(_ head: MessageHead) -> Bool {
        if let method, head.method != method { return false }
        if let path, !head.path.contains(path) { return false }
        if let query, !head.query.contains(query) { return false }
        if let notQuery, head.query.contains(notQuery) { return false }
        if let field, head.value(of: field) == nil { return false }
        return true
    }
}

/// An action for some of the requests of a pattern.
package struct FaultRule: Sendable {
    package var pattern: RequestPattern
    /// How many matching requests pass untouched first.
    package var skip: Int
    /// How many requests the action is done to then; nil for all.
    package var times: Int?
    package var action: FaultAction

    package init(_ action: FaultAction, for pattern: RequestPattern = .init(), skip: Int = 0, times: Int? = 1) {
        self.action = action
        self.pattern = pattern
        self.skip = skip
        self.times = times
    }
}
