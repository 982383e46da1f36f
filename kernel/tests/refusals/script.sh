# A short sample of what a shell does. The tier makes each of its allocations fail once. A command
# that fails ends the script.
set -e -o pipefail
echo one two | tr a-z A-Z
x=$(echo inner); echo $x
rm -rf folder; mkdir folder; echo content >folder/file; ln -s file folder/link; cat folder/link; rm -r folder
cat <<END
here
END
seq 1 300 | sort -rn | sed -n 1p
(exit 7) || echo $?
sleep 0 & wait $!
trap 'echo trapped' USR1; kill -USR1 $$
grep -c rw-p /proc/self/maps >/dev/null
dd if=/dev/zero bs=64k count=2 2>/dev/null | wc -c
/tests/touch
