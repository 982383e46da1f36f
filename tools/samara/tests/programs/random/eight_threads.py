import ctypes, threading, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mremap.restype = ctypes.c_void_p
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
N = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
P = 4096
FAIL = ctypes.c_void_p(-1).value
def work(seed):
    for i in range(N):
        pages = 2 + (seed * 7 + i) % 13
        a = libc.mmap(None, pages * P, 3, 0x22, -1, 0)
        assert a != FAIL
        if i % 3 == 0:
            ctypes.memset(a, 1, P)
        if i % 5 == 0:
            ctypes.memset(a + (pages - 1) * P, 1, P)
        assert libc.mprotect(a + P, P, 1) == 0
        b = libc.mremap(a, P, 3 * P, 1)
        assert b != FAIL
        if b != a:
            assert libc.munmap(b, 3 * P) == 0
            assert libc.munmap(a + P, (pages - 1) * P) == 0
        else:
            assert libc.munmap(a, max(pages, 3) * P) == 0
ts = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in ts]; [t.join() for t in ts]
