// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Platform
import TestSupport
import Testing

@testable import BucketServer

/// Compares listings of a folder with those computed from the set of keys.
@Suite struct ObjectListerTests {
    private static let names = ["a", "a-", "a.b", "ab", "b", "é", "z0", "_"]

    private func randomKeys(_ generator: inout SeededGenerator) -> Set<String> {
        var keys: Set<String> = []
        for _ in 0..<40 {
            let depth = Int.random(in: 1...4, using: &generator)
            let key = (0..<depth).compactMap { _ in Self.names.randomElement(using: &generator) }.joined(separator: "/")
            let isMarker = Int.random(in: 0..<5, using: &generator) == 0
            // A key cannot be beside a folder of its name.
            let parents = key.indices.filter { key[$0] == "/" }.map { String(key[..<$0]) }
            guard !keys.contains(where: { $0.hasPrefix(key + "/") }), !keys.contains(key),
                !parents.contains(where: { keys.contains($0) })
            else { continue }
            keys.insert(isMarker ? key + "/" : key)
        }
        return keys
    }

    /// What S3 says a listing is.
    private func expected(_ keys: Set<String>, _ request: ListingRequest) -> [[UInt8]] {
        var items: [[UInt8]] = []
        for key in keys.map({ Array($0.utf8) }).sorted(by: FolderListing.precedes)
        where key.starts(with: request.prefix) {
            var item = key
            if !request.delimiter.isEmpty,
                let end = firstEnd(of: request.delimiter, in: key, from: request.prefix.count)
            {
                item = Array(key[..<end])
                let isShown =
                    FolderListing.precedes(request.after, item)
                    || (request.after.starts(with: item) && request.after != item)
                if !isShown { continue }
            } else if !FolderListing.precedes(request.after, key) {
                continue
            }
            if items.last != item { items.append(item) }
        }
        return items
    }

    private func firstEnd(of delimiter: [UInt8], in key: [UInt8], from start: Int) -> Int? {
        guard key.count >= start + delimiter.count else { return nil }
        return (start...(key.count - delimiter.count)).first {
            Array(key[$0..<($0 + delimiter.count)]) == delimiter
        }.map { $0 + delimiter.count }
    }

    @Test func listingsAreThoseOfTheSetOfKeys() throws {
        var generator = SeededGenerator.random("listingsAreThoseOfTheSetOfKeys")
        for _ in 0..<15 {
            let folder = try TestFolder()
            let storage = try folder.storage()
            let keys = randomKeys(&generator)
            for key in keys { try storage.put(key) }
            for _ in 0..<60 {
                var request = ListingRequest()
                request.maxKeys = Int.random(in: 1...12, using: &generator)
                request.prefix = Self.randomPart(keys, &generator)
                request.after = Self.randomPart(keys, &generator)
                request.delimiter =
                    [[], Array("/".utf8), Array("-".utf8), Array("a".utf8)].randomElement(using: &generator) ?? []
                let wanted = expected(keys, request)
                let page = try storage.list(ObjectKey("bucket"), request)
                #expect(page.items.map(\.key.bytes) == Array(wanted.prefix(request.maxKeys)), "\(request) of \(keys)")
                #expect(page.isTruncated == (wanted.count > request.maxKeys), "\(request) of \(keys)")
            }
        }
    }

    private static func randomPart(_ keys: Set<String>, _ generator: inout SeededGenerator) -> [UInt8] {
        guard Int.random(in: 0..<3, using: &generator) > 0, let key = keys.randomElement(using: &generator) else {
            return []
        }
        let bytes = Array(key.utf8)
        return Array(bytes[..<Int.random(in: 0...bytes.count, using: &generator)])
    }

    @Test func pagesJoinToTheWholeList() throws {
        var generator = SeededGenerator.random("pagesJoinToTheWholeList")
        let folder = try TestFolder()
        let storage = try folder.storage()
        for key in randomKeys(&generator) { try storage.put(key) }
        for number in 0..<300 { try storage.put("many/\(number)") }
        for delimiter in [[], Array("/".utf8)] {
            var request = ListingRequest(delimiter: delimiter)
            let whole = try storage.keys(request)
            request.maxKeys = 7
            var joined: [String] = []
            while true {
                let page = try storage.list(ObjectKey("bucket"), request)
                joined += page.items.map(\.key.string)
                guard page.isTruncated, let last = page.items.last else { break }
                request.after = last.key.bytes
            }
            #expect(joined == whole)
        }
    }

    @Test func aFolderThatChangesIsListedAnew() throws {
        let folder = try TestFolder()
        let storage = try folder.storage()
        for number in 0..<400 { try storage.put("d/\(number)") }
        for round in 0..<5 {
            #expect(try storage.keys().count == 400 + round)
            try storage.put("d/new\(round)")
        }
    }

    @Test func keysMayBeHundredsOfFoldersDeep() throws {
        let folder = try TestFolder()
        let storage = try folder.storage()
        let key = String(repeating: "d/", count: 511) + "k"
        try storage.put(key)
        #expect(try storage.keys() == [key])
        try storage.remove(key)
        #expect(try Files.names(in: folder.path + "/bucket").isEmpty)
    }
}
