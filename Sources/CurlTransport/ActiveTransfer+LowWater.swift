// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CCurl
internal import Glibc

extension ActiveTransfer {
    /// Tells the delegate that libcurl has handed over all it had, and the kernel when to wake the thread for more.
    ///
    /// `waited`: how long the last wait for the network was; `now`: the time, both in monotonic seconds.
    func drain(waited: Double, now: Double) {
        if takeHasReceived() {
            delegate.transferDidDrain()
            if isMarkOfUse { mark.note(received: Int(bytesReceived), of: length, at: now) } else { mark.giveUp() }
        } else {
            mark.noteNothing(waited: waited, at: now)
        }
        if mark.bytes != markSet { setMark() }
    }

    /// Where bandwidth is limited the kernel takes in little, and each piece is waited for.
    private var isMarkOfUse: Bool { request.url.hasPrefix("http://") && gate?.receiveBuffer == nil }

    /// Has the connection tell of whatever comes, as at the beginning of an answer: the transfer before may have left a mark.
    func clearMark() {
        mark = LowWaterMark()
        if gate?.sockets.hasMarks == true { setMark() }
    }

    private func setMark() {
        guard let ports else { return }
        gate?.sockets.setMark(mark.bytes, localPort: ports.local, remotePort: ports.remote)
        markSet = mark.bytes
    }

    /// The length of the answer's body, in bytes; nil when it was not told.
    private var length: Int? {
        var length: curl_off_t = -1
        _ = moorage_curl_get_offset(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length)
        return length < 0 ? nil : Int(length)
    }
}
