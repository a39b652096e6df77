#!/bin/sh
# Builds the static liburing that a Linux wheel holds; run by cibuildwheel in its container.
# The release is the one that the tests were run with.
set -eu
command -v curl >/dev/null || apk add --no-cache curl
folder=$(mktemp -d)
cd "$folder"
curl -fsSL https://github.com/axboe/liburing/archive/refs/tags/liburing-2.3.tar.gz | tar -xz
cd liburing-liburing-2.3
export CFLAGS="-O2 -fPIC"
./configure --prefix=/usr
make -C src -j"$(nproc)" ENABLE_SHARED=0
make -C src install ENABLE_SHARED=0
rm -rf "$folder"
