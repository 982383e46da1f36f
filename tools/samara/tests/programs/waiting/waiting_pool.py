# Processes that have forked and wait, with memory that they share and memory that they have written since.
import mmap
import multiprocessing
import sys
import time

kept = [str(number) for number in range(100000)]
shared = mmap.mmap(-1, 1 << 20)


def wait(number):
    for place in range(0, len(kept), number + 2):
        kept[place] = number
    shared[number << 12] = 1
    time.sleep(1000)


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    for number in range(4):
        context.Process(target=wait, args=(number,), daemon=True).start()
    sys.stdin.read()
