#!/bin/sh
# Fills a folder with what a guest runs: root.sh FOLDER PROGRAM…
#
# Programs come with the libraries that they name, Python with the modules that the guest's programs import.
set -eu
root=$1
shift
here=$(dirname "$0")
rm -rf "$root"
mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/bin"

# A program or library, at its own path, and what it is linked with.
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
for program in "$@"; do
    put "$program"
    mv "$root$program" "$root/bin/"
done
cp "$here/init" "$root/init"
chmod +x "$root/init"
