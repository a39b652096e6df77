#!/bin/sh
# Prints the root of a Swift toolchain with libdispatch and a compiler that knows blocks: the one
# that AYA_SWIFT_ROOT names, else that of the `swift` on PATH, else one that swiftly installed.
# Fails where there is none.
{
    printf '%s\n' "${AYA_SWIFT_ROOT:-}"
    if [ -z "${AYA_SWIFT_ROOT:-}" ]; then
        swift=$(command -v swift) && dirname "$(dirname "$(dirname "$(readlink -f "$swift")")")"
        ls -d "${SWIFTLY_HOME_DIR:-${HOME:-}/.local/share/swiftly}"/toolchains/* 2>/dev/null
    fi
} | while read -r root; do
    if [ -x "$root/usr/bin/clang" ] && [ -f "$root/usr/lib/swift/dispatch/dispatch.h" ] &&
        [ -f "$root/usr/lib/swift/linux/libdispatch.so" ]; then
        printf '%s\n' "$root"
        break
    fi
done | grep .
