# Programs that take all memory are killed, and the script continues. It runs in the guest with 128
# MiB.
cd /tmp
hog; echo "touched by itself: $?"
hog some 64; echo "$?"
hog read; echo "written by the kernel: $?"
sh -c 'hog; echo "child $?"'
hog bomb; echo "bomb $?"
hog some 64; echo "$?"
(hog forks; kill -9 -1) ; wait; echo "forks"
hog pipes; echo "pipes $?"
hog some 64; echo "$?"
hog threads; echo "threads $?"
hog some 64; echo "$?"
echo "$(seq 1 1000 | wc -l) lines"
