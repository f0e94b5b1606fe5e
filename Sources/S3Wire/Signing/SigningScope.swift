// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Digests

/// The time, region and service a signature is for.
package struct SigningScope: Hashable, Sendable {
    /// `yyyymmddThhmmssZ`.
    package let timestamp: String
    package let region: String
    package let service: String

    package init(time: Timestamp, region: String, service: String = "s3") {
        timestamp = Self.format(time)
        self.region = region
        self.service = service
    }

    /// A scope with the client's own spelling of the time; nil when that is malformed.
    package init?(timestamp: String, region: String, service: String) {
        guard Self.parse(timestamp) != nil else { return nil }
        self.timestamp = timestamp
        self.region = region
        self.service = service
    }

    /// `yyyymmdd`.
    package var date: String { String(timestamp.prefix(8)) }

    /// The scope as the string to sign and the credential carry it.
    package var text: String { "\(date)/\(region)/\(service)/aws4_request" }

    /// The time as ISO 8601 basic format in UTC.
    package static func format(_ time: Timestamp) -> String {
        let date = time.civil
        return "\(padded(date.year, 4))\(padded(date.month, 2))\(padded(date.day, 2))T"
            + "\(padded(date.hour, 2))\(padded(date.minute, 2))\(padded(date.second, 2))Z"
    }

    /// Reads `yyyymmddThhmmssZ`; nil for anything else.
    package static func parse(_ text: String) -> Timestamp? {
        let bytes = Array(text.utf8)
        guard bytes.count == 16, bytes[8] == 0x54, bytes[15] == 0x5A else { return nil }
        func number(_ range: Range<Int>) -> Int? {
            bytes[range].reduce(Int?(0)) { total, digit in
                guard let total, digit >= 0x30, digit <= 0x39 else { return nil }
                return total * 10 + Int(digit - 0x30)
            }
        }
        guard let year = number(0..<4), let month = number(4..<6), let day = number(6..<8),
            let hour = number(9..<11), let minute = number(11..<13), let second = number(13..<15),
            (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60, second <= 60
        else { return nil }
        return Timestamp(
            Timestamp.Civil(year: year, month: month, day: day, hour: hour, minute: minute, second: second)
        )
    }
}

/// The key derived from a secret for one day, region and service; worth keeping for the day.
package struct SigningKey: Sendable {
    private let bytes: [UInt8]

    package init(secret: String, scope: SigningScope) {
        var key = Array("AWS4\(secret)".utf8)
        for step in [scope.date, scope.region, scope.service, "aws4_request"] {
            key = HMACSHA256.code(Array(step.utf8), key: key)
        }
        bytes = key
    }

    /// The signature of a string, as 64 hexadecimal digits.
    package func signature(of stringToSign: String) -> String {
        Hexadecimal.encode(HMACSHA256.code(Array(stringToSign.utf8), key: bytes))
    }
}
