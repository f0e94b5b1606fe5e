// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import Platform

/// Writing status lines and fields so that no value can begin a line of its own.
enum HTTPResponseHead {
    /// The bytes of a head, with the empty line behind it.
    static func encoded(_ status: Int, _ fields: HTTPFields) -> [UInt8] {
        var bytes = Array("HTTP/1.1 \(status) \(reason(status))\r\n".utf8)
        bytes.reserveCapacity(512)
        for field in fields.fields where field.name.utf8.allSatisfy(HTTPOctet.isTokenCharacter) {
            bytes.append(contentsOf: field.name.utf8)
            bytes.append(HTTPOctet.colon)
            bytes.append(HTTPOctet.space)
            for octet in field.value.utf8 {
                bytes.append(HTTPOctet.isFieldCharacter(octet) ? octet : HTTPOctet.space)
            }
            bytes.append(HTTPOctet.carriageReturn)
            bytes.append(HTTPOctet.lineFeed)
        }
        bytes.append(HTTPOctet.carriageReturn)
        bytes.append(HTTPOctet.lineFeed)
        return bytes
    }

    /// The reason phrase of a status.
    static func reason(_ status: Int) -> String { reasons[status] ?? "Status \(status)" }

    private static let reasons: [Int: String] = [
        100: "Continue", 102: "Processing", 104: "Upload Resumption Supported",
        200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 206: "Partial Content",
        301: "Moved Permanently", 302: "Found", 303: "See Other", 304: "Not Modified", 307: "Temporary Redirect",
        308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
        405: "Method Not Allowed", 408: "Request Timeout", 409: "Conflict", 410: "Gone", 411: "Length Required",
        412: "Precondition Failed", 413: "Content Too Large", 414: "URI Too Long", 415: "Unsupported Media Type",
        416: "Range Not Satisfiable", 417: "Expectation Failed", 422: "Unprocessable Content", 423: "Locked",
        429: "Too Many Requests", 431: "Request Header Fields Too Large", 500: "Internal Server Error",
        501: "Not Implemented", 503: "Service Unavailable", 505: "HTTP Version Not Supported",
        507: "Insufficient Storage",
    ]
}
