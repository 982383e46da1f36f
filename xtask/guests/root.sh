#!/bin/sh
# Fills a folder with the files of a guest: root.sh FOLDER PROGRAM…
#
# It adds the libraries of the programs, and the Python modules that the guest's programs import.
set -eu
root=$1
shift
here=$(dirname "$0")
rm -rf "$root"
mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/bin"

# Copies a program or library to its own path, with the libraries it is linked with.
put() {
    mkdir -p "$root$(dirname "$1")"
    cp -L "$1" "$root$1"
    ldd "$1" 2>/dev/null | grep -o '/[^ )]*' | while read -r library; do
        [ -e "$root$library" ] || {
            mkdir -p "$root$(dirname "$library")"
            cp -L "$library" "$root$library"
        }
    done
}

for program in /bin/dash /bin/bash /bin/ls /bin/cat /usr/bin/sort /usr/bin/xz /usr/bin/setarch /usr/bin/python3; do
    if [ -e "$program" ]; then put "$program"; else echo "skipped: no $program for the guests" >&2; fi
done
ln -sf dash "$root/bin/sh"
cp "$(command -v busybox)" "$root/bin/busybox"
if [ -e /usr/bin/python3 ]; then
    library=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
    mkdir -p "$root$library"
    cp "$library"/*.py "$root$library"
    for part in encodings collections importlib re json; do
        [ ! -d "$library/$part" ] || cp -r "$library/$part" "$root$library"
    done
    find "$root$library" -name __pycache__ -prune -exec rm -rf {} +
fi
# 32-bit programs, and a 64-bit program that makes calls of both system call tables.
programs=$here/../../tools/samara/tests/programs
for kind in "" -static -no-pie -static-pie "-z execstack"; do
    narrow=/bin/narrow$(echo "$kind" | tr -d ' ')
    # shellcheck disable=SC2086 # Some kinds are two words.
    cc -m32 -O1 -pthread $kind -o "$root$narrow" "$programs/calls/narrow.c"
    ldd "$root$narrow" 2>/dev/null | grep -o '/[^ )]*' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -Lu "$library" "$root$library"
    done
done
cc -O1 -pthread -o "$root/bin/wide" "$programs/calls/narrow.c"
cc -O1 -static -o "$root/bin/huge-hints" "$programs/huge/huge_hints.c"
cc -O1 -w -pthread -o "$root/bin/any-calls" "$programs/random/any_calls.c"
# Programs that were once traced wrongly. Left out are those that want arguments or input, that wait
# until they are killed (shared_kinds), or that create so many VMAs that comparing all of them after
# each call takes hours (more_areas).
mkdir "$root/bin/found"
for source in "$programs"/*/*.c; do
    name=$(basename "$source" .c)
    case $name in
        any_calls | attached_to | checked | cold_writes | fork_tree | in_handler | leaderless | many_threads | more_areas | narrow | \
        shared_kinds | states | still_server | storm | thirty_thousand | waits_for_vfork) ;;
        *) cc -O1 -w -pthread -I "$programs/include" -o "$root/bin/found/$name" "$source" ;;
    esac
done
for program in "$@"; do
    put "$program"
    mv "$root$program" "$root/bin/"
done
cp "$here/init" "$root/init"
chmod +x "$root/init"
