// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CommandLineTool
internal import Glibc
internal import Platform

@main
struct Main {
    static func main() {
        exit(CommandLineTool.main(ProgramArguments.all()))
    }
}
