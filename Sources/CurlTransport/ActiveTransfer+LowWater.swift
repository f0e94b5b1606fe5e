// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CCurl
internal import Glibc

/// What of an answer says how it can be waited for; it stays until another answer begins.
struct MarkTerms {
    /// Not TLS, which hands over records of its own.
    let isPlain: Bool
    /// The length of the body, in bytes; nil when it was not told.
    let length: Int?
}

extension ActiveTransfer {
    /// Tells the delegate that libcurl has handed over all it had, and the kernel when to wake the thread for more.
    ///
    /// `waited`: how long the last wait for the network was; `now`: the time, both in monotonic seconds.
    func drain(waited: Double, now: Double) {
        if takeHasReceived() {
            delegate.transferDidDrain()
            let terms = markTerms ?? learnTerms()
            markTerms = terms
            // Where bandwidth is limited the kernel takes in little, and each piece is waited for.
            let isOfUse = terms.isPlain && gate?.receiveBuffer == nil
            if isOfUse { mark.note(received: Int(bytesReceived), of: terms.length, at: now) } else { mark.giveUp() }
        } else {
            mark.noteNothing(waited: waited, at: now)
        }
        if mark.bytes != markSet { setMark() }
    }

    private func learnTerms() -> MarkTerms {
        var length: curl_off_t = -1
        _ = moorage_curl_get_offset(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length)
        return MarkTerms(isPlain: request.url.hasPrefix("http://"), length: length < 0 ? nil : Int(length))
    }

    /// Has the connection tell of whatever comes, as at the beginning of an answer: the transfer before may have left a mark.
    func clearMark() {
        (mark, markTerms) = (LowWaterMark(), nil)
        if gate?.sockets.hasMarks == true { setMark() }
    }

    private func setMark() {
        guard let ports else { return }
        gate?.sockets.setMark(mark.bytes, localPort: ports.local, remotePort: ports.remote)
        markSet = mark.bytes
    }
}
