// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CCurl

extension TransferError {
    /// The error of a libcurl result; `detail` is its error buffer, which names hosts and ports only.
    init(_ code: CURLcode, detail: String, bytesSent: Int64) {
        let general = curl_easy_strerror(code).map { String(cString: $0) } ?? "libcurl error \(code.rawValue)"
        // libcurl's own words for a header line that is too long for it.
        let said = code == CURLE_OUT_OF_MEMORY ? "a header line of the answer is too long, or memory is out" : detail
        self.init(Self.kind(code), said.isEmpty ? general : said, bytesSent: bytesSent)
    }

    private static func kind(_ code: CURLcode) -> Kind {
        switch code {
        case CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT, CURLE_INTERFACE_FAILED,
            CURLE_PROXY, CURLE_OPERATION_TIMEDOUT, CURLE_SSL_CONNECT_ERROR, CURLE_NO_CONNECTION_AVAILABLE:
            // The only time limit libcurl itself has here is that of connecting.
            .unreachable
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER, CURLE_SSL_CACERT_BADFILE,
            CURLE_SSL_ISSUER_ERROR, CURLE_SSL_PINNEDPUBKEYNOTMATCH, CURLE_SSL_INVALIDCERTSTATUS,
            CURLE_SSL_ENGINE_INITFAILED, CURLE_USE_SSL_FAILED:
            .insecure
        case CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_PARTIAL_FILE, CURLE_SEND_FAIL_REWIND,
            CURLE_HTTP2, CURLE_HTTP2_STREAM, CURLE_SSL_SHUTDOWN_FAILED, CURLE_AGAIN:
            .connectionLost
        case CURLE_URL_MALFORMAT, CURLE_BAD_FUNCTION_ARGUMENT, CURLE_UNKNOWN_OPTION, CURLE_NOT_BUILT_IN,
            CURLE_FAILED_INIT:
            .invalidRequest
        case CURLE_READ_ERROR: .localInput
        case CURLE_WRITE_ERROR: .refusedByDelegate
        // Also CURLE_UNSUPPORTED_PROTOCOL, an answer without a status line (only http and https URLs get this far),
        // and CURLE_OUT_OF_MEMORY.
        default: .protocolViolation
        }
    }
}
