// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CCurl
internal import Glibc
internal import HTTPWire

extension ActiveTransfer {
    /// Sets every option; returns why the request cannot be sent, nil when it can.
    ///
    /// A kept connection may be `oldestConnection` seconds old at most.
    func configure(_ configuration: TransportConfiguration, oldestConnection: Double) -> TransferError? {
        guard request.method.utf8.allSatisfy(HTTPFields.isTokenCharacter), !request.method.isEmpty else {
            return TransferError(.invalidRequest, "a malformed method")
        }
        let isHTTP = request.url.hasPrefix("http://") || request.url.hasPrefix("https://")
        guard isHTTP, request.url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            return TransferError(.invalidRequest, "a malformed URL")
        }
        if let problem = makeHeaderList(configuration) { return problem }
        set(CURLOPT_URL, request.url)
        setMethod()
        setConnectionOptions(configuration)
        if oldestConnection < 2 {
            set(CURLOPT_FRESH_CONNECT, 1)
        } else if oldestConnection < 1e6 {
            // libcurl compares whole seconds, and one as old as that may still be used.
            set(CURLOPT_MAXLIFETIME_CONN, Int(oldestConnection) - 1)
        }
        // Another network may have other addresses for a name.
        set(CURLOPT_DNS_CACHE_TIMEOUT, Int(min(60, max(0, oldestConnection))))
        setCallbacks()
        return nil
    }

    private func makeHeaderList(_ configuration: TransportConfiguration) -> TransferError? {
        var lines: [String] = []
        for field in request.fields.fields {
            guard HTTPFields.isSafe(name: field.name, value: field.value) else {
                return TransferError(.invalidRequest, "header \(field.name.prefix(64)) holds a line break")
            }
            switch field.name.lowercased() {
            case "content-length", "expect", "accept-encoding", "connection": continue
            case "transfer-encoding": return TransferError(.invalidRequest, "transfer codings are not ours to choose")
            default: lines.append(field.value.isEmpty ? "\(field.name);" : "\(field.name): \(field.value)")
            }
        }
        lines.append("Accept-Encoding: identity")
        if request.fields["user-agent"] == nil { lines.append("User-Agent: \(configuration.userAgent)") }
        if request.expectTimeout == nil { lines.append("Expect:") }
        for line in lines {
            guard let list = curl_slist_append(headerList, line) else {
                return TransferError(.invalidRequest, "out of memory")
            }
            headerList = list
        }
        _ = moorage_curl_set_list(handle, CURLOPT_HTTPHEADER, headerList)
        return nil
    }

    private func setMethod() {
        switch (request.method, request.body) {
        case ("HEAD", nil): set(CURLOPT_NOBODY, 1)
        case ("GET", nil): set(CURLOPT_HTTPGET, 1)
        case (let method, nil):
            set(CURLOPT_HTTPGET, 1)
            set(CURLOPT_CUSTOMREQUEST, method)
        case (let method, let body?):
            set(CURLOPT_UPLOAD, 1)
            _ = moorage_curl_set_offset(handle, CURLOPT_INFILESIZE_LARGE, curl_off_t(body.count))
            set(CURLOPT_CUSTOMREQUEST, method)
        }
        if let timeout = request.expectTimeout { set(CURLOPT_EXPECT_100_TIMEOUT_MS, milliseconds(timeout)) }
    }

    private func setConnectionOptions(_ configuration: TransportConfiguration) {
        set(CURLOPT_NOSIGNAL, 1)
        set(CURLOPT_PROTOCOLS_STR, "http,https")
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        set(CURLOPT_FOLLOWLOCATION, 0)
        // Keys may hold `..`; what was signed is what must be sent.
        set(CURLOPT_PATH_AS_IS, 1)
        set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1)
        set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        if let bundle = configuration.certificateBundle { set(CURLOPT_CAINFO, bundle) }
        if request.showsClientCertificate, let certificate = configuration.clientCertificate {
            set(CURLOPT_SSLCERT, certificate)
            set(CURLOPT_SSLKEY, configuration.clientKey ?? certificate)
        }
        // The answer of a proxy to CONNECT is none of the server's.
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        set(CURLOPT_CONNECTTIMEOUT_MS, milliseconds(request.connectTimeout))
        set(CURLOPT_BUFFERSIZE, 512 << 10)
        set(CURLOPT_UPLOAD_BUFFERSIZE, 1 << 20)
        set(CURLOPT_TCP_KEEPALIVE, 1)
        set(CURLOPT_TCP_KEEPIDLE, 30)
        set(CURLOPT_TCP_KEEPINTVL, 10)
        // Some servers close what was idle for 5 s (Apache, Node). A request that crosses with that may not be repeated.
        set(CURLOPT_MAXAGE_CONN, request.isReplayable ? 60 : 3)
        _ = moorage_curl_set_pointer(handle, CURLOPT_ERRORBUFFER, errorText)
        // A flusher that the mount starts would keep connections open that the mount has given up.
        _ = moorage_curl_set_private_sockets(handle)
        _ = moorage_curl_set_sockopt_callback(handle, CURLOPT_SOCKOPTFUNCTION) { context, descriptor, _ in
            // Unacknowledged data for that long means a dead path, whatever the retransmission timer thinks.
            var limit: UInt32 = 60_000
            setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &limit, socklen_t(MemoryLayout<UInt32>.size))
            ActiveTransfer.of(context)?.gate?.sockets.note(descriptor)
            ActiveTransfer.of(context)?.gate?.boundReceiving(descriptor)
            if let transfer = ActiveTransfer.of(context), transfer.body != nil {
                transfer.gate?.yielding.mark(descriptor, as: transfer.trafficClass)
            }
            return CURL_SOCKOPT_OK
        }
    }

    private func setCallbacks() {
        let context = Unmanaged.passUnretained(self).toOpaque()
        _ = moorage_curl_set_pointer(handle, CURLOPT_SOCKOPTDATA, context)
        for option in [CURLOPT_HEADERDATA, CURLOPT_WRITEDATA, CURLOPT_READDATA, CURLOPT_SEEKDATA, CURLOPT_PRIVATE] {
            _ = moorage_curl_set_pointer(handle, option, context)
        }
        _ = moorage_curl_set_pointer(handle, CURLOPT_PREREQDATA, context)
        _ = moorage_curl_set_prereq_callback(handle, CURLOPT_PREREQFUNCTION) { context, _, _, _, _ in
            let mayBegin = ActiveTransfer.of(context)?.mayBegin() == true
            return mayBegin ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
        }
        _ = moorage_curl_set_data_callback(handle, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
            let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return ActiveTransfer.of(context)?.receivedHeader(line) == true ? size * count : 0
        }
        _ = moorage_curl_set_data_callback(handle, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            let piece = UnsafeRawBufferPointer(start: bytes, count: size * count)
            // Returning another number than was given is how to stop; 0 would not be that for no bytes.
            switch ActiveTransfer.of(context)?.receivedData(piece) ?? .refused {
            case .taken: return size * count
            case .held: return Int(CURL_WRITEFUNC_PAUSE)
            case .refused: return size * count + 1
            }
        }
        _ = moorage_curl_set_data_callback(handle, CURLOPT_READFUNCTION) { bytes, size, count, context in
            let buffer = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
            return ActiveTransfer.of(context)?.read(into: buffer) ?? Int(CURL_READFUNC_ABORT)
        }
        _ = moorage_curl_set_seek_callback(handle, CURLOPT_SEEKFUNCTION) { context, offset, origin in
            guard origin == SEEK_SET else { return CURL_SEEKFUNC_FAIL }
            let isDone = ActiveTransfer.of(context)?.body?.seek(to: Int64(offset)) == true
            return isDone ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL
        }
    }

    private func set(_ option: CURLoption, _ value: Int) {
        _ = moorage_curl_set_long(handle, option, value)
    }

    private func set(_ option: CURLoption, _ value: String) {
        _ = moorage_curl_set_string(handle, option, value)
    }

    private func milliseconds(_ seconds: Double) -> Int {
        max(1, Int(min(seconds, 86_400) * 1000))
    }
}
