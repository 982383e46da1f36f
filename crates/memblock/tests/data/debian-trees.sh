#!/usr/bin/env bash
# Unpacks the device trees of Debian's arm64 kernel package into a folder (60 MB to fetch; nothing is installed), for the
# test `debian_trees`:
#
#   bash crates/memblock/tests/data/debian-trees.sh target/debian-trees
#   SAMARA_DEBIAN_DTBS=$PWD/target/debian-trees cargo test -p samara-memblock --all-features --test firmware debian_trees
set -euo pipefail
mkdir -p "$1"
into=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
: > "$work/status"
cd "$work"
# Lists and state of its own: the machine's may know no arm64.
options=(-o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root
    -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o Dir::State::status="$work/status")
apt-get -q "${options[@]}" update
package=$(apt-cache "${options[@]}" depends linux-image-arm64 | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\)/\1/p' | head -n 1)
apt-get -q "${options[@]}" download "$package"
dpkg-deb --fsys-tarfile ./*.deb | tar -x -C "$into" --wildcards '*.dtb' --strip-components=4
echo "$(find "$into" -name '*.dtb' | wc -l) device trees of $package in $into"
