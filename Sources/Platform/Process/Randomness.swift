// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CShims

/// Bytes from the kernel's generator (getrandom(2)), fit for secrets.
package enum Randomness {
    package static func bytes(_ count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while filled < count, let base = buffer.baseAddress {
                let result = moorage_getrandom(base + filled, count - filled)
                if result > 0 { filled += result }
            }
        }
    }

    /// `count` random bytes as lower-case hexadecimal digits.
    package static func hexadecimal(bytes count: Int) -> String {
        hexadecimalString(bytes(count))
    }
}

/// Bytes as lower-case hexadecimal digits.
package func hexadecimalString(_ bytes: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789abcdef".utf8)
    var text: [UInt8] = []
    for byte in bytes {
        text.append(digits[Int(byte >> 4)])
        text.append(digits[Int(byte & 15)])
    }
    return String(decoding: text, as: UTF8.self)
}
