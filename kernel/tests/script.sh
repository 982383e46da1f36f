# Ordinary uses of a shell, topic by topic. BusyBox runs it in an empty folder on Linux and in the
# guest. Both must print the same.
set -u
topic() { echo "== $1"; }

topic pipes
seq 1 1000 | sort -rn | head -3
printf 'b\na\nc\n' | sort | tr 'a-z' 'A-Z' | tr '\n' ' '; echo
echo one two three | awk '{ print NF, $2; for (i = 1; i <= NF; i++) n[length($i)]++ } END { for (k = 3; k <= 5; k++) print k, n[k] }'
yes | head -100000 | wc -c
{ echo out; echo err >&2; } 2>&1 | cat -n

topic here-documents
cat <<END | sed 's/x/y/g; 2d'
x1 $((6 * 7))
x2
x3 $(echo nested)
END
cat <<'END'
$not expanded
END

topic variables
a=hello; b=${a#he}; c=${a%lo}; echo "$b $c ${#a} ${d:-default} ${a:1:3}"
set -- one "two three" four; echo $# "$2"; shift; echo "$*"
f() { local a=inner; echo "$a $1"; return 3; }; f x; echo $? $a
IFS=:; for part in a:b:c; do echo "<$part>"; done; unset IFS
i=0; while [ $i -lt 3 ]; do i=$((i + 1)); [ $i = 2 ] && continue; echo "round $i"; done
case file.txt in *.c) echo c;; *.txt) echo text;; esac

topic files
mkdir -p a/b/c; echo content >a/b/c/file; ln -s b/c/file a/link; cat a/link
find a | sort; cp -r a copy; rm -r a; ls -R copy
echo more >>copy/b/c/file; wc copy/b/c/file; grep -c o copy/b/c/file
dd if=/dev/zero of=zeroes bs=1k count=64 2>/dev/null; ls -l zeroes | awk '{ print $5 }'
od -An -c zeroes | head -2; truncate -s 5 zeroes; stat -c '%s %F' zeroes
mv zeroes moved; [ -e zeroes ] || echo gone; chmod 751 moved; stat -c %a moved; touch -d '2001-02-03 04:05:06' moved; date -r moved +%s
cd copy; pwd | sed 's/.*\///'; cd ..; rm -r copy moved

topic sums
seq 1 50000 >numbers; sha256sum numbers; md5sum <numbers
gzip -c numbers | gunzip | cmp - numbers && echo same
tar cf - numbers | tar tf -; rm numbers

topic jobs
sleep 0.2 & wait $!; echo "waited $?"
(exit 7) & wait $!; echo "status $?"
sleep 100 & kill $!; wait $! 2>/dev/null; echo "killed $?"
for i in 1 2 3 4 5; do (echo $((i * i)) >"job$i") & done; wait; cat job1 job2 job3 job4 job5; rm job*
timeout 0.3 sleep 10; echo "late $?"
true

topic traps
( trap 'echo bye' EXIT; echo body )
( trap 'echo interrupted' USR1; kill -USR1 $(exec sh -c 'echo $PPID'); echo after )
( trap '' TERM; kill -TERM $(exec sh -c 'echo $PPID'); echo survived )
sh -c 'kill -SEGV $$'; echo "status $?"

topic substitution
echo "$(echo "inner $(echo deeper)")" `echo old`
n=$(seq 1 2000 | wc -l); echo $n
x=$(cat /no/such/file 2>&1); echo "$?" "$x"
mkfifo pipe; echo through >pipe & cat pipe; rm pipe; wait
echo "a b" | { read first second; echo "$second $first"; }
exec 3>third; echo to three >&3; exec 3>&-; cat third; rm third

topic processes
cat /proc/self/comm; cat /proc/self/cmdline | tr '\0' ' '; echo
i=0; while [ $i -lt 100 ]; do /bin/true 2>/dev/null || true; i=$((i + 1)); done; echo $i forks
echo 'echo "argument $1"; exit 5' >script; chmod +x script; sh script x; echo $?
env -i A=1 env; uname -s; id -u
exit 0
