// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CurlTransport
package import HTTPWire
package import ObjectStore
internal import S3Wire

extension S3Store {
    package func exchange(
        _ exchange: UploadExchange,
        informational: (@Sendable (Int, HTTPFields) -> Void)?,
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> UploadExchangeResponse {
        let transfer = try transferRequest(exchange)
        let response = try client.perform(
            transfer,
            limit: 64 << 10,
            informational: informational,
            progress: progress,
            cancellation: cancellation
        )
        return UploadExchangeResponse(
            status: response.status,
            fields: response.fields,
            body: response.body,
            url: transfer.url
        )
    }

    package func error(of response: UploadExchangeResponse) -> StoreError? {
        guard response.status >= 400 else { return nil }
        return S3ErrorMapping.error(status: response.status, fields: response.fields, body: response.body)
    }

    private func transferRequest(_ exchange: UploadExchange) throws(StoreError) -> TransferRequest {
        var transfer: TransferRequest
        switch exchange.target {
        case .object(let key):
            let path = client.endpoint.path(client.fullKey(key))
            transfer = TransferRequest(
                method: exchange.method,
                url: client.endpoint.url(path: path, query: URLQuery()),
                fields: exchange.fields,
                body: Self.body(exchange)
            )
            try client.sign(&transfer, path: path, query: URLQuery())
        case .resource(let url):
            guard let parts = URLParts(url), let path = PercentEncoding.decode(parts.path),
                let query = URLQuery(wire: parts.query ?? "")
            else { throw StoreError(.protocolViolation, "the upload's URL is not usable") }
            transfer = TransferRequest(
                method: exchange.method,
                url: url,
                fields: exchange.fields,
                body: Self.body(exchange)
            )
            // Another origin gets neither our key's name nor a signature.
            if parts.scheme == client.endpoint.scheme, parts.authority == client.endpoint.host {
                try client.sign(&transfer, path: path, query: query)
            }
        }
        transfer.isReplayable = transfer.body == nil
        transfer.connectTimeout = client.configuration.connectTimeout
        transfer.stallTimeout = client.configuration.stallTimeout
        // The last byte may have the server put the whole object together.
        transfer.answerTimeout =
            transfer.body == nil
            ? max(30, client.configuration.interactiveTimeout) : client.configuration.completionTimeout
        return transfer
    }

    /// The body; none for the methods that have none, an empty one for the others.
    private static func body(_ exchange: UploadExchange) -> TransferBody? {
        if let body = exchange.body { return body.transferBody }
        return ["POST", "PUT", "PATCH"].contains(exchange.method) ? .bytes([]) : nil
    }
}
