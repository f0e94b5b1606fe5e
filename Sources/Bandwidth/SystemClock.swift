// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc

/// The time zone of this machine, or of `TZ`, as it is set now.
package struct SystemClock: LocalClock {
    package init() {}

    package func secondOfWeek(at time: Timestamp) -> Int {
        // localtime_r need not notice a zone that was changed since the first call (localtime_r(3)).
        tzset()
        var seconds = time_t(time.seconds)
        var parts = tm()
        guard localtime_r(&seconds, &parts) != nil else {
            return Int((time.seconds + 4 * 86_400) % (7 * 86_400))
        }
        return ((Int(parts.tm_wday) * 24 + Int(parts.tm_hour)) * 60 + Int(parts.tm_min)) * 60 + Int(parts.tm_sec)
    }
}
