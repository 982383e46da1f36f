import multiprocessing as m
def f(x):
    b = bytearray(x * 300000)
    return sum(b[::4096]) + x
if __name__ == "__main__":
    m.set_start_method("fork")
    with m.Pool(4) as p:
        print(sum(p.map(f, range(40))))
