// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import HTTPWire

extension Timestamp {
    /// Reads a time as S3 writes it in XML, such as `2009-10-12T17:50:30.000Z`: RFC 3339 in UTC.
    ///
    /// A fraction of 0 to 9 digits is kept; other zones and forms give nil.
    package init?(s3 text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count >= 20, bytes[4] == 0x2D, bytes[7] == 0x2D, bytes[10] == 0x54 || bytes[10] == 0x74,
            bytes[13] == 0x3A, bytes[16] == 0x3A, bytes.last == 0x5A || bytes.last == 0x7A,
            let year = decimalNumber(bytes[0..<4]), let month = decimalNumber(bytes[5..<7]),
            let day = decimalNumber(bytes[8..<10]), let hour = decimalNumber(bytes[11..<13]),
            let minute = decimalNumber(bytes[14..<16]), let second = decimalNumber(bytes[17..<19]),
            (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60, second <= 60
        else { return nil }
        var nanoseconds: Int64 = 0
        let fraction = bytes[19..<(bytes.count - 1)]
        if !fraction.isEmpty {
            guard fraction.first == 0x2E, fraction.count <= 10, let digits = decimalNumber(fraction.dropFirst()) else {
                return nil
            }
            nanoseconds = (fraction.count..<10).reduce(digits) { value, _ in value * 10 }
        }
        let whole = Timestamp(
            Timestamp.Civil(
                year: Int(year),
                month: Int(month),
                day: Int(day),
                hour: Int(hour),
                minute: Int(minute),
                second: Int(second)
            )
        )
        self.init(seconds: whole.seconds, nanoseconds: nanoseconds)
    }
}
